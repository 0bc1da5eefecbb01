"""Steps of a login through a provider, as a browser takes them."""

from typing import Any

import httpx

from app.security.authenticator import COOKIE
from tests.app.conftest import App
from tests.app.security.oidc.strange_provider import StrangeProvider


async def leave(app: App, then: str = "/topics") -> str:
    """Press the button; where the browser is sent."""
    answer = await app.http.get("/login/provider", params={"next": then})
    assert answer.status_code == 303, answer.text
    return answer.headers["location"]


async def come_back(app: App, provider: StrangeProvider, **claims: Any) -> httpx.Response:
    """Log in at the provider and come back; `claims` are what it then tells."""
    sent = provider.expect(await leave(app), app.clock.now_ms(), **claims)
    return await arrive(app, sent)


async def arrive(app: App, sent: dict[str, str], **changes: str) -> httpx.Response:
    query = {"code": "good", "state": sent["state"], **changes}
    return await app.http.get("/login/callback", params=query)


def refused(answer: httpx.Response, code: str, status: int = 403) -> str:
    """The page of a login that failed, which says why; nobody is logged in."""
    assert answer.status_code == status, answer.text
    assert f"<code>{code}</code>" in answer.text
    assert COOKIE not in answer.headers.get("set-cookie", "")
    return answer.text
