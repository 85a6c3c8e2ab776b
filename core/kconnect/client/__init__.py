"""Client of Connect's REST API, for our workers and Java's: one method per endpoint.

Used by the command line and by tests; needs only a worker's URL. Below it is the HTTP exchange of all rooms,
`http_exchange.py`, on the standard library alone: commands that answer in 0.35 s have no time to import another.
"""

from kconnect.client.access import ClientAccess
from kconnect.client.connect_client import ConnectClient
from kconnect.client.http_exchange import Request, Response
from kconnect.client.transport import Transport

__all__ = ["ClientAccess", "ConnectClient", "Request", "Response", "Transport"]
