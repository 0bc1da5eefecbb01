"""Following topics: nothing missed, nothing twice, in order, and told what was passed over."""

import itertools
from time import monotonic
from types import SimpleNamespace

import pytest

from app.services import tail
from app.services.tail import Tail, TailBatch
from engine.broker import TopicConfig
from engine.errors import Invalid, TopicNotFound
from tests.app.conftest import App

pytestmark = pytest.mark.anyio


async def follow(
    app: App, *topics: str, filter: str = "*", mark: str = "", lookback: int = 0
) -> Tail:
    messaging = app.app.services.messaging
    now_ms = app.clock.now_ms()
    return await Tail.begin(messaging, topics, filter, mark=mark, lookback=lookback, now_ms=now_ms)


def bodies(*batches: TailBatch) -> list[str]:
    return [message.body.decode() for batch in batches for message in batch.messages]


async def drain(following: Tail) -> list[TailBatch]:
    batches = [await following.read()]
    while batches[-1].is_behind:
        batches.append(await following.read())
    return batches


async def send(app: App, topic: str, count: int, *, first: int = 0, tag: str = "") -> list[str]:
    sent = [f"{topic} {number}" for number in range(first, first + count)]
    for body in sent:
        await app.send(topic, body, tag=tag)
    return sent


async def test_a_tail_shows_what_is_stored_after_it_began_in_order(running: App) -> None:
    await send(running, "orders", 5)
    following = await follow(running, "orders")
    assert (await following.read()).messages == []
    sent = await send(running, "orders", 30, first=5)
    assert bodies(*await drain(following)) == sent
    assert not (await following.read()).has_news


async def test_a_mark_goes_on_exactly_there(running: App) -> None:
    first = await send(running, "orders", 9)
    following = await follow(running, "orders", lookback=100)
    assert bodies(await following.read()) == first
    mark = following.mark
    second = await send(running, "orders", 11, first=9)
    assert bodies(*await drain(await follow(running, "orders", mark=mark))) == second
    assert bodies(*await drain(following)) == second


async def test_several_topics_come_in_the_order_of_storing(running: App) -> None:
    await send(running, "orders", 1)
    await send(running, "payments", 1)
    following = await follow(running, "orders", "payments")
    sent: list[str] = []
    for number in range(20):
        sent += await send(running, "orders" if number % 3 else "payments", 1, first=number)
    assert bodies(*await drain(following)) == sent


async def test_the_order_holds_where_a_read_is_cut_short(
    running: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail, "COUNT_MAX", 8)
    monkeypatch.setattr(tail, "PULL_MAX", 3)
    await send(running, "orders", 1)
    following = await follow(running, "orders")
    sent = await send(running, "orders", 60, first=1)
    batches = await drain(following)
    assert len(batches) > 2
    assert bodies(*batches) == sent
    assert sum(batch.looked for batch in batches) == 60


async def test_a_filter_leaves_out_and_still_comes_forward(running: App) -> None:
    await send(running, "orders", 1)
    following = await follow(running, "orders", filter="paid")
    await send(running, "orders", 20, first=1)
    sent = await send(running, "orders", 3, first=21, tag="paid")
    batches = await drain(following)
    assert bodies(*batches) == sent
    assert sum(batch.looked for batch in batches) == 23


async def test_who_is_too_far_behind_is_taken_forward_and_told(
    running: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail, "BEHIND_MAX", 20)
    monkeypatch.setattr(tail, "CATCH_UP_COUNT", 8)
    monkeypatch.setattr(tail, "COUNT_MAX", 4)
    await send(running, "orders", 1)
    following = await follow(running, "orders")
    sent = await send(running, "orders", 100, first=1)
    batches = await drain(following)
    shown = bodies(*batches)
    assert shown == [body for body in sent if body in shown]
    assert sum(batch.skipped for batch in batches) == 100 - len(shown) > 0
    assert sent[-1] in shown


async def test_what_a_purge_took_is_told_and_not_waited_for(running: App) -> None:
    await send(running, "orders", 1)
    following = await follow(running, "orders")
    await send(running, "orders", 7, first=1)
    running.app.services.host.broker.retention.purge("orders", everything=True)
    sent = await send(running, "orders", 2, first=8)
    batches = await drain(following)
    assert bodies(*batches) == sent
    assert sum(batch.gone for batch in batches) == 7


async def test_queues_that_are_added_are_followed_from_their_beginning(running: App) -> None:
    broker = running.app.services.host.broker
    broker.create_topic(TopicConfig("growing", read_queues=1, write_queues=1))
    following = await follow(running, "growing")
    mark = following.mark
    broker.change_topic("growing", read_queues=3, write_queues=3)
    sent = await send(running, "growing", 9)
    assert bodies(*await drain(following)) == sent
    assert sorted(bodies(*await drain(await follow(running, "growing", mark=mark)))) == sorted(sent)


async def test_a_topic_that_was_made_anew_is_followed_from_its_beginning(running: App) -> None:
    await send(running, "orders", 9)
    following = await follow(running, "orders")
    running.app.services.host.broker.delete_topic("orders")
    with pytest.raises(TopicNotFound):
        await following.read()
    sent = await send(running, "orders", 2)
    assert bodies(*await drain(following)) == sent


async def test_a_topic_that_was_made_anew_keeps_its_order_where_time_runs_out(
    running: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = itertools.count(0, tail.READ_S / 3)  # over when some of the queues were read
    times = SimpleNamespace(perf_counter=lambda: next(clock), monotonic=monotonic)
    monkeypatch.setattr(tail, "time", times)
    await send(running, "orders", 9)
    following = await follow(running, "orders")
    running.app.services.host.broker.delete_topic("orders")
    sent = await send(running, "orders", 8)
    assert bodies(*await drain(following)) == sent


async def test_a_parked_tail_is_woken_by_any_of_its_queues(running: App) -> None:
    await send(running, "orders", 1)
    following = await follow(running, "orders")
    woken: list[str] = []
    place = following.park(lambda: woken.append("woken"))
    await send(running, "orders", 1, first=1)
    assert woken == ["woken"]
    place.cancel()
    await send(running, "orders", 4, first=2)
    assert woken == ["woken"]


@pytest.mark.parametrize(
    ("topics", "mark"),
    [([], ""), ([f"t{n}" for n in range(9)], ""), (["orders"], "x"), (["orders"], "1-0-0")],
)
async def test_what_cannot_be_followed_is_refused(
    running: App, topics: list[str], mark: str
) -> None:
    await send(running, "orders", 1)
    with pytest.raises(Invalid):
        await Tail.begin(running.app.services.messaging, topics, mark=mark, now_ms=0)


async def test_a_wrong_filter_is_refused_at_once(running: App) -> None:
    await send(running, "orders", 1)
    with pytest.raises(Invalid):
        await follow(running, "orders", filter="SQL92: a >")
