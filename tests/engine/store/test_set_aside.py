"""Entries of the journal that a start cannot apply: set aside and named, and it serves.

The directories in `fixtures` were made by the version that took a receipt with the serial 0 for
current: each holds the change which no start of that version survived.
"""

import logging
import tarfile
from pathlib import Path
from typing import Any
from zlib import crc32

import msgspec
import pytest

from engine.broker import Broker, TopicConfig
from engine.container import Container
from engine.delivery.changes import DeliverySettled, HandedOut, PutBack
from engine.delivery.message_state import Transition
from engine.errors import Illegal
from engine.inspection import inspect
from engine.journal_legality import inapplicable
from engine.message import Message
from engine.store import journal
from engine.store.files import File, OsFiles
from engine.store.journal import FRAME
from engine.store.journal_entries import JournalFrame
from tests.engine.conftest import Engine

FIXTURES = Path(__file__).parent / "fixtures"
BRICKED = sorted(path.name.removesuffix(".tar.gz") for path in FIXTURES.glob("bricked-*.tar.gz"))
# Its change follows from a record in the log, so an unclean start leaves it out in any case.
LEFT_OUT = "bricked-nack"
NAMED = [name for name in BRICKED if name != LEFT_OUT]
SMALL: dict[str, Any] = {
    "segment_bytes": 16384,
    "queue_file_entries": 26,
    "index_slots": 13,
    "index_items": 40,
    "default_queues": 1,
}
JOURNAL = "config/progress.journal.0000000000"


def unpack(name: str, root: Path) -> None:
    root.mkdir()
    with tarfile.open(FIXTURES / f"{name}.tar.gz") as archive:
        archive.extractall(root, filter="data")


def bodies(engine: Engine) -> set[bytes]:
    """What comes to the group within some minutes."""
    found: set[bytes] = set()
    for _ in range(20):
        assert engine.broker is not None
        for delivery in engine.broker.receive("g", {"orders": "*"}, count_max=10):
            found.add(delivery.message.body)
            assert engine.broker.ack("g", [delivery.receipt]) == ["done"]
        engine.tick(30)
    return found


def frame(payload: bytes) -> bytes:
    return FRAME.pack(len(payload), crc32(payload)) + payload


def append(engine: Engine, *payloads: bytes) -> int:
    """Put frames behind the last journal of a broker that was killed; where the first begins."""
    engine.close()
    path = sorted((engine.root / "config").glob("progress.journal.*"))[-1]
    start = path.stat().st_size
    with path.open("ab") as file:
        file.write(b"".join(map(frame, payloads)))
    return start


@pytest.mark.parametrize("name", NAMED)
def test_a_directory_bricked_by_one_receipt_opens_and_loses_no_message(
    engine: Engine, name: str
) -> None:
    unpack(name, engine.root)
    broker = engine.start(**SMALL)
    damages = broker.health().damages
    assert damages, "what was set aside is named"
    for damage in damages:
        assert damage.file == JOURNAL
        assert "set aside: " in damage.detail
        assert damage.copy
    (copy,) = {damage.copy for damage in damages}
    whole = (engine.root / JOURNAL).read_bytes()
    kept = b"".join(whole[damage.start : damage.end] for damage in damages)
    assert (engine.root / copy).read_bytes() == kept
    assert broker.health().is_ready
    expected = {b"first", b"third"} if "then-more" in name else {b"first"}
    assert bodies(engine) == expected
    again = engine.restart(**SMALL)
    assert not again.health().damages, "the snapshot does not bring it back"
    assert bodies(engine) == set()


def test_a_directory_bricked_by_a_failure_opens_and_loses_no_message(engine: Engine) -> None:
    """The message was written to the retry topic, and comes from there besides."""
    unpack(LEFT_OUT, engine.root)
    broker = engine.start(**SMALL)
    assert broker.health().is_ready
    assert bodies(engine) == {b"first"}
    engine.restart(**SMALL)
    assert bodies(engine) == set()


