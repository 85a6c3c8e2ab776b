"""Client of Connect's REST API, of our workers and Java's alike: one method per endpoint.

Used by the command line and by tests; needs nothing of a worker but its URL, and nothing beyond the standard library:
commands that answer in 0.3 s have no time to import an HTTP library (`transport.py` has the measure).
"""

from kconnect.client.access import ClientAccess
from kconnect.client.connect_client import ConnectClient
from kconnect.client.http_messages import Request, Response
from kconnect.client.transport import Transport

__all__ = ["ClientAccess", "ConnectClient", "Request", "Response", "Transport"]
