"""Behind reverse proxies: whose word is believed about where a request comes from."""

import asyncio
from typing import Any

import httpx
import pytest

from app.security.proxies import HOPS_MAX, TrustedProxies
from app.settings import SettingsError, load
from tests.app.conftest import URL, App, Starter

PROXY = "10.0.0.7"
CLIENT = "203.0.113.9"


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        ("198.51.100.1", [b"203.0.113.9"], "198.51.100.1"),  # anybody can send the header
        (PROXY, [], PROXY),
        (PROXY, [b"203.0.113.9"], CLIENT),
        (PROXY, [b"6.6.6.6, 203.0.113.9"], CLIENT),  # the left one was sent by the client
        (PROXY, [b"203.0.113.9, 10.0.0.8"], CLIENT),
        (PROXY, [b"6.6.6.6", b"203.0.113.9", b"10.0.0.8"], CLIENT),
        (PROXY, [b"10.0.0.9, 10.0.0.8"], "10.0.0.9"),
        (PROXY, [b"203.0.113.9:51000"], CLIENT),
        (PROXY, [b"[2001:db8::5]:443"], "2001:db8::5"),
        (PROXY, [b"2001:db8::5"], "2001:db8::5"),
        (PROXY, [b"203.0.113.9, unknown"], PROXY),
        (PROXY, [b"203.0.113.9, unknown, 10.0.0.8"], "10.0.0.8"),
        (PROXY, [b"\xff\x00, , ,"], PROXY),
        (PROXY, [b"1" * 100_000], PROXY),
        ("::ffff:10.0.0.7", [b"203.0.113.9"], CLIENT),
        ("::1", [b"203.0.113.9"], CLIENT),
        ("no address", [b"203.0.113.9"], "no address"),
    ],
)
def test_the_client_is_the_right_most_hop_that_is_no_trusted_proxy(
    peer: str, forwarded: list[bytes], client: str
) -> None:
    proxies = TrustedProxies(("10.0.0.0/8", "::1"))
    assert proxies.client_of(peer, forwarded) == client


def test_a_long_chain_of_hops_is_read_to_its_bound() -> None:
    chain = b",".join([b"203.0.113.9", *[b"10.0.0.8"] * HOPS_MAX])
    assert TrustedProxies(("10.0.0.0/8",)).client_of(PROXY, [chain]) == "10.0.0.8"


@pytest.mark.parametrize("text", ["proxy.example.org", "10.0.0.1/8", "10.0.0.0/33", "*"])
def test_a_trusted_proxy_that_is_no_network_refuses_to_start(text: str) -> None:
    with pytest.raises(SettingsError, match="trusted_proxies"):
        load({"trusted_proxies": text}, environ={})


@pytest.mark.anyio
@pytest.mark.parametrize(("trusted", "address"), [((), PROXY), ((PROXY,), CLIENT)])
async def test_what_is_audited_of_a_request_is_the_client_that_a_trusted_proxy_names(
    start: Starter, trusted: tuple[str, ...], address: str
) -> None:
    async with start(admin_password="correct horse", trusted_proxies=trusted) as app:
        async with through(app, PROXY) as http:
            headers = {"X-Forwarded-For": f"6.6.6.6, {CLIENT}"}
            answer = await http.post("/api/v1/topics", json={"name": "a"}, headers=headers)
            assert answer.status_code == 401
        await app.app.services.refusal_audit.flush()
        (entry,) = await app.app.services.audit.entries(limit=1)
        assert entry.address == address
        assert entry.actor == f"anonymous@{address}"


@pytest.mark.anyio
@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
async def test_health_and_metrics_are_answered_to_an_address_with_too_many_requests(
    start: Starter, path: str
) -> None:
    async with start(client_requests_max=1) as app:
        await app.send("orders", "1")
        await app.receive("g", "orders")
        waiting = asyncio.create_task(app.receive("g", "orders", wait_ms=20_000))
        await app.until_parked()
        assert (await app.http.get("/api/v1/topics")).status_code == 429
        assert (await app.http.get(path)).status_code == 200
        app.app.services.host.drain()
        await waiting


def through(app: App, peer: str) -> Any:
    """A client whose connections come from the address `peer`."""
    transport = httpx.ASGITransport(app.app, client=(peer, 40_000))
    return httpx.AsyncClient(transport=transport, base_url=URL)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
