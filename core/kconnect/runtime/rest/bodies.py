"""Bodies of requests, up to a limit."""

from __future__ import annotations

from starlette.requests import Request


class BodyTooLargeError(Exception):
    """A body exceeds the limit."""


async def read_body(request: Request, limit: int) -> bytes:
    """The whole body. Errors: BodyTooLargeError as soon as it is longer than `limit` bytes."""
    chunks: list[bytes] = []
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > limit:
            raise BodyTooLargeError(f"The body is larger than {limit} bytes (setting kconnect.rest.max.body.bytes)")
        chunks.append(chunk)
    return b"".join(chunks)
