"""How workers of a cluster authenticate each other: session keys, and signatures of their REST requests (KIP-507).

Pure: no clock, no I/O. `machine` decides when to replace a key. A request is checked against the current key only: one
signed with the previous key is refused and retried.
Source: InternalRequestSignature, DistributedHerder#requestNotSignedProperly, DistributedConfig
#getInternalRequestKeyGenerator (Kafka 4.3); the sizes of keys are those of SunJCE's KeyGenerators.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
import secrets
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from kconnect.errors import BadRequestError, ForbiddenError, NotReadyError
from kconnect.runtime.config.distributed_keys import MAC_NAMES
from kconnect.runtime.storage.session_key import SessionKey

SIGNATURE_HEADER: Final = "X-Connect-Authorization"
ALGORITHM_HEADER: Final = "X-Connect-Request-Signature-Algorithm"

_KEY_BYTES: Final = {
    "HmacMD5": 64,
    "HmacSHA1": 64,
    "HmacSHA224": 28,
    "HmacSHA256": 32,
    "HmacSHA384": 48,
    "HmacSHA512": 64,
    "HmacSHA3-224": 28,
    "HmacSHA3-256": 32,
    "HmacSHA3-384": 48,
    "HmacSHA3-512": 64,
}
# Java finds algorithms in any letter case, and compares with the permitted ones as written
_MACS: Final = {name.lower(): python_name for name, python_name in MAC_NAMES.items()}
_NOT_BASE64: Final = re.compile(rb"[^A-Za-z0-9+/=]")


@dataclass(frozen=True, slots=True)
class KeyForm:
    """How a worker generates keys: inter.worker.key.generation.algorithm and .size."""

    algorithm: str = "HmacSHA256"
    size_bytes: int = 32


def key_form(algorithm: str, size_bits: int | None) -> KeyForm:
    """The form in the settings; without a size, the algorithm's default."""
    return KeyForm(algorithm, _KEY_BYTES[algorithm] if size_bits is None else (size_bits + 7) // 8)


def new_key(form: KeyForm, created_ms: int, random: Callable[[int], bytes] = secrets.token_bytes) -> SessionKey:
    return SessionKey(random(form.size_bytes), form.algorithm, created_ms)


def signature_headers(key: SessionKey, body: bytes, algorithm: str) -> dict[str, str]:
    """Headers that sign a body as a cluster's worker. `algorithm`: inter.worker.signature.algorithm."""
    return {
        SIGNATURE_HEADER: base64.b64encode(_mac(key, body, algorithm)).decode("ascii"),
        ALGORITHM_HEADER: algorithm,
    }


def sign(key: SessionKey, message: bytes) -> bytes:
    """A code for our own headers, with a key derived from the session key, so that no signature of KIP-507 is one."""
    return hmac.digest(hmac.digest(key.key, b"kconnect: callers of forwarded requests", "sha256"), message, "sha256")


@dataclass(frozen=True, slots=True)
class RequestSignature:
    """The signature of a request, over its raw body."""

    algorithm: str
    signature: bytes = field(repr=False)
    body: bytes = field(repr=False)

    @classmethod
    def of(cls, headers: Mapping[str, str], body: bytes) -> RequestSignature | None:
        """The signature in these headers, whose names are in lower case; None if one of the two is missing.

        Errors: BadRequestError for an unknown algorithm or invalid base64.
        """
        algorithm, encoded = headers.get(ALGORITHM_HEADER.lower()), headers.get(SIGNATURE_HEADER.lower())
        if algorithm is None or encoded is None:
            return None
        if algorithm.lower() not in _MACS:
            raise BadRequestError(f"Algorithm {algorithm} not available")
        return cls(algorithm, _decoded(encoded), body)

    def is_valid(self, key: SessionKey) -> bool:
        return hmac.compare_digest(_mac(key, self.body, self.algorithm), self.signature)


def check_signature(signature: RequestSignature | None, key: SessionKey | None, permitted: Collection[str]) -> None:
    """Whether a worker of the cluster signed it. `permitted`: inter.worker.verification.algorithms.

    Errors: BadRequestError, ForbiddenError, NotReadyError, in Java's words.
    """
    if signature is None:
        raise BadRequestError("Internal request missing required signature")
    if signature.algorithm not in permitted:
        raise BadRequestError(
            f"This worker does not support the '{signature.algorithm}' key signing algorithm used by other workers. "
            f"This worker is currently configured to use: [{', '.join(permitted)}]. Check that all workers' "
            "configuration files permit the same set of signature algorithms, and correct any misconfigured worker and "
            "restart it."
        )
    if key is None:
        raise NotReadyError(
            "This worker is still starting up and has not been able to read a session key from the config topic yet"
        )
    if not signature.is_valid(key):
        raise ForbiddenError("Internal request contained invalid signature.")


def _mac(key: SessionKey, body: bytes, algorithm: str) -> bytes:
    return hmac.digest(key.key, body, _MACS[algorithm.lower()])


def _decoded(encoded: str) -> bytes:
    """Decodes as Java's basic decoder: no other characters; `=` at the end may be missing. Errors: BadRequestError."""
    raw = encoded.encode("latin-1", "replace")
    if wrong := _NOT_BASE64.search(raw):
        raise BadRequestError(f"Illegal base64 character {wrong[0][0]:x}")
    try:
        return base64.b64decode(raw + b"=" * (-len(raw) % 4), validate=True)
    except binascii.Error as err:
        raise BadRequestError(f"{SIGNATURE_HEADER} is not base64: {err}") from None
