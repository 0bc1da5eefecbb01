"""A small OpenID Connect provider that does as it is told, wrong things above all.

For what no real provider would ever send; `tests/app/ui/access/test_provider_login.py` has a real
one.
"""

import hashlib
import hmac
import json
import threading
from base64 import b64decode, urlsafe_b64encode
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from joserfc import jwt
from joserfc.jwk import RSAKey

CLIENT = "kitemq"
SECRET = "a secret: with + and / in it"


class StrangeProvider:
    """`expect` what a browser was sent with, then everything here shapes the answer."""

    def __init__(self) -> None:
        self.keys = [key_of("one")]
        self.signer = self.keys[0]
        self.header: dict[str, Any] = {"alg": "RS256", "kid": "one"}
        self.claims: dict[str, Any] = {}
        self.userinfo: dict[str, Any] = {}
        self.metadata: dict[str, Any] = {}
        self.status = 200
        self.padding = ""  # what blows up the discovery document
        self.token = ""  # in place of a signed one
        self.asked: list[str] = []
        self._challenge = ""
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    @property
    def issuer(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> "StrangeProvider":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def expect(self, address: str, now_ms: int, **claims: Any) -> dict[str, str]:
        """Take over what a browser was sent with; a good token for it, and what it came with."""
        sent = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
        self._challenge = sent["code_challenge"]
        now_s = now_ms // 1000
        self.claims = {
            "iss": self.issuer,
            "aud": CLIENT,
            "sub": "subject-1",
            "iat": now_s,
            "exp": now_s + 300,
            "nonce": sent["nonce"],
            "preferred_username": "alice",
            "groups": ["kite-viewers"],
            **claims,
        }
        return sent

    def rotate(self, kid: str) -> None:
        """Sign with a new key from now on, the old one is gone."""
        self.keys = [key_of(kid)]
        self.signer = self.keys[0]
        self.header = {"alg": "RS256", "kid": kid}

    def answer(self, path: str, form: dict[str, str], authorization: str) -> tuple[int, Any]:
        """Status and document for one request."""
        self.asked.append(path)
        if self.status != 200:
            return self.status, {}
        if path == "/.well-known/openid-configuration":
            return 200, self._discovery()
        if path == "/keys":
            return 200, {"keys": [key.as_dict(private=False) for key in self.keys]}
        if path == "/userinfo":
            return 200, self.userinfo
        return self._redeemed(form, authorization)

    def _discovery(self) -> dict[str, Any]:
        return {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/auth?tenant=1",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
            "userinfo_endpoint": f"{self.issuer}/userinfo",
            "padding": self.padding,
            **self.metadata,
        }

    def _redeemed(self, form: dict[str, str], authorization: str) -> tuple[int, Any]:
        name, _, secret = b64decode(authorization.removeprefix("Basic ")).decode().partition(":")
        if (unquote(name), unquote(secret)) != (CLIENT, SECRET):
            return 401, {"error": "invalid_client"}
        verifier = hashlib.sha256(form["code_verifier"].encode()).digest()
        if _text(verifier) != self._challenge:
            return 400, {"error": "invalid_grant", "error_description": "PKCE"}
        if form["code"] != "good":
            return 400, {"error": "invalid_grant", "error_description": "no such code"}
        token = self.token or jwt.encode(
            self.header, self.claims, self.signer, algorithms=[self.header["alg"]]
        )
        return 200, {"id_token": token, "access_token": "at", "token_type": "Bearer"}


@cache
def key_of(kid: str) -> RSAKey:
    """A key of that name, the same one for every test: making one takes half a second."""
    return RSAKey.generate_key(2048, {"kid": kid, "use": "sig"})


def unsigned(claims: dict[str, Any]) -> str:
    """A token with `alg: none`."""
    return f"{_joined('none', claims)}."


def with_secret(claims: dict[str, Any], secret: bytes) -> str:
    """A token that is signed with what others know, too."""
    text = _joined("HS256", claims)
    return f"{text}.{_text(hmac.digest(secret, text.encode(), 'sha256'))}"


def _joined(algorithm: str, claims: dict[str, Any]) -> str:
    parts = ({"alg": algorithm, "typ": "JWT", "kid": "one"}, claims)
    return ".".join(_text(json.dumps(part).encode()) for part in parts)


def _text(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")


def _handler(provider: StrangeProvider) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._say({})

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            self._say({name: values[0] for name, values in parse_qs(body).items()})

        def _say(self, form: dict[str, str]) -> None:
            authorization = self.headers.get("Authorization", "")
            status, document = provider.answer(urlsplit(self.path).path, form, authorization)
            data = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Quiet."""

    return Handler
