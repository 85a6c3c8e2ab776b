"""The client's identity and the certificates it trusts: a user for basic auth, PEM files for https."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kconnect.client.trust import trusting
from kconnect.errors import ConfigError

if TYPE_CHECKING:
    import ssl


@dataclass(frozen=True, slots=True)
class ClientAccess:
    """The client's identity and the certificates it trusts: basic auth, and PEM files for https.

    `ca` replaces the system's certificates; `cert` with `key` (or both in one file) is sent to a worker that requests
    it; `key_password` decrypts the key.
    """

    user: str | None = None
    password: str | None = field(default=None, repr=False)
    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    key_password: str | None = field(default=None, repr=False)

    def headers(self) -> dict[str, str]:
        """The headers that identify the user in a request; empty without a user."""
        if self.user is None:
            return {}
        login = f"{self.user}:{self.password or ''}".encode()
        return {"authorization": f"Basic {b64encode(login).decode()}"}

    def tls(self) -> ssl.SSLContext:
        """The TLS context. Errors: ConfigError that names the file."""
        import ssl

        try:
            context = trusting(self.ca)
        except (OSError, ssl.SSLError) as err:
            raise ConfigError(
                f"{self.ca} cannot be used as CA certificates: {_why(err)}", hint="It holds PEM text."
            ) from err
        if self.cert is not None:
            try:
                # Without a password OpenSSL would prompt for one to decrypt the key
                context.load_cert_chain(self.cert, self.key, self.key_password or "")
            except (OSError, ssl.SSLError) as err:
                names = self.cert if self.key is None else f"{self.cert} and {self.key}"
                raise ConfigError(
                    f"{names} cannot be used as a certificate with its key: {_why(err)}",
                    hint="Both hold PEM text; a key under a passphrase needs its password (KCONNECT_KEY_PASSWORD).",
                ) from err
        return context


def _why(err: OSError) -> str:
    """OpenSSL's reason is for developers; a file that is not there has a plain one."""
    if isinstance(err, FileNotFoundError):
        return "the file does not exist"
    return err.strerror or str(err)
