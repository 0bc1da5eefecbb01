"""Looking through a topic: in order, everything once, and no step without a bound."""

import random

import msgspec
import pytest

from engine.broker import Broker, ScanPage, ScanQuery, TopicConfig
from engine.errors import Invalid, TopicNotFound
from engine.message import Message
from engine.search import scan as scan_module
from engine.store.files import OsFiles
from tests.engine.test_compression import PACKERS


def run(broker: Broker, query: ScanQuery, **arguments: object) -> ScanPage:
    """One page."""
    scan = broker.search.scan(query, **arguments)  # type: ignore[arg-type]
    while not scan.is_over:
        scan.step(check)
    return scan.page()


def check(error: Exception | None) -> None:
    assert error is None


def pages(broker: Broker, query: ScanQuery, **arguments: object) -> list[ScanPage]:
    """All pages."""
    found = [run(broker, query, **arguments)]
    while found[-1].next_cursor is not None:
        found.append(run(broker, query, cursor=found[-1].next_cursor, **arguments))
        assert len(found) < 1000
    return found


def bodies(found: list[ScanPage]) -> list[str]:
    return [message.body.decode() for page in found for message in page.items]


@pytest.fixture
def filled(broker: Broker, clock) -> Broker:
    """300 messages over three queues, a second apart, every third with the tag "t"."""
    broker.create_topic(TopicConfig("orders", read_queues=3, write_queues=3))
    chance = random.Random(1)
    for number in range(300):
        tag = "t" if number % 3 == 0 else ""
        properties = {"amount": str(number)}
        queue = chance.randrange(3)
        broker.send(
            [Message("orders", b"no %d." % number, tag=tag, properties=properties, queue=queue)]
        )
        clock.advance(1)
    return broker


def test_all_queues_come_merged_in_the_order_of_storing_each_message_once(filled: Broker) -> None:
    for count in (1, 7, 200):
        found = pages(filled, ScanQuery("orders"), count_max=count)
        assert bodies(found) == [f"no {number}." for number in range(300)], count
        assert all(len(page.items) == count for page in found[:-1])
        assert found[-1].next_cursor is None
        last = found[-1]
        assert (last.scanned, last.total, last.matched) == (300, 300, 300)


@pytest.mark.parametrize("count", [1, 7, 200])
@pytest.mark.parametrize("block", [16, 512])
def test_the_newest_come_first_where_the_query_says_so(
    filled: Broker, monkeypatch, count: int, block: int
) -> None:
    monkeypatch.setattr(scan_module, "BLOCK_ENTRIES_MAX", block)
    found = pages(filled, ScanQuery("orders", is_newest_first=True), count_max=count)
    assert bodies(found) == [f"no {number}." for number in reversed(range(300))]
    assert all(len(page.items) == count for page in found[:-1])
    last = found[-1]
    assert (last.scanned, last.total, last.matched) == (300, 300, 300)


def test_what_arrives_during_a_search_for_the_newest_is_no_part_of_it(filled: Broker) -> None:
    query = ScanQuery("orders", filter="t", is_newest_first=True)
    first = run(filled, query, count_max=10)
    filled.send([Message("orders", b"late", tag="t", queue=queue) for queue in range(3)])
    assert first.next_cursor is not None
    rest = run(filled, query, count_max=200, cursor=first.next_cursor)
    assert bodies([first, rest]) == [f"no {number}." for number in reversed(range(0, 300, 3))]
    assert (rest.scanned, rest.total, rest.next_cursor) == (300, 300, None)


@pytest.mark.parametrize("is_newest_first", [False, True])
def test_a_range_of_time_bounds_what_is_looked_at(
    filled: Broker, clock, is_newest_first: bool
) -> None:
    started_ms = clock.now_ms() - 300_000
    query = ScanQuery(
        "orders",
        begin_ms=started_ms + 100_000,
        end_ms=started_ms + 110_000,
        is_newest_first=is_newest_first,
    )
    found = pages(filled, query, count_max=3)
    numbers = range(100, 110)
    ordered = reversed(numbers) if is_newest_first else numbers
    assert bodies(found) == [f"no {number}." for number in ordered]
    assert found[-1].total == found[-1].scanned == 10
    assert found[-1].reached_ms == started_ms + (100_000 if is_newest_first else 109_000)
    assert pages(filled, ScanQuery("orders", begin_ms=clock.now_ms()))[0].total == 0
    assert pages(filled, ScanQuery("orders", end_ms=started_ms))[0].total == 0