@pytest.mark.parametrize("name", NAMED)
def test_starts_before_the_snapshot_keep_one_copy(engine: Engine, name: str) -> None:
    unpack(name, engine.root)
    for _ in range(3):
        broker = engine.start(**SMALL)
        assert broker.health().damages
        engine.close()
    assert len(list((engine.root / "set-aside").iterdir())) == 1


def test_each_is_told_in_the_log(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    unpack("bricked-ack", engine.root)
    with caplog.at_level(logging.WARNING):
        engine.start(**SMALL)
    (told,) = [record.getMessage() for record in caplog.records if JOURNAL in record.getMessage()]
    assert "a message that is ready has no move ack" in told
    assert "set-aside/" in told


@pytest.mark.parametrize(
    "payload",
    [
        msgspec.msgpack.encode(["from_a_later_version", "x"]),
        msgspec.msgpack.encode(["settled", "g", "orders", 0, [0, 1], "no_such_move"]),
        msgspec.msgpack.encode(["settled", "g", "orders", "0", [0, 1], "ack"]),
        msgspec.msgpack.encode(["settled", "g"]),
        msgspec.msgpack.encode(["settled", "g", "orders", 1.5, [0, 1], "ack"]),
        msgspec.msgpack.encode({"no": "array"}),
        b"\xc1",
        b"\x94\xa6passed\xa1\xff",
        b"\x91" * 5000,
    ],
)
def test_what_no_version_of_this_kind_wrote_is_set_aside(engine: Engine, payload: bytes) -> None:
    broker = engine.start()
    broker.create_topic(TopicConfig("orders", read_queues=1, write_queues=1))
    broker.send([Message("orders", b"a")])
    after = msgspec.msgpack.encode(["group_set", {"name": "made-after"}])
    start = append(engine, payload, after)
    broker = engine.start()
    (damage,) = broker.health().damages
    assert (damage.start, damage.end) == (start, start + FRAME.size + len(payload))
    assert "no entry that this version knows" in damage.detail
    assert [group.name for group in broker.groups()] == ["made-after"], "the rest is applied"
    (delivery,) = broker.receive("g", {"orders": "*"})
    assert delivery.message.body == b"a"


class FullFiles(OsFiles):
    """Nothing can be written into `set-aside`."""

    def open(self, path: Path, *, create: bool = False) -> File:
        if create and "set-aside" in path.parts:
            raise OSError(28, "No space left on device")
        return super().open(path, create=create)


def test_what_cannot_be_copied_stays_where_it_is(engine: Engine) -> None:
    unpack("bricked-ack", engine.root)
    broker = engine.start(files=FullFiles(), **SMALL)
    (damage,) = broker.health().damages
    assert not damage.copy
    engine.tick(10)
    engine.tick(10)
    assert (engine.root / JOURNAL).exists(), "no snapshot took its place"
    engine.close()
    (damage,) = engine.start(**SMALL).health().damages
    assert damage.copy


def test_an_illegal_change_leaves_no_byte_and_changes_nothing(engine: Engine) -> None:
    broker = engine.start()
    broker.send([Message("orders", b"a", queue=0)])
    (given,) = broker.receive("g", {"orders": "*"})
    broker.release("g", [given.receipt])
    before = (engine.root / JOURNAL).read_bytes()
    ledger = broker._desk.ledger
    place = ("g", "orders", 0)
    for change in (
        DeliverySettled(*place, [0, 1], Transition.ACK),
        DeliverySettled(*place, [0, 1], Transition.RETRY, 1, 0, 5),
        DeliverySettled(*place, [0, 1], Transition.EXTEND),
        PutBack(*place, [0, 1]),
        PutBack(*place, [0]),
        HandedOut(*place, 1, [0, 1], 0, 0, "", [], [], []),
        HandedOut(*place, 0, [0, 1], 1 << 60, 0, "", [], [], []),
        HandedOut(*place, 2, [0, 2], 1 << 60, 0, "", ["a", "b", "c"], [], []),
        HandedOut(*place, 1 << 64, [], 1 << 60, 0, "", [], [], []),
    ):
        for is_owed in (False, True):
            with pytest.raises(Illegal):
                ledger.write(change, is_owed=is_owed)
    assert (engine.root / JOURNAL).read_bytes() == before
    (again,) = broker.receive("g", {"orders": "*"})
    assert (again.message.body, again.attempt) == (b"a", 1)


def test_every_part_of_the_journal_checks_its_changes(broker: Broker) -> None:
    parts: Container = broker._parts
    for part in parts.store.journal._parts:
        assert set(part.checks) == set(part.entry_types)
        assert journal._is_legal not in part.checks.values(), part.entry_types


def test_what_a_damaged_record_says_of_its_source_keeps_no_start_from_serving(
    engine: Engine,
) -> None:
    """The record's CRC finds it: the whole record is stepped over."""
    broker = engine.start(**SMALL)
    broker.create_topic(TopicConfig("orders", read_queues=1, write_queues=1))
    broker.send([Message("orders", b"a")])
    broker.receive("g", {"orders": "*"}, invisible_s=1)
    engine.tick(2)  # it goes on to the retry topic
    log = engine.root / "commitlog" / "00000000000000000000"
    engine.close()
    data = log.read_bytes()
    source = b"g@orders@0@0@"
    assert data.count(source) == 1
    log.write_bytes(data.replace(source, b"g@orders@x@0@"))
    (engine.root / "checkpoint").unlink()  # so that the log is read from its beginning
    broker = engine.start(**SMALL)
    damage = broker.health().damages[0]
    assert "CRC" in damage.detail
    assert bodies(engine) == {b"a"}


@pytest.mark.parametrize("name", BRICKED)
def test_what_no_start_can_apply_is_told_without_one(engine: Engine, name: str) -> None:
    """For `kitemq store verify`: nothing is changed."""
    unpack(name, engine.root)
    files = OsFiles()
    path = engine.root / JOURNAL
    before = path.read_bytes()
    at, frames = 0, []
    while at < len(before):
        size, _ = FRAME.unpack_from(before, at)
        payload = before[at + FRAME.size : at + FRAME.size + size]
        frames.append(JournalFrame(JOURNAL, at, payload))
        at += FRAME.size + size
    refused = inapplicable(files, engine.root, frames)
    assert refused
    assert all("no move" in each.reason or "not ready" in each.reason for each in refused)
    assert path.read_bytes() == before
    assert not (engine.root / "set-aside").exists()


@pytest.mark.parametrize("name", BRICKED)
def test_verifying_names_what_no_start_can_apply(engine: Engine, name: str) -> None:
    unpack(name, engine.root)
    whole = (engine.root / JOURNAL).read_bytes()
    report = inspect(OsFiles(), engine.root, patience_s=(), index_slots=13, index_items=40)
    told = [each for each in report.faults if each.where.startswith(f"{JOURNAL} at ")]
    assert told, report.faults
    for fault in told:
        at = int(fault.where.rpartition(" ")[2])
        size, crc = FRAME.unpack_from(whole, at)
        assert crc32(whole[at + FRAME.size : at + FRAME.size + size]) == crc
        assert "no start can apply it: " in fault.detail
    assert (engine.root / JOURNAL).read_bytes() == whole
    assert not (engine.root / "set-aside").exists()


@pytest.mark.parametrize("name", ["\0", "a\x01b", "\x02"])
def test_a_change_of_a_name_that_no_record_can_hold_is_illegal(engine: Engine, name: str) -> None:
    """A trace of it was a record that the next start took for damaged."""
    ledger = engine.start()._desk.ledger
    for group, topic in ((name, "orders"), ("g", name)):
        with pytest.raises(Illegal, match="no name can have"):
            ledger.write(HandedOut(group, topic, 0, 1, [0, 1], 1 << 40, 0, "", [], [], []))
