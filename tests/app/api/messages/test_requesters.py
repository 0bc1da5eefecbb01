"""Whom a request names as its requester, of the embedded engine: a cluster knows servers alone."""

import asyncio

import pytest

from tests.app.api.messages.test_requests import asking, reply, taken, waiting
from tests.app.conftest import App, Starter

pytestmark = pytest.mark.anyio


async def test_a_request_names_the_client_that_its_sender_gives(running: App) -> None:
    task = asking(running, client="till-3")
    await waiting(running, 1)
    (received,) = await taken(running)
    assert received["properties"]["REPLY_TO_CLIENT"] == "till-3"
    task.cancel()
    await asyncio.wait({task})


async def test_a_reply_after_a_restart_names_the_address_of_the_requester(start: Starter) -> None:
    async with start() as app:
        task = asking(app, correlation_id="price-1")
        await waiting(app, 1)
        (received,) = await taken(app)
        app.app.services.host.drain()
        await task
    async with start() as app:
        assert (await reply(app, receipt=received["receipt"]))["result"] == "late"
        kept = await app.get("/replies/price-1")
        assert kept["reply"]["properties"]["REPLY_TO_CLIENT"].startswith("127.0.0.1:")
