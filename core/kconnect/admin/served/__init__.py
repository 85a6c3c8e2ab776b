"""What a worker reads from its Kafka for who knows its URL alone: the group, records, dead letters, sinks' targets.

`routes.py` has the routes of the worker's REST server (`served_endpoints`), and is imported by `worker`; what they do
is in `handlers.py` and `replay.py`, which the first request loads. `letters.py` has what these share with commands and
pages about dead letters. Each is imported by name: routes need a web server.
"""
