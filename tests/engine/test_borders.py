"""Numbers at the borders of their kind, given to every verb that takes numbers.

Each verb answers or refuses with an error of the engine's tree, and a killed broker starts again.
"""

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import pytest

from engine.broker import (
    Broker,
    GroupConfig,
    LockedQueue,
    Mode,
    Nack,
    NewReplay,
    Receipt,
    ReplayTo,
    ResetTarget,
    ResetTo,
    RetryRequest,
    Steps,
    TopicConfig,
    TopicType,
    TransactionDecision,
)
from engine.errors import EngineError, Illegal
from engine.message import Message
from tests.engine.conftest import Engine

BORDERS = (0, 1, -1, 2**31 - 1, 2**31, 2**53, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 10**40)
FEW = (0, -1, 2**31, 2**63 - 1, 2**64)
Call = Callable[[], object]


def reads(broker: Broker) -> Iterator[Call]:
    for queue, offset in product(FEW, BORDERS):
        yield lambda q=queue, o=offset: broker.pull("orders", q, o, group="p")
        yield lambda q=queue, o=offset: broker.message("orders", q, o)
        yield lambda q=queue, o=offset: broker.offset_at_time("orders", q, o)
    for number in BORDERS:
        yield lambda n=number: broker.pull("orders", 0, 0, count_max=n)
        yield lambda n=number: broker.pull("orders", 0, 0, bytes_max=n)
        yield lambda n=number: broker.queue_content("orders", n, count_max=5)
        yield lambda n=number: broker.messages_by_key("orders", "k", begin_ms=n)
        yield lambda n=number: broker.messages_by_key("orders", "k", end_ms=n)
        yield lambda n=number: broker.scheduled(from_ms=n)
        yield lambda n=number: broker.scheduled_counts([n])
        yield lambda n=number: broker.committed_offset("g", "orders", n)
        yield lambda n=number: broker.start_offset("g", "orders", n)


def progress(broker: Broker) -> Iterator[Call]:
    for queue, offset in product(FEW, BORDERS):
        yield lambda q=queue, o=offset: broker.commit_offset("g", "orders", q, o)
        yield lambda q=queue, o=offset: broker.commit_offset("b", "orders", q, o, "c")
        yield lambda q=queue, o=offset: broker.send_back("g", "orders", q, o)
        for serial in (0, 1, 2**63, 10**40):
            receipt = Receipt("orders", queue, offset, serial)
            yield lambda r=receipt: broker.ack("g", [r])
            yield lambda r=receipt: broker.release("b", [r])
            yield lambda r=receipt: broker.extend("g", [r], 30)
            yield lambda r=receipt: broker.renew("g", r, 30)
            yield lambda r=receipt: broker.nack("g", [Nack(r)])
    for number in BORDERS:
        yield lambda n=number: broker.receive("g", {"orders": "*"}, count_max=n)
        yield lambda n=number: broker.receive("g", {"orders": "*"}, invisible_s=n)
        yield lambda n=number: broker.send_back("g", "orders", 0, 0, delay_level=n)
        yield lambda n=number: broker.send_back("g", "orders", 0, 0, retry_max=n)
        yield lambda n=number: broker.locks.lock("g", "c", [LockedQueue("orders", n)])
        yield lambda n=number: broker.locks.unlock("g", "c", [LockedQueue("orders", n)])


def held(broker: Broker) -> Iterator[Call]:
    """Verbs on what is in hand, so that their numbers count."""

    def hand() -> Receipt:
        broker.send([Message("orders", b"x", queue=0)])
        return broker.receive("g", {"orders": "*"}, client="c")[0].receipt

    for number in BORDERS:
        yield lambda n=number: broker.extend("g", [hand()], n)
        yield lambda n=number: broker.renew("g", hand(), n)
        yield lambda n=number: broker.nack("g", [Nack(hand(), delay_level=n)])
        yield lambda n=number: broker.nack("g", [Nack(hand(), delay_s=n)])


