"""The client for threads and the one for asyncio code: one source, the same operations."""

import inspect

import pytest

from kitemq import AsyncClient, Client, Invalid, Message, NotFound, Unreachable
from kitemq.api.connection import Api
from kitemq.async_api.connection import AsyncApi
from tests.live import LiveServer
from tools import sdk_reference, synchronous
from tools.synchronous import ROOT

pytestmark = [pytest.mark.anyio, pytest.mark.makers]


def test_the_client_for_threads_is_made_from_the_asynchronous_one() -> None:
    stale = [
        twin.name
        for source, twin in synchronous.twins()
        if twin.read_text() != synchronous.made(source)
    ]
    assert stale == [], "run python -m tools.synchronous"


def test_the_page_of_reference_is_made_from_the_docstrings() -> None:
    page = (ROOT / "docs" / "sdk-reference.md").read_text()
    assert page == sdk_reference.reference(), (
        "run python -m tools.sdk_reference > docs/sdk-reference.md"
    )


@pytest.mark.parametrize(
    ("source", "twin"),
    [
        ("async def f() -> None:\n    await g()\n", "def f() -> None:\n    g()\n"),
        ("async with AsyncThing() as x:\n    pass\n", "with Thing() as x:\n    pass\n"),
        ("[x async for x in y]\n", "[x for x in y]\n"),
        ('"""`AsyncClient` (or `async with`)."""\n', '"""`Client` (or `with`)."""\n'),
        ("asynchronous = await_all  # await\n", "asynchronous = await_all  # await\n"),
        ("await asyncio.sleep(1)\n", "time.sleep(1)\n"),
    ],
)
def test_a_module_loses_async_and_await_and_nothing_else(source: str, twin: str) -> None:
    assert synchronous.synchronous(source) == twin


async def test_both_clients_have_the_same_operations_documented_and_typed() -> None:
    async with AsyncClient() as awaited:
        with Client() as called:
            resources = {name: api for name, api in vars(called).items() if isinstance(api, Api)}
        twins = {name: api for name, api in vars(awaited).items() if isinstance(api, AsyncApi)}
        assert resources.keys() == twins.keys()
        for name, api in resources.items():
            operations = {key for key in dir(api) if not key.startswith("_")}
            assert operations == {key for key in dir(twins[name]) if not key.startswith("_")}
            for key in operations:
                operation = getattr(api, key)
                assert inspect.getdoc(operation), f"{name}.{key}"
                assert inspect.signature(operation).return_annotation is not inspect.Signature.empty


@pytest.mark.capabilities("delivery_figures")
async def test_the_asynchronous_client_administers_sends_finds_and_settles(
    server: LiveServer,
) -> None:
    async with AsyncClient(server.url) as client:
        created = await client.topics.create("orders", read_queues=1, write_queues=1)
        assert created.name == "orders"
        assert [topic.name async for topic in client.topics.list()] == ["orders"]
        group = await client.groups.create("billing", retry_max=0)
        assert group.retry_max == 0
        bodies = [Message(body=f"{number}", keys="k") for number in range(250)]
        await client.messages.send("orders", bodies)
        assert len(await client.messages.find_by_key("orders", "k", limit=100)) == 100
        search = client.messages.search("orders", contains="24")
        assert [each.body async for each in search] == [
            "24",
            "124",
            "224",
            *map(str, range(240, 250)),
        ]
        first, second = await client.deliveries.receive("billing", "orders", max=2, wait_s=1)
        await client.deliveries.ack("billing", [first.receipt])
        await client.deliveries.nack("billing", [second.receipt], error="bad")
        (letter,) = [each async for each in client.dead_letters.list("billing")]
        assert (letter.error, letter.message.body) == ("bad", "1")
        job = await client.dead_letters.redrive("billing", rate=0)
        assert (await client.replays.wait(job.id)).totals == {"sent": 1}
        assert (await client.groups.lag("billing")).count == 249
        reset = await client.groups.reset("billing", "orders", "latest", force=True)
        assert [each.id async for each in client.groups.resets("billing")] == [reset.id]
        assert (await client.statistics.broker()).traffic.messages_in.total >= 250


async def test_the_asynchronous_client_raises_what_the_server_says(server: LiveServer) -> None:
    async with AsyncClient(server.url) as client:
        with pytest.raises(NotFound):
            await client.topics.get("nowhere")
        with pytest.raises(Invalid) as raised:
            await client.topics.create("orders", permission=9)
        assert raised.value.field == "permission"
    async with AsyncClient("http://127.0.0.1:9") as client:
        with pytest.raises(Unreachable):
            await client.server.read_only()