@pytest.mark.parametrize("is_newest_first", [False, True])
@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        (ScanQuery("orders", filter="t"), range(0, 300, 3)),
        (ScanQuery("orders", filter="SQL92: amount >= 290"), range(290, 300)),
        (ScanQuery("orders", filter="SQL92: TAGS = 't' AND amount < 7"), (0, 3, 6)),
        (ScanQuery("orders", contains="no 29."), (29,)),
        (ScanQuery("orders", contains="9."), range(9, 300, 10)),
        (ScanQuery("orders", filter="t", contains="9."), range(9, 300, 30)),
        (ScanQuery("orders", filter="none"), ()),
    ],
)
def test_a_filter_finds_exactly_what_matches_and_says_how_far_it_looked(
    filled: Broker, query: ScanQuery, wanted: range, is_newest_first: bool
) -> None:
    query = msgspec.structs.replace(query, is_newest_first=is_newest_first)
    for count in (2, 50):
        found = pages(filled, query, count_max=count)
        ordered = reversed(wanted) if is_newest_first else wanted
        assert bodies(found) == [f"no {number}." for number in ordered]
        last = found[-1]
        assert (last.scanned, last.total, last.matched) == (300, 300, len(wanted))
        assert [page.scanned for page in found] == sorted(page.scanned for page in found)


@pytest.mark.parametrize("is_newest_first", [False, True])
def test_a_step_reads_no_more_than_its_bound_and_can_be_left_at_any_of_them(
    filled: Broker, monkeypatch, is_newest_first: bool
) -> None:
    monkeypatch.setattr(scan_module, "STEP_RECORDS_MAX", 5)
    monkeypatch.setattr(scan_module, "STEP_ENTRIES_MAX", 8)
    query = ScanQuery("orders", filter="SQL92: amount > 50", is_newest_first=is_newest_first)
    cursor, found, scanned = "", [], 0
    while True:
        scan = filled.search.scan(query, count_max=100, cursor=cursor)
        while not scan.is_placed:
            scan.step(check)
        for _ in range(2):  # the time is up after two steps
            if not scan.is_over:
                scan.step(check)
        page = scan.page()
        assert page.scanned - scanned <= 16
        scanned = page.scanned
        found.append(page)
        if page.next_cursor is None:
            break
        cursor = page.next_cursor
    ordered = reversed(range(51, 300)) if is_newest_first else range(51, 300)
    assert bodies(found) == [f"no {number}." for number in ordered]
    assert (scanned, found[-1].matched) == (300, 249)


def test_what_arrives_while_it_goes_on_is_not_part_of_it(filled: Broker) -> None:
    first = run(filled, ScanQuery("orders"), count_max=200)
    filled.send([Message("orders", b"late", queue=1)])
    assert first.next_cursor is not None
    rest = run(filled, ScanQuery("orders"), count_max=200, cursor=first.next_cursor)
    assert (len(rest.items), rest.total, rest.next_cursor) == (100, 300, None)


def test_a_page_holds_4_mib_of_messages_or_one(engine) -> None:
    broker = engine.start(segment_bytes=16 * 1024 * 1024)
    for _ in range(4):
        broker.send([Message("big", bytes(3 * 1024 * 1024), queue=0)])
    assert [len(page.items) for page in pages(broker, ScanQuery("big"))] == [2, 2]


def test_more_queues_than_a_step_places_are_all_looked_at(broker: Broker) -> None:
    broker.create_topic(TopicConfig("wide", read_queues=50, write_queues=50))
    broker.send([Message("wide", b"%d" % queue, queue=queue) for queue in range(50)])
    found = pages(broker, ScanQuery("wide"), count_max=20)
    assert bodies(found) == [str(queue) for queue in range(50)]


def test_what_waits_for_its_time_is_found_by_its_tag_too(broker: Broker, clock) -> None:
    due_ms = clock.now_ms() + 60_000
    broker.send([Message("orders", b"x", tag="t", deliver_at_ms=due_ms)])
    assert bodies(pages(broker, ScanQuery("rmq_sys_wheel_timer", filter="t"))) == ["x"]