def resets(broker: Broker) -> Iterator[Call]:
    for number in BORDERS:
        for to in ResetTo:
            yield lambda n=number, t=to: broker.resets.apply(
                broker.resets.plan("g", ["orders"], ResetTarget(t, n)), force=True
            )
        yield lambda n=number: broker.resets.plan_undo("g", n)
        yield lambda n=number: broker.resets.get("g", n)
        yield lambda n=number: broker.resets.apply(
            broker.resets.plan_offsets("g", {("orders", 0): n}), force=True
        )
        yield lambda n=number: broker.resets.apply(
            broker.resets.plan_offsets("g", {("orders", n): 0}), force=True
        )


def settings(broker: Broker) -> Iterator[Call]:
    for number in BORDERS:
        yield lambda n=number: broker.create_topic(
            TopicConfig(f"t{n}".replace("-", "m"), read_queues=n)
        )
        for name in ("read_queues", "write_queues", "permission", "retention_ms", "trace_sample"):
            yield lambda n=number, f=name: broker.change_topic("other", **{f: n})
        for name in ("retry_max", "start_at_ms"):
            yield lambda n=number, f=name: broker.change_group("h", **{f: n})
        yield lambda n=number: broker.change_group("h", retry_policy=Steps((n,)))
        yield lambda n=number: broker.replays.create(
            NewReplay(source="orders", to=ReplayTo.TOPIC, to_name="other", rate=n, dry_run=True)
        )
        yield lambda n=number: broker.replays.create(
            NewReplay(source="orders", to=ReplayTo.TOPIC, to_name="other", places=[(0, n)])
        )
        yield lambda n=number: broker.replays.create(
            NewReplay(source="orders", to=ReplayTo.TOPIC, to_name="other", ranges=[(n, 0, n)])
        )
        yield lambda n=number: broker.replays.create(
            NewReplay(source="orders", to=ReplayTo.TOPIC, to_name="other", from_ms=n, to_ms=n)
        )


def messages(broker: Broker) -> Iterator[Call]:
    for number in BORDERS:
        for name in ("queue", "delay_level", "deliver_at_ms", "born_ms", "flag"):
            yield lambda n=number, f=name: broker.send([Message("orders", b"x", **{f: n})])
        yield lambda n=number: broker.send(
            [Message("paid", b"x", transaction_group="tg", check_immunity_s=n)]
        )
        text = str(number)
        yield lambda t=text: broker.recall(t)
        yield lambda t=text: broker.transactions.decide(t, TransactionDecision.COMMIT, group="tg")
        yield lambda t=text: broker.transactions.decide(t, TransactionDecision.ROLLBACK, group="tg")


@pytest.mark.parametrize("calls", [reads, progress, held, resets, settings, messages])
def test_no_number_is_more_than_refused(engine: Engine, calls: Any) -> None:
    broker = engine.start(default_queues=1, retention_interval_s=1.0)
    for name, kind in (("orders", TopicType.NORMAL), ("other", TopicType.NORMAL)):
        broker.create_topic(TopicConfig(name, type=kind, read_queues=1, write_queues=1))
    broker.create_topic(
        TopicConfig("paid", type=TopicType.TRANSACTION, read_queues=1, write_queues=1)
    )
    broker.create_group(GroupConfig("g"))
    broker.create_group(GroupConfig("h"))
    broker.create_group(GroupConfig("b", mode=Mode.BROADCAST))
    broker.send([Message("orders", b"first", queue=0), Message("orders", b"second", queue=0)])
    broker.receive("b", {"orders": "*"}, client="c")
    for call in calls(broker):
        try:
            call()
        except Illegal:
            raise
        except EngineError:
            continue
    for _ in range(3):
        engine.tick(30)
    assert broker.health().is_ready, broker.health().failures
    again = engine.crash(default_queues=1)
    assert not again.health().damages
    for _ in range(3):
        engine.tick(60)
    assert again.health().is_ready, again.health().failures
    again.receive("g", {"orders": "*"}, count_max=9)


def test_a_retry_of_a_replay_takes_no_odd_rate(broker: Broker) -> None:
    for number in BORDERS[2:]:
        with pytest.raises(EngineError):
            broker.replays.retry("none", [], RetryRequest(rate=number))
