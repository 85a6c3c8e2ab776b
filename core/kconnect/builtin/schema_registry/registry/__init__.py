"""The client of Confluent's API, and what the converters share: subjects, registration, the wire format.

registration.py is the part of a converter that they share; registry_client.py asks and remembers, registry_http.py
carries.
"""