def test_messages_of_a_deleted_topic_of_the_same_name_are_not_found(filled: Broker) -> None:
    first = run(filled, ScanQuery("orders"), count_max=10)
    filled.delete_topic("orders")
    filled.send([Message("orders", b"new")])
    assert bodies(pages(filled, ScanQuery("orders"))) == ["new"]
    assert first.next_cursor is not None
    assert run(filled, ScanQuery("orders"), cursor=first.next_cursor).items == []


def test_damaged_records_are_stepped_over_and_counted(engine, broker: Broker) -> None:
    sent = broker.send([Message("orders", b"body %d" % number, queue=0) for number in range(5)])
    (segment,) = (engine.root / "commitlog").iterdir()
    with segment.open("r+b") as file:
        file.seek(sent.positions[2] + 88)
        file.write(b"DAMAGE")
    (page,) = pages(broker, ScanQuery("orders"))
    assert bodies([page]) == ["body 0", "body 1", "body 3", "body 4"]
    assert (page.unreadable, page.scanned) == (1, 5)


def test_what_retention_takes_in_between_is_gone_and_the_rest_is_found(engine) -> None:
    broker = engine.start(segment_bytes=4096)
    for number in range(60):
        broker.send([Message("orders", b"%d " % number + bytes(300), queue=0)])
    first = run(broker, ScanQuery("orders"), count_max=3)
    engine.tick(5)
    broker._store.expire(broker._store.written)
    oldest = broker.topic_stats("orders").queues[0].min_offset
    assert oldest > 3
    assert first.next_cursor is not None
    rest = run(broker, ScanQuery("orders"), count_max=200, cursor=first.next_cursor)
    assert [message.offset for message in rest.items] == list(range(oldest, 60))


def test_a_job_whose_file_went_away_finds_nothing_there(engine) -> None:
    class Gone(OsFiles):
        is_gone = False

        def open(self, path, *, create=False):
            if self.is_gone and "commitlog" in str(path):
                raise FileNotFoundError(path)
            return super().open(path, create=create)

    files = Gone()
    broker = engine.start(files=files)
    broker.send([Message("orders", b"x", queue=0)])
    files.is_gone = True
    (page,) = pages(broker, ScanQuery("orders"))
    assert (page.items, page.unreadable) == ([], 1)


def test_a_cursor_belongs_to_its_search(filled: Broker) -> None:
    cursor = run(filled, ScanQuery("orders"), count_max=1).next_cursor
    assert cursor is not None
    for query, text in (
        (ScanQuery("orders", filter="t"), cursor),
        (ScanQuery("orders"), "nonsense"),
        (ScanQuery("orders"), "ä"),
        (ScanQuery("orders"), cursor[:-4]),
        (ScanQuery("orders"), "x" * 10_000),
    ):
        with pytest.raises(Invalid) as caught:
            filled.search.scan(query, cursor=text)
        assert caught.value.field == "cursor"


def test_wrong_names_and_filters_are_refused(broker: Broker) -> None:
    with pytest.raises(TopicNotFound):
        broker.search.scan(ScanQuery("nowhere"))
    broker.create_topic(TopicConfig("t"))
    with pytest.raises(Invalid) as caught:
        broker.search.scan(ScanQuery("t", filter="SQL92: a >"))
    assert caught.value.field == "filter"


@pytest.mark.parametrize("flag", PACKERS)
def test_a_text_is_found_in_a_body_that_its_producer_compressed(broker: Broker, flag: int) -> None:
    broker.create_topic(TopicConfig("orders"))
    for text in (b"a needle in " + b"hay " * 500, b"only " + b"hay " * 500):
        broker.send([Message("orders", PACKERS[flag](text), sys_flag=flag)])
    broker.send([Message("orders", b"broken", sys_flag=flag)])
    found = run(broker, ScanQuery("orders", contains="needle"))
    assert [message.plain.body[:8] for message in found.items] == [b"a needle"]
    assert run(broker, ScanQuery("orders", contains="broken")).matched == 1, "what stayed raw"
