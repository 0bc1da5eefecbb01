"""Raw bodies that come one at a time are stored and answered as others are, by a shorter way."""

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.api.messages.direct_produce import DirectProduce
from app.api.messages.new_messages import RawHeaders
from engine.host import pack_host
from engine.message import Durability
from engine.message_columns import SHARED, body_column
from tests.app.api.messages.test_direct_produce import RAW, direct, learned
from tests.app.conftest import App
from tests.app.ws.test_packed_send import Road
from tests.engine.store.kernel.twins import TWINS, using

TEXT = {"Content-Type": "text/plain"}

HEADERS = st.fixed_dictionaries(
    {},
    optional={
        b"content-type": st.sampled_from((b"text/plain", b"image/png")),
        b"kitemq-tag": st.sampled_from((b"paid", "ü".encode())),
        b"kitemq-keys": st.sampled_from((b"k1", b"k1, k2")),
        b"kitemq-property-colour": st.just(b"red"),
        b"kitemq-queue": st.just(b"2"),
    },
)
HOSTS = st.sampled_from(("10.0.0.1:5", "10.9.8.7:65535", "127.0.0.1:0"))
BODIES = st.lists(st.tuples(st.binary(min_size=1, max_size=2000), HOSTS), min_size=1, max_size=40)


@settings(max_examples=25, deadline=None)
@given(headers=HEADERS, bodies=BODIES, durability=st.sampled_from((None, Durability.FLUSHED)))
@pytest.mark.parametrize("name", sorted(TWINS))
def test_both_ways_store_the_same(
    name: str,
    headers: dict[bytes, bytes],
    bodies: list[tuple[bytes, str]],
    durability: Durability | None,
) -> None:
    raw = RawHeaders("plain", headers.items())
    with using(name), TemporaryDirectory() as folder:
        short, other = (Road(Path(folder) / way, 16 * 1024) for way in ("short", "other"))
        sender = short.broker.lone_sender(raw.columns(b"first", "1.2.3.4:5"), durability)
        assert sender is not None
        for body, host in bodies:
            place = sender.send(body_column(body), 0, 0, SHARED, pack_host(host))
            assert place is not None
            new = raw.message(body, host)
            assert isinstance(new.messages, list)
            sent = other.broker.send(new.messages, durability=durability)
            assert (place.queue, [place.offset], [place.position]) == (
                sent.messages[0].queue, sent.offsets, sent.positions,
            )  # fmt: skip
            assert f"{sender.id_prefix}{place.position:016X}" == sent.messages[0].message_id
            for road in (short, other):
                while road.broker.tick() <= 0:  # the flush
                    pass
        assert short.events == other.events
        assert short.broker.statistics.broker() == other.broker.statistics.broker()
        assert short.stop() == other.stop()


def test_a_sender_of_another_kind_of_address_is_left_to_the_other_way() -> None:
    raw = RawHeaders("plain", ())
    with TemporaryDirectory() as folder:
        road = Road(Path(folder), 16 * 1024)
        sender = road.broker.lone_sender(raw.columns(b"x", "10.0.0.1:5"))
        assert sender is not None
        assert sender.send(body_column(b"x"), 0, 0, SHARED, pack_host("[::1]:5")) is None
        assert sender.send(body_column(b"x"), 0, 0, SHARED, pack_host("10.0.0.2:5")) is not None
        road.stop()


@pytest.fixture
async def orders(running: App) -> App:
    """A server with a topic."""
    await running.post("/topics", {"name": "orders"}, 201)
    return running


async def way_of(app: App, headers: dict[str, Any]) -> DirectProduce:
    """The way of requests with these headers, before the first of them."""
    _, scope = await learned(app, headers, b"ordinary")
    way = DirectProduce.of(scope)
    assert way is not None
    return way


async def sent_one_by_one(way: DirectProduce, bodies: Iterable[bytes]) -> list[Any]:
    """What was stored of each, or the status."""
    answers = []
    for body in bodies:
        answer = await direct(way, body)
        assert answer is not None
        status, _, document = answer
        answers.append(document["messages"][0] if status == 201 else status)
        await asyncio.sleep(0)
    return answers


def is_short(way: DirectProduce) -> bool:
    return way._lone is not None


@pytest.mark.anyio
@pytest.mark.parametrize("headers", [RAW, TEXT, {**TEXT, "KiteMQ-Durability": "flushed"}])
async def test_from_the_third_on_they_are_stored_at_once_and_found(
    orders: App, headers: dict[str, str]
) -> None:
    way = await way_of(orders, headers)
    bodies = [b"%d" % number for number in range(6)]
    (first, second, *others) = await sent_one_by_one(way, bodies)
    assert is_short(way)
    for stored, text in zip((first, second, *others), "012345", strict=True):
        (message,) = (await orders.get(f"/messages/{stored['message_id']}"))["items"]
        assert (message["body"], message["position"]) == (text, stored["position"])
        assert first.keys() == stored.keys()
    limits = orders.app.services.request_limits
    assert (limits.requests, limits.used_bytes) == (0, 0)


@pytest.mark.anyio
@pytest.mark.parametrize(
    "special",
    [{"KiteMQ-Delay-Level": "1"}, {"KiteMQ-Group": "g"}, {"KiteMQ-Transaction-Group": "g"}],
)
async def test_what_waits_or_has_an_order_takes_no_shorter_way(
    orders: App, special: dict[str, str]
) -> None:
    way = await way_of(orders, {**TEXT, **special})
    await sent_one_by_one(way, [b"x"] * 4)
    assert not is_short(way)


@pytest.mark.anyio
async def test_a_change_of_the_topic_counts_from_the_next_message(orders: App) -> None:
    way = await way_of(orders, TEXT)
    await sent_one_by_one(way, [b"x"] * 4)
    assert is_short(way)
    await orders.http.patch("/api/v1/topics/orders", json={"permission": 4})
    assert await direct(way, b"y") is None  # refused by the ordinary way
    assert not is_short(way)
    await orders.http.patch("/api/v1/topics/orders", json={"permission": 6})
    await sent_one_by_one(way, [b"z"] * 4)
    assert is_short(way)


@pytest.mark.anyio
async def test_several_in_a_turn_are_stored_together_until_one_comes_alone_again(
    orders: App,
) -> None:
    way = await way_of(orders, TEXT)
    await sent_one_by_one(way, [b"x"] * 3)
    batcher = orders.app.services.messaging._batcher  # type: ignore[attr-defined]
    asked = [asyncio.ensure_future(direct(way, b"%d" % number)) for number in range(4)]
    assert len({_place(await each) for each in asked}) == 4
    assert batcher.is_crowded
    for _ in range(2):
        asked = [asyncio.ensure_future(direct(way, b"%d" % number)) for number in range(4)]
        await asyncio.sleep(0)
        assert batcher.has_waiting  # all of them
        await asyncio.gather(*asked)
    await sent_one_by_one(way, [b"alone"])
    assert not batcher.is_crowded
    await sent_one_by_one(way, [b"alone"])
    assert not batcher.has_waiting


def _place(answer: tuple[int, dict[str, str], Any] | None) -> Sequence[Any]:
    assert answer is not None
    (stored,) = answer[2]["messages"]
    return stored["queue"], stored["offset"]
