"""A standby is what its leader was at the last cut, and refuses what would make it something else.

Lives by chance, with deaths of both sides at every write, are in `tests/simulation`.
"""

from zlib import crc32

import msgspec
import pytest

from engine.broker import TopicConfig
from engine.errors import Conflict, Corrupt, DiskFull, Refused
from engine.message import Message
from engine.replication.pieces import JournalPiece, LogPiece, ReplicaCut, SnapshotPiece
from engine.store.journal_files import file_path
from tests.engine.replication.pair import ROOT, Pair
from tests.engine.store.parts import HeldPool
from tests.simulation.boot import boot
from tests.simulation.disk import ROOM_UNLIMITED, Disk, FakeFiles


def test_messages_can_be_read_from_a_standby_once_a_cut_came(pair: Pair) -> None:
    pair.send(b"1", b"2")
    pieces = pair.pieces()
    assert isinstance(pieces[-1], ReplicaCut)
    for piece in pieces[:-1]:
        pair.take(piece)
    assert pair.bodies() == set()
    pair.take(pieces[-1])
    assert pair.bodies() == {b"1", b"2"}


@pytest.mark.parametrize("size", [1, 13, 1000, 1 << 20])
def test_pieces_of_any_size_make_an_equal_directory(pair: Pair, size: int) -> None:
    for number in range(6):
        pair.send(b"%d" % number * 7000)  # over the ends of segments
        pair.broker.receive("g", {"orders": "*"}, count_max=1)
    pair.feed(size)
    result = pair.compare()
    assert result.is_equal, result.differences
    assert result.log_bytes > 40_000
    assert result.changes > 5


def test_a_standby_goes_on_where_it_was_killed(pair: Pair) -> None:
    pair.send(b"1")
    pair.feed()
    pair.send(b"2" * 3000)
    for piece in pair.pieces(size=500)[:4]:
        pair.take(piece)
    pair.standby_disk.kill()
    pair.standby = pair.open_standby()
    before = pair.standby.state().log_end
    first = next(piece for piece in pair.pieces() if isinstance(piece, LogPiece))
    assert first.position == before > 0
    pair.feed()
    assert pair.bodies() == {b"1", b"2" * 3000}
    assert pair.compare().is_equal


def test_records_of_a_topic_that_was_not_known_yet_are_there_after_two_deaths(pair: Pair) -> None:
    """A start finds them in the log, of no topic; a checkpoint must not move over them."""
    pair.send(b"known", topic="known")
    pair.feed()
    sent = pair.broker.send([Message("orders", b"1", keys=("k",))])
    after = pair.broker.send([Message("known", b"known too", keys=("k",))])
    for piece in pair.pieces():
        if isinstance(piece, LogPiece):
            pair.take(piece)
    for _ in range(2):
        pair.standby_disk.kill()
        pair.standby = pair.open_standby()
        pair.clock.advance(10.0)
        pair.standby.tick()
    pair.feed()
    assert pair.bodies() == {b"1"}
    index = pair.standby.parts.store._index
    for topic, positions in (("orders", sent.positions), ("known", after.positions)):
        found = index.positions(topic, "k", count_max=9, begin_ms=0, end_ms=1 << 62)
        assert found == positions, topic


def test_a_topic_that_was_made_again_has_its_new_messages_alone(pair: Pair) -> None:
    pair.send(b"old")
    pair.feed()
    pair.broker.delete_topic("orders")
    pair.send(b"new")
    pair.feed()
    assert pair.bodies() == {b"new"}
    assert pair.compare().is_equal


def test_a_purge_of_the_leader_is_seen_on_the_standby(pair: Pair) -> None:
    pair.send(b"1", b"2")
    pair.feed()
    pair.broker.retention.purge("orders", everything=True)
    pair.feed()
    assert pair.bodies() == set()


def test_a_standby_with_too_old_a_journal_gets_a_snapshot(pair: Pair) -> None:
    pair.send(b"1")
    pair.feed()
    for _ in range(3):
        pair.send(b"2")
        pair.compact_leader()
    assert any(isinstance(piece, SnapshotPiece) for piece in pair.pieces())
    pair.feed()
    assert pair.bodies() == {b"1", b"2"}
    assert pair.compare().is_equal


