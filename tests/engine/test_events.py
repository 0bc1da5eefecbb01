"""What listeners hear of a send."""

from engine.broker import Broker
from engine.errors import Invalid
from engine.events import Appended, EngineEvent, SendRefused
from engine.message import Message


def test_a_send_is_told_once_for_each_queue_it_went_to(broker: Broker) -> None:
    heard: list[EngineEvent] = []
    broker.events.subscribe(heard.append)
    sent = broker.send([Message("orders", b"12345", message_group=str(n)) for n in range(40)])
    by_queue: dict[int, list[int]] = {}
    for stored in sent.stored:
        by_queue.setdefault(stored.queue, []).append(stored.offset)
    assert {(event.queue, event.first_offset, event.count) for event in appended(heard)} == {
        (queue, offsets[0], len(offsets)) for queue, offsets in by_queue.items()
    }
    log_bytes = broker.health().log_bytes
    assert sum(event.size_bytes for event in appended(heard)) == log_bytes


def test_a_refused_send_is_told_with_its_code(broker: Broker) -> None:
    heard: list[EngineEvent] = []
    broker.events.subscribe(heard.append)
    try:
        broker.send([Message("orders", b"")])
    except Invalid as error:
        code = error.code
    assert [(event.topic, event.code) for event in heard if isinstance(event, SendRefused)] == [
        ("orders", code)
    ]
    assert not appended(heard)


def appended(events: list[EngineEvent]) -> list[Appended]:
    return [event for event in events if isinstance(event, Appended)]
