"""One request to a worker's REST API, ours or Java's."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

from kit.pace import ample_s


def request_json(url: str, method: str, body: Any = None, *, timeout_s: float = 30.0) -> tuple[int, Any]:
    """Status and JSON body of the answer, whatever the status; None for no body, text for a body of another kind.

    Jetty answers in HTML while a worker of Java's starts.
    """
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, method=method, headers={"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=ample_s(timeout_s)) as answer:
            status, headers, text = answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as answer:
        with answer:
            status, headers, text = answer.code, answer.headers, answer.read()
    if headers.get_content_type() != "application/json":
        return status, text.decode() or None
    return status, json.loads(text) if text else None
