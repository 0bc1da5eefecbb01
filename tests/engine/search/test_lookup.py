"""By id and by key: everything that carries it, and nothing else, in bounded steps."""

import random

import pytest

from engine.broker import ANYWHERE, Broker, Nack, TopicConfig
from engine.clock import ManualClock
from engine.errors import TopicNotFound
from engine.message import Message, StoredMessage
from engine.search import search as search_module
from engine.search.lookup import Lookup
from engine.store import index_file
from tests.simulation.boot import boot
from tests.simulation.disk import Crash, Disk


def bodies(messages: list[StoredMessage]) -> list[bytes]:
    return [message.body for message in messages]


def put(broker: Broker, *bodies: str, **fields: object) -> list[str]:
    """Send one after another; their ids."""
    ids = []
    for body in bodies:
        message = Message("orders", body.encode(), queue=0, **fields)  # type: ignore[arg-type]
        ids.append(broker.send([message]).messages[0].message_id)
    return ids


def carry_on(broker: Broker, lookup: Lookup) -> int:
    """Carry a lookup on as a door does; how many steps it took."""
    steps = 0
    while not lookup.is_over:
        while lookup.step():
            steps += 1
        broker.search.read(lookup, lambda error: None)
        steps += 1
    return steps


def test_a_message_is_found_by_its_id_and_by_its_offset_id(broker: Broker) -> None:
    (own,) = put(broker, "x")
    put(broker, "y", message_id="client1")
    offset_id = broker.message("orders", 0, 1).offset_id
    for text, wanted in ((own, b"x"), ("client1", b"y"), (offset_id, b"y"), ("client2", None)):
        found = broker.search.id_lookup(text)
        carry_on(broker, found)
        assert bodies(found.messages) == ([] if wanted is None else [wanted])
        assert bodies(broker.messages_by_id(text)) == bodies(found.messages)


def test_every_record_of_a_message_is_found_oldest_first(engine, broker: Broker) -> None:
    (message_id,) = put(broker, "x")
    for level in (1, -1):
        (given,) = broker.receive("g", {"orders": "*"})
        broker.nack("g", [Nack(given.receipt, delay_level=level)])
        engine.tick(1)
    found = broker.messages_by_id(message_id)
    assert [message.topic for message in found] == [
        "orders",
        "SCHEDULE_TOPIC_XXXX",
        "%RETRY%g",
        "%DLQ%g",
    ]
    assert broker.messages_by_id(found[2].offset_id) == found


def test_the_32_newest_of_a_key_equal_hashes_apart_in_whole_seconds(broker: Broker, clock) -> None:
    """Section 15, item 23: the index knows hashes and seconds, what is found is exact."""
    started_ms = clock.now_ms()
    for number in range(100):
        put(broker, str(number), keys=("Aa",))
        put(broker, "other", keys=("BB",))  # the same hash
        clock.advance(0.5)
    found = broker.messages_by_key("orders", "Aa", count_max=32)
    assert bodies(found) == [b"%d" % number for number in range(99, 67, -1)]
    assert [m.offset for m in reversed(found)] == sorted(m.offset for m in found)
    assert len(broker.messages_by_key("orders", "Aa", count_max=1000)) == 64

    def between(begin: int, end: int) -> list[bytes]:
        begin_ms, end_ms = started_ms + begin, started_ms + end
        return bodies(broker.messages_by_key("orders", "Aa", begin_ms=begin_ms, end_ms=end_ms))

    assert between(500, 1000) == [b"1"], "0 was stored in the same second"
    assert between(0, 501) == [b"1", b"0"]
    assert between(1000, 1001) == [b"2"]
    assert between(-9000, 0) == between(50_000, 90_000) == []


