"""The request for tokens: how this server authenticates, and what a bad answer becomes."""

from base64 import b64decode
from typing import Any
from urllib.parse import parse_qs

import httpx
import pytest

from app.errors import ProblemError
from app.security.oidc.provider import ANSWER_BYTES_MAX, Metadata, Provider, Tokens
from app.settings import Settings
from engine.clock import ManualClock

pytestmark = pytest.mark.anyio

ISSUER = "https://idp.example.org"
NAME, SECRET = "https://me:1", "s c:%+/ü"
TOKENS = {"id_token": "t", "access_token": "a", "token_type": "Bearer"}


def provider_of(
    monkeypatch: pytest.MonkeyPatch, answer: Any, secret: str, methods: tuple[str, ...]
) -> tuple[Provider, list[httpx.Request]]:
    """A provider whose token endpoint gives `answer`, and the requests that it gets."""
    requests: list[httpx.Request] = []

    async def send(_: Any, request: httpx.Request, **__: Any) -> httpx.Response:
        requests.append(request)
        body = httpx.Response(200, json=answer).content
        return httpx.Response(200, stream=httpx.ByteStream(body), request=request)

    monkeypatch.setattr(httpx.AsyncClient, "send", send)
    settings = Settings(oidc_issuer=ISSUER, oidc_client_id=NAME, oidc_client_secret=secret)
    provider, clock = Provider(settings, ManualClock()), ManualClock()
    metadata = Metadata(
        ISSUER, f"{ISSUER}/a", f"{ISSUER}/t", f"{ISSUER}/k",
        token_endpoint_auth_methods_supported=methods,
    )  # fmt: skip
    provider._metadata = (metadata, clock.monotonic_s())
    return provider, requests


@pytest.mark.parametrize(
    ("secret", "methods", "form", "pair"),
    [
        ("", (), {"client_id": NAME}, ""),
        (SECRET, ("client_secret_post",), {"client_id": NAME, "client_secret": SECRET}, ""),
        (SECRET, ("private_key_jwt",), {}, "https%3A%2F%2Fme%3A1:s%20c%3A%25%2B%2F%C3%BC"),
    ],
)
async def test_the_server_authenticates_in_a_way_that_the_provider_knows(
    monkeypatch: pytest.MonkeyPatch,
    secret: str,
    methods: tuple[str, ...],
    form: dict[str, str],
    pair: str,
) -> None:
    provider, requests = provider_of(monkeypatch, TOKENS, secret, methods)
    assert await provider.redeem("c o", "v", "https://k/cb") == Tokens("t", "a")
    sent = {name: values[0] for name, values in parse_qs(requests[0].content.decode()).items()}
    asked = {"grant_type": "authorization_code", "code": "c o", "code_verifier": "v"}
    assert sent == asked | {"redirect_uri": "https://k/cb"} | form
    authorization = requests[0].headers.get("authorization", "")
    assert b64decode(authorization.removeprefix("Basic ")).decode() == pair


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ({"error": "access_denied", "error_description": "gehört nicht dazu"}, "oidc_denied"),
        ({"error": ["x"], "error_description": {"a": 1}}, "oidc_denied"),
        ({"error": "invalid_client"}, "oidc_unreachable"),
        ({}, "oidc_unreachable"),
        ([], "oidc_unreachable"),
        ({"id_token": 7}, "oidc_unreachable"),
        (TOKENS | {"expires_in": "soon"}, "oidc_unreachable"),
        (TOKENS | {"padding": "x" * ANSWER_BYTES_MAX}, "oidc_unreachable"),
    ],
    ids=lambda value: str(value)[:40],
)
async def test_an_answer_without_tokens_is_refused_in_words(
    monkeypatch: pytest.MonkeyPatch, answer: Any, code: str
) -> None:
    provider, _ = provider_of(monkeypatch, answer, SECRET, ())
    with pytest.raises(ProblemError) as caught:
        await provider.redeem("c", "v", "https://k/cb")
    assert caught.value.code == code