@pytest.mark.parametrize("seed", range(10))
def test_a_standbys_journal_has_no_gap_after_a_power_loss(pair: Pair, seed: int) -> None:
    """An older file without its end would look whole, and the next one would go on behind it."""
    pair.disk.kill()
    pair.broker = boot(pair.disk, pair.clock, HeldPool())  # it keeps its snapshot to itself
    pair.standby_disk.chance.seed(seed)
    pair.send(b"1")
    pair.feed()
    pair.compact_leader()
    pair.send(b"2")
    pair.feed()
    assert pair.standby.state().journal.number == 1
    pair.standby_disk.lose_power()
    pair.standby = pair.open_standby()
    pair.feed()
    assert pair.bodies() == {b"1", b"2"}
    assert pair.compare().is_equal


def test_a_leader_that_was_killed_is_followed_again(pair: Pair) -> None:
    pair.send(b"1")
    pair.feed()
    pair.restart_leader()
    pair.send(b"2")
    pair.feed()
    assert pair.bodies() == {b"1", b"2"}
    assert pair.compare().is_equal


def test_a_broker_starts_on_what_a_standby_left(pair: Pair) -> None:
    pair.send(b"1", b"2", b"3")
    first = pair.broker.receive("g", {"orders": "*"}, count_max=1)
    pair.broker.ack("g", [first[0].receipt])
    pair.feed()
    pair.standby.close()
    pair.standby_disk.kill()
    promoted = boot(pair.standby_disk, pair.clock, data=ROOT)
    left = promoted.receive("g", {"orders": "*"}, count_max=10)
    assert len(left) == 2
    assert first[0].message.body not in {each.message.body for each in left}


def test_a_gap_is_refused(pair: Pair) -> None:
    pair.send(b"1" * 5000)
    first, second = pair.pieces(size=2000)[:2]
    assert isinstance(first, LogPiece)
    assert isinstance(second, LogPiece)
    pair.take(first)
    later = msgspec.structs.replace(second, position=second.position + 1)
    with pytest.raises(Corrupt, match="the log ends at 2000, what comes begins at 2001"):
        pair.take(later)


def test_a_gap_in_the_journal_is_refused(pair: Pair) -> None:
    pair.send(b"1")
    piece = next(each for each in pair.pieces(size=50) if isinstance(each, JournalPiece))
    later = msgspec.structs.replace(piece, at=piece.at + 1)
    with pytest.raises(Corrupt, match="the journal ends at 0 of file 0"):
        pair.take(later)


def test_an_overlap_is_skipped_where_it_is_equal_and_refused_where_it_differs(pair: Pair) -> None:
    pair.send(b"1")
    pieces = pair.pieces()
    log = pieces[0]
    assert isinstance(log, LogPiece)
    pair.take(log)
    end = pair.standby.state().log_end
    pair.take(log)
    assert pair.standby.state().log_end == end
    data = log.data[:-1] + b"\xff"
    with pytest.raises(Corrupt, match="the leader has other bytes at 0"):
        pair.take(LogPiece(0, data, crc32(data)))
    for piece in pieces[1:]:
        pair.take(piece)
    assert pair.bodies() == {b"1"}


def test_what_was_damaged_on_its_way_is_refused(pair: Pair) -> None:
    pair.send(b"1")
    piece = pair.pieces()[0]
    assert isinstance(piece, LogPiece)
    flipped = msgspec.structs.replace(piece, data=b"\x01" + piece.data[1:])
    with pytest.raises(Corrupt, match="damaged on its way"):
        pair.take(flipped)
    assert pair.standby.state().log_end == 0


