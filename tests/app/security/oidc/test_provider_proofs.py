"""What a provider's answer must prove: every token, key and answer that lets nobody in."""

from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from app.security.oidc.login_state import LIFETIME_S
from tests.app.conftest import URL, App
from tests.app.security.oidc.provider_steps import arrive, come_back, leave, refused
from tests.app.security.oidc.strange_provider import (
    CLIENT,
    SECRET,
    StrangeProvider,
    key_of,
    unsigned,
    with_secret,
)

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ({"iss": "https://evil.example"}, "iss"),
        ({"aud": "another-client"}, "aud"),
        ({"aud": [CLIENT, "another-client"]}, "azp"),
        ({"azp": "another-client"}, "azp"),
        ({"nonce": "of another login"}, "nonce"),
        ({"nonce": None}, "nonce"),
        ({"sub": None}, "sub"),
        ({"sub": "x" * 256}, "sub"),
        ({"exp": 1}, "exp"),
        ({"exp": "tomorrow"}, "exp"),
        ({"iat": 10**11}, "iat"),
        ({"nbf": 10**11}, "nbf"),
        ({"at_hash": "AAAAAAAAAAAAAAAAAAAAAA"}, "at_hash"),
    ],
)
async def test_a_token_whose_claims_do_not_fit_proves_nothing(
    served: App, provider: StrangeProvider, claims: dict[str, Any], why: str
) -> None:
    page = refused(await come_back(served, provider, **claims), "oidc_token")
    assert f"({why})" in page


async def test_the_providers_clock_may_be_off_by_a_minute_and_no_more(
    served: App, provider: StrangeProvider
) -> None:
    now_s = served.clock.now_ms() // 1000
    for off_s, status in ((-55, 303), (-65, 403)):
        answer = await come_back(served, provider, exp=now_s + off_s)
        assert answer.status_code == status, off_s
    for off_s, status in ((55, 303), (65, 403)):
        answer = await come_back(served, provider, iat=now_s + off_s)
        assert answer.status_code == status, off_s


async def test_a_token_that_nobody_signed_proves_nothing(
    served: App, provider: StrangeProvider
) -> None:
    sent = provider.expect(await leave(served), served.clock.now_ms())
    provider.token = unsigned(provider.claims)
    refused(await arrive(served, sent), "oidc_token")
    for token in ("", "a.b.c", "not a token at all", "x" * 20_000):
        sent = provider.expect(await leave(served), served.clock.now_ms())
        provider.token = token or "."
        refused(await arrive(served, sent), "oidc_token")


async def test_a_shared_secret_signs_nothing(served: App, provider: StrangeProvider) -> None:
    """Neither the client's secret, nor the public key taken for a secret."""
    public = provider.keys[0].as_pem(private=False)
    for secret in (SECRET.encode(), public):
        sent = provider.expect(await leave(served), served.clock.now_ms())
        provider.token = with_secret(provider.claims, secret)
        refused(await arrive(served, sent), "oidc_token")


async def test_a_key_that_the_provider_does_not_publish_signs_nothing(
    served: App, provider: StrangeProvider
) -> None:
    provider.signer = key_of("of somebody else")
    for kid in ("one", "unknown"):
        provider.header = {"alg": "RS256", "kid": kid}
        refused(await come_back(served, provider), "oidc_token")


async def test_new_keys_are_fetched_when_a_token_names_one_but_not_all_the_time(
    served: App, provider: StrangeProvider
) -> None:
    assert (await come_back(served, provider)).status_code == 303
    provider.rotate("two")
    refused(await come_back(served, provider), "oidc_token")  # asked within the last ten seconds
    assert provider.asked.count("/keys") == 1
    served.clock.advance(11)
    assert (await come_back(served, provider)).status_code == 303
    assert (await come_back(served, provider)).status_code == 303
    assert provider.asked.count("/keys") == 2
    assert provider.asked.count("/.well-known/openid-configuration") == 1


async def test_a_login_ends_where_it_began_and_in_time(
    served: App, provider: StrangeProvider
) -> None:
    sent = provider.expect(await leave(served), served.clock.now_ms())
    stranger = httpx.AsyncClient(transport=served.http._transport, base_url=URL)
    async with stranger:
        query = {"code": "good", "state": sent["state"]}
        refused(await stranger.get("/login/callback", params=query), "oidc_state", 400)
        stranger.cookies.set("kitemq_trip", "e30.forged", path="/login")
        refused(await stranger.get("/login/callback", params=query), "oidc_state", 400)
    refused(await arrive(served, sent, state="another"), "oidc_state", 400)
    # The cookie is gone with the first answer, whatever it was.
    refused(await arrive(served, sent), "oidc_state", 400)
    sent = provider.expect(await leave(served), served.clock.now_ms())
    served.clock.advance(LIFETIME_S + 1)
    page = refused(await arrive(served, sent), "oidc_state", 400)
    assert 'href="/login/provider"' in page
    assert "/token" not in provider.asked


async def test_a_stolen_code_is_worth_nothing_without_the_verifier(
    served: App, provider: StrangeProvider
) -> None:
    provider.expect(await leave(served), served.clock.now_ms())
    mine = parse_qs(urlsplit(await leave(served)).query)
    refused(await arrive(served, {"state": mine["state"][0]}), "oidc_denied")


async def test_what_the_provider_refuses_is_said_in_its_words_and_they_are_text(
    served: App, provider: StrangeProvider
) -> None:
    sent = provider.expect(await leave(served), served.clock.now_ms())
    words = {"error": "access_denied", "error_description": "<b>no</b>" + "!" * 500}
    answer = await served.http.get("/login/callback", params={"state": sent["state"], **words})
    page = refused(answer, "oidc_denied")
    assert "&lt;b&gt;no&lt;/b&gt;" in page
    assert "!" * 300 not in page


async def test_another_providers_answer_is_not_taken(
    served: App, provider: StrangeProvider
) -> None:
    sent = provider.expect(await leave(served), served.clock.now_ms())
    refused(await arrive(served, sent, iss="https://evil.example"), "oidc_token")
    provider.metadata = {"authorization_response_iss_parameter_supported": True}
    served.clock.advance(3601)
    sent = provider.expect(await leave(served), served.clock.now_ms())
    refused(await arrive(served, sent), "oidc_token")
    sent = provider.expect(await leave(served), served.clock.now_ms())
    assert (await arrive(served, sent, iss=provider.issuer)).status_code == 303