@pytest.mark.parametrize("count", [63, 64, 65, 128, 150])
def test_a_key_is_read_page_by_page_and_the_last_page_says_so(broker: Broker, count: int) -> None:
    for number in range(count):
        put(broker, str(number), keys=("Aa",))
        put(broker, "other", keys=("BB",))  # the same hash
    pages: list[list[bytes]] = []
    before, is_cut = ANYWHERE, True
    while is_cut:
        lookup = broker.search.key_lookup("orders", "Aa", before=before)
        found = broker.search.finish(lookup)
        pages.append(bodies(found))
        before, is_cut = found[-1].position, lookup.is_cut
    assert [len(page) for page in pages] == [64] * ((count - 1) // 64) + [(count - 1) % 64 + 1]
    read = [body for page in pages for body in page]
    assert read == [str(number).encode() for number in reversed(range(count))]


def test_a_key_is_found_in_whatever_topic_it_is(broker: Broker) -> None:
    for topic in ("one", "two", "three"):
        broker.send([Message(topic, topic.encode(), keys=("k",))])
        broker.send([Message(topic, b"other", keys=("l",))])
    broker.send([Message("one", b"by its id", message_id="k")])
    lookup = broker.search.any_lookup("k")
    carry_on(broker, lookup)
    assert sorted(bodies(lookup.messages)) == [b"by its id", b"one", b"three", b"two"]
    assert not lookup.is_cut
    few = broker.search.any_lookup("k", count_max=2)
    carry_on(broker, few)
    assert (len(few.messages), few.is_cut) == (2, True)


@pytest.mark.parametrize(("total_max", "total"), [(0, 65), (100, 101), (1000, 111)])
def test_matches_are_counted_on_by_topic_up_to_a_limit(
    broker: Broker, total_max: int, total: int
) -> None:
    broker.send([Message("one", b"%d" % number, keys=("k",)) for number in range(111)])
    for lookup in (
        broker.search.any_lookup("k", total_max=total_max),
        broker.search.key_lookup("one", "k", total_max=total_max),
    ):
        carry_on(broker, lookup)
        assert (len(lookup.messages), lookup.is_cut, lookup.is_over) == (64, True, True)
        assert (lookup.total, lookup.totals) == (total, {"one": total})


def test_what_was_found_in_a_deleted_topic_is_not_shown(broker: Broker) -> None:
    (message_id,) = put(broker, "x", keys=("k",))
    broker.delete_topic("orders")
    put(broker, "y", keys=("k",))
    assert broker.messages_by_id(message_id) == []
    assert bodies(broker.messages_by_key("orders", "k")) == [b"y"]
    with pytest.raises(TopicNotFound):
        broker.messages_by_key("nowhere", "k")


@pytest.mark.parametrize("text", ["", "x" * 10_000, "\x00", "ä" * 100, "F" * 32])
def test_texts_that_are_no_ids_find_nothing(broker: Broker, text: str) -> None:
    put(broker, "x")
    assert broker.messages_by_id(text) == []


def test_many_topics_are_asked_in_steps_the_likely_ones_first(broker: Broker, monkeypatch) -> None:
    monkeypatch.setattr(search_module, "PROBES_MAX", 10)
    for number in range(100):
        broker.create_topic(TopicConfig(f"t{number}"))
    (message_id,) = put(broker, "x")
    (given,) = broker.receive("g", {"orders": "*"})
    broker.nack("g", [Nack(given.receipt, delay_s=0)])
    lookup = broker.search.id_lookup(message_id)
    assert lookup.step()
    assert len(lookup.unread) == 2, "its own topic and the retry topic were asked first"
    assert carry_on(broker, lookup) >= 9
    assert len(lookup.messages) == 2


def test_a_popular_key_is_walked_along_in_steps(broker: Broker, clock, monkeypatch) -> None:
    monkeypatch.setattr(index_file, "PAUSE_ITEMS", 10)
    put(broker, "wanted", keys=("k",))
    clock.advance(10)
    end_ms = clock.now_ms()
    for number in range(200):
        put(broker, str(number), keys=("k",))
    lookup = broker.search.key_lookup("orders", "k", end_ms=end_ms)
    assert carry_on(broker, lookup) >= 20
    assert bodies(lookup.messages) == [b"wanted"]


def test_a_lookup_goes_on_over_index_files_that_retention_takes_meanwhile(
    engine, monkeypatch
) -> None:
    monkeypatch.setattr(index_file, "PAUSE_ITEMS", 3)
    broker = engine.start(segment_bytes=4096, index_items=10)
    for number in range(60):
        put(broker, f"{number} " + "x" * 300, keys=("k",))
    lookup = broker.search.key_lookup("orders", "k")
    assert lookup.step()
    engine.tick(5)
    broker._store.expire(broker._store.written)
    oldest = broker.topic_stats("orders").queues[0].min_offset
    assert oldest > 10
    carry_on(broker, lookup)
    assert [message.offset for message in lookup.messages] == list(range(59, oldest - 1, -1))


class KeyedLife:
    """Sends keyed messages to a disk that breaks; remembers what was accepted."""

    def __init__(self, seed: int) -> None:
        self.disk = Disk(random.Random(seed))
        self.clock = ManualClock()
        self.accepted: list[int] = []
        self.tried = 0

    def start(self) -> Broker:
        return boot(self.disk, self.clock, segment_bytes=8 * 1024, index_slots=11, index_items=16)

    def send(self, broker: Broker, count: int) -> None:
        for _ in range(count):
            number, self.tried = self.tried, self.tried + 1
            keys = (f"k{number}", "all", f"half{number % 2}")
            broker.send([Message("orders", b"%d" % number, keys=keys, message_id=f"id{number}")])
            self.accepted.append(number)
            self.clock.advance(0.3)
            broker.tick()


def test_every_key_is_found_once_whichever_write_the_process_died_at() -> None:
    """Section 15, item 23, over a crash: the index is whole again, and holds nothing twice."""
    step, has_died, deaths = 0, True, 0
    while has_died:
        step += 3
        life, has_died = KeyedLife(step), False
        life.disk.crash_in = step
        try:
            broker = life.start()
            life.send(broker, 40)
        except Crash:
            has_died = True
            deaths += 1
        life.disk.kill()
        broker = life.start()
        life.send(broker, 3)
        for number in life.accepted:
            wanted = [b"%d" % number]
            assert bodies(broker.messages_by_key("orders", f"k{number}")) == wanted, step
            assert bodies(broker.messages_by_id(f"id{number}")) == wanted, step
        found = [
            int(body) for body in bodies(broker.messages_by_key("orders", "all", count_max=64))
        ]
        assert set(life.accepted) <= set(found), step
        assert len(set(found)) == len(found), step
        assert set(found) <= set(range(life.tried)), step
    assert deaths > 60