def test_what_is_damaged_in_the_leaders_log_is_so_in_the_copy_and_named(pair: Pair) -> None:
    pair.broker.create_topic(TopicConfig("orders", read_queues=1, write_queues=1))
    pair.send(b"first", b"damaged", b"third")
    log = pair.disk.shown[pair.broker._config.data / "commitlog" / f"{0:020d}"]
    assert log is not None
    at = bytes(log.shown).index(b"damaged")
    log.shown[at] ^= 1
    pair.feed()
    assert pair.compare().is_equal
    assert pair.bodies() == {b"first", b"third"}
    [damage] = pair.standby.parts.store.damages
    assert "so it is in the leader's log" in damage.detail
    assert damage.start < at < damage.end


def test_a_standby_of_another_leader_is_refused(pair: Pair) -> None:
    pair.send(b"1")
    pair.feed()
    other = Pair()
    other.send(b"something else", b"and more")
    with pytest.raises(Conflict, match="the logs differ before") as refusal:
        other.broker.cursor_for(pair.standby.state()).check()
    assert "move the standby's data directory away" in refusal.value.remedy


def test_a_standby_that_has_more_than_its_leader_is_refused(pair: Pair) -> None:
    pair.send(b"1")
    pair.feed()
    with pytest.raises(Conflict, match="it has what the leader has not"):
        Pair().broker.cursor_for(pair.standby.state()).check()


def test_a_standby_with_other_segments_is_refused(pair: Pair) -> None:
    state = msgspec.structs.replace(pair.standby.state(), segment_bytes=4096)
    with pytest.raises(Conflict, match="segments have 4096 bytes") as refusal:
        pair.broker.cursor_for(state).check()
    assert refusal.value.field == "segment_bytes"


def test_a_standby_whose_disk_is_full_goes_on_when_there_is_room(pair: Pair) -> None:
    pair.send(b"1" * 9000)
    pair.standby_disk.room_bytes = 512
    with pytest.raises(DiskFull):
        pair.feed()
    pair.standby_disk.room_bytes = ROOM_UNLIMITED
    pair.feed()
    assert pair.bodies() == {b"1" * 9000}
    assert pair.compare().is_equal


def test_no_verb_changes_a_standby(pair: Pair) -> None:
    pair.send(b"1")
    pair.feed()
    with pytest.raises(Refused, match="its leader alone"):
        pair.standby.parts._check_running()


def test_a_leader_says_how_far_a_standby_is_behind(pair: Pair) -> None:
    pair.send(b"1")
    cursor = pair.cursor()
    end = pair.broker.log_end
    assert cursor.lag_bytes == end
    while cursor.next() is not None:
        pass
    assert cursor.lag_bytes == 0
    pair.broker.send([Message("orders", b"2")])
    assert cursor.lag_bytes == pair.broker.log_end - end


def test_a_snapshot_is_given_also_where_nothing_follows_it(pair: Pair) -> None:
    pair.send(b"1")
    cursor = pair.cursor()
    while (piece := cursor.next()) is not None:
        pair.take(piece)
    pair.compact_leader()
    pieces = list(iter(cursor.next, None))
    assert any(isinstance(piece, SnapshotPiece) for piece in pieces)
    assert isinstance(pieces[-1], ReplicaCut)


def test_no_cut_lacks_a_change_that_waits_for_room(pair: Pair) -> None:
    """A standby that is promoted at such a cut would make the change once more."""
    pair.send(b"1")
    cursor = pair.cursor()
    pair.broker._store.journal._owed = b"a change that the disk has no room for"
    assert cursor.next() is None
    pair.broker._store.journal._owed = b""
    assert cursor.next() is not None


def test_a_journal_that_began_with_a_snapshot_is_not_given_without_one(pair: Pair) -> None:
    """As that of a leader that has been a standby, and was filled from a snapshot."""
    pair.send(b"1")
    pair.feed()
    for _ in range(2):
        pair.compact_leader()
    config = pair.broker._config.data / "config"
    FakeFiles(pair.disk).open(file_path(config, "journal", 0), create=True)
    pair.standby_disk = Disk(pair.disk.chance)
    pair.standby = pair.open_standby()
    pair.feed()
    assert pair.bodies() == {b"1"}
    assert pair.compare().is_equal
