"""Entity tags: which version of a connector's config, or offsets, a client has seen (RFC 9110, `ETag` and `If-Match`).

A tag is made of the content, so all workers of a cluster give the same, whoever wrote it. Pure.
Differs: Java's workers give no tags, and do not look at `If-Match`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from kconnect.errors import PreconditionFailedError
from kconnect.model import ConnectorOffset

ANY: Final = "*"
"""`If-Match: *`: it must exist, in whatever version."""
_CONFIG, _OFFSETS = "c-", "o-"
# Enough that no two versions ever have the same one
_DIGITS: Final = 32


def config_etag(config: Mapping[str, str]) -> str:
    """Gives the ETag of a connector's config, with quotes."""
    return _tag(_CONFIG, dict(config))


def offsets_etag(offsets: Sequence[ConnectorOffset]) -> str:
    """Gives the ETag of a connector's offsets, in any order, with quotes."""
    items = sorted(json.dumps(offset.to_json(), sort_keys=True) for offset in offsets)
    return _tag(_OFFSETS, items)


def require_config(expected: Collection[str] | None, name: str, config: Mapping[str, str] | None) -> None:
    """Whether a connector is as the client knows it; `config` None: there is none. Errors: PreconditionFailedError."""
    if expected is None:
        return
    if config is None:
        raise PreconditionFailedError(f"Connector {name} does not exist, and If-Match expects it to")
    current = config_etag(config)
    if ANY not in expected and current not in expected:
        raise PreconditionFailedError(
            f"The config of connector {name} is not the one that If-Match expects: it was changed in the meantime. "
            "Read it again, and repeat the change if you still want it",
            etag=current,
        )


def tags_of_offsets(
    expected: Collection[str] | None, name: str, config: Mapping[str, str] | None
) -> Collection[str] | None:
    """Tags that must yet be compared with the offsets; None if the config's tag is enough.

    Errors: PreconditionFailedError.
    """
    if expected is None or config is None or ANY in expected or config_etag(config) in expected:
        require_config(None if config is not None else expected, name, config)
        return None
    of_offsets = [tag for tag in expected if tag.startswith(f'"{_OFFSETS}')]
    if not of_offsets:
        require_config(expected, name, config)
    return of_offsets


def require_offsets_match(expected: Collection[str] | None, name: str, offsets: Sequence[ConnectorOffset]) -> None:
    """Errors: PreconditionFailedError."""
    if expected is None or (current := offsets_etag(offsets)) in expected:
        return
    raise PreconditionFailedError(
        f"The offsets of connector {name} are not those that If-Match expects: they were changed in the meantime. "
        "Read them again, and repeat the change if you still want it",
        etag=current,
    )


def _tag(kind: str, content: object) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return f'"{kind}{hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:_DIGITS]}"'
