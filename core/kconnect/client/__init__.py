"""Client of Connect's REST API, for our workers and Java's: one method per endpoint.

Used by the command line and by tests; needs only a worker's URL, and only the standard library: commands that answer in
0.3 s have no time to import an HTTP library (`transport.py` has the measurement).
"""

from kconnect.client.access import ClientAccess
from kconnect.client.connect_client import ConnectClient
from kconnect.client.http_messages import Request, Response
from kconnect.client.transport import Transport

__all__ = ["ClientAccess", "ConnectClient", "Request", "Response", "Transport"]
