"""The state of a login at the provider, kept in a signed cookie of the browser.

State, nonce and PKCE verifier are derived from the cookie with a key that never leaves the process:
the server keeps nothing for logins that are never finished, and a restart ends those under way.
"""

import hmac
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass

import msgspec

from engine.clock import Clock

LIFETIME_S = 600
KEY_BYTES = 32
ID_BYTES = 24
PATH_CHARS_MAX = 2000  # so that the cookie stays within a browser's 4096
COOKIE_CHARS_MAX = 4096


@dataclass(frozen=True)
class LoginState:
    """One login; `next_path` is the page to show after it, the secrets have 43 characters."""

    cookie: str
    next_path: str
    state: str
    nonce: str
    verifier: str


class LoginStates:
    """Creates login states and reads them back from cookies."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._key = secrets.token_bytes(KEY_BYTES)

    def create(self, next_path: str) -> LoginState:
        """A new state, valid for LIFETIME_S."""
        next_path = next_path if len(next_path) <= PATH_CHARS_MAX else "/"
        expires_ms = self._clock.now_ms() + LIFETIME_S * 1000
        fields = (secrets.token_urlsafe(ID_BYTES), next_path, expires_ms)
        return self._derived(_text(msgspec.json.encode(fields)), next_path)

    def read(self, cookie: str) -> LoginState | None:
        """The state in a cookie; None if it has expired or this process did not sign it."""
        payload, _, signature = cookie[:COOKIE_CHARS_MAX].rpartition(".")
        if not hmac.compare_digest(signature.encode(), self._sign("cookie", payload).encode()):
            return None
        data = urlsafe_b64decode(payload + "=" * (-len(payload) % 4))
        _, next_path, expires_ms = msgspec.json.decode(data, type=tuple[str, str, int])
        return self._derived(payload, next_path) if expires_ms > self._clock.now_ms() else None

    def _derived(self, payload: str, next_path: str) -> LoginState:
        state, nonce, verifier = (self._sign(use, payload) for use in ("state", "nonce", "pkce"))
        cookie = f"{payload}.{self._sign('cookie', payload)}"
        return LoginState(cookie, next_path, state, nonce, verifier)

    def _sign(self, use: str, text: str) -> str:
        mac = hmac.new(self._key, f"{use}:{text}".encode("utf-8", "surrogateescape"), "sha256")
        return _text(mac.digest())


def _text(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()
