"""Who may do what over REST: callers, roles, and what an operation needs.

Imported by the rest of `rest`; imports neither routes nor the server. `needs.py` is what routes declare, `roles.py`
decides, `roles_file.py` reads, `callers.py` says who calls, `access.py` asks all of them about one request.
"""
