"""The log of a leader that lost power has no hole: its standbys and RocketMQ's slaves have none."""

import random
from collections.abc import Sequence

import pytest

from engine.replication.boots import after_boot, save_boot
from engine.replication.epochs import EpochState, load_epochs, save_epochs
from engine.replication.holes import HOLE_BYTES_MAX, close_holes
from engine.replication.tail import scan_directory
from engine.store.damage import SET_ASIDE, Damage
from engine.store.files import read_whole
from engine.store.record import HOLE_TOPIC, decode
from engine.store.recovery import HOLE
from engine.store.verify import verify_store
from tests.engine.replication.pair import Pair
from tests.simulation.boot import boot, settings
from tests.simulation.disk import Crash, Disk, FakeFiles

DATA = settings().data
BODIES = [b"%d" % number * 7000 for number in range(9)]  # four in a segment


def take(disk: Disk, bodies: Sequence[bytes], kept_bytes: int = 0) -> None:
    """Let the leader's disk lack these bodies, but for their first bytes, as its machine starts."""
    disk.kill()
    files = FakeFiles(disk)
    save_epochs(DATA, EpochState().with_cluster(), files)
    save_boot(DATA, "1", files)
    logs = [node for path, node in disk.shown.items() if path.parent.name == "commitlog" and node]
    for body in bodies:
        [node] = [node for node in logs if body in node.shown]
        begin = node.shown.index(body) + kept_bytes
        end = node.shown.index(body) + len(body)
        node.shown[begin:end] = bytes(end - begin)
        node.kept = bytearray(node.shown)


def start_again(pair: Pair) -> None:
    files = FakeFiles(pair.disk)
    after_boot(DATA, load_epochs(DATA, files), "2", files)
    pair.clock.advance(1.0)
    pair.broker = boot(pair.disk, pair.clock)


@pytest.mark.parametrize("lost", [[0], [1, 2], [3], [0, 1, 2, 3], [2, 3, 4, 5], [3, 4, 5, 6, 7]])
def test_a_killed_standby_keeps_what_it_has_behind_its_leaders_hole(
    pair: Pair, lost: list[int]
) -> None:
    pair.send(*BODIES)
    take(pair.disk, [BODIES[each] for each in lost])
    start_again(pair)
    pair.feed()
    end = pair.standby.end
    pair.standby_disk.kill()
    pair.standby = pair.open_standby()
    assert pair.standby.end == end
    pair.send(b"next")
    pair.feed()
    assert pair.bodies() == {
        b"next",
        *(body for each, body in enumerate(BODIES) if each not in lost),
    }
    assert pair.compare().is_equal
    assert not pair.standby.parts.store.damages


@pytest.mark.timeout(30)
@pytest.mark.parametrize("number", [0, 1])
def test_a_file_of_the_log_that_a_crash_left_too_short_is_read_to_its_end(
    pair: Pair, number: int
) -> None:
    pair.send(*BODIES[:5])
    pair.disk.kill()
    files = FakeFiles(pair.disk)
    size, end = settings().segment_bytes, scan_directory(DATA, files).end
    log = pair.disk.shown[DATA / "commitlog" / f"{number * size:020d}"]
    assert log is not None
    del log.shown[5000:]
    scan = scan_directory(DATA, files)
    assert scan.whole_end == number * size
    assert scan.end == (number * size or end)


def test_a_hole_is_named_and_what_it_had_is_set_aside(pair: Pair) -> None:
    pair.send(*BODIES[:3])
    take(pair.disk, BODIES[1:2], kept_bytes=5000)
    [damage] = scan_directory(DATA, FakeFiles(pair.disk)).damages
    was = read_whole(FakeFiles(pair.disk), DATA / "commitlog" / f"{0:020d}")
    start_again(pair)
    assert pair.broker._store.damages == [Damage(damage.start, damage.end, HOLE)]
    files = FakeFiles(pair.disk)
    copy = read_whole(files, DATA / SET_ASIDE / f"commitlog.{damage.start}")
    assert copy == was[damage.start : damage.end]
    report = verify_store(files, DATA, patience_s=())
    assert not [each for each in report.faults if each.where.startswith("log ")]
    assert f"log {damage.start}..{damage.end}: {HOLE}" in report.notes
    assert HOLE_TOPIC not in {topic.name for topic in pair.broker.topics(system=True)}


def test_a_hole_stays_where_there_is_no_room_for_what_it_has(pair: Pair) -> None:
    pair.send(*BODIES[:3])
    take(pair.disk, BODIES[1:2], kept_bytes=5000)
    [damage] = scan_directory(DATA, FakeFiles(pair.disk)).damages
    pair.disk.room_bytes = 2048
    close_holes(DATA, [damage], FakeFiles(pair.disk))
    assert scan_directory(DATA, FakeFiles(pair.disk)).damages == [damage]


def test_a_crash_at_any_step_closes_the_hole_at_the_next_start() -> None:
    steps = 0
    for crash_in in range(1, 30):
        for is_power in (False, True):
            pair = Pair()
            pair.disk.chance = random.Random(crash_in)
            pair.send(*BODIES)
            for unsynced in pair.broker._store.take_unsynced():
                unsynced.sync()
            take(pair.disk, BODIES[2:5], kept_bytes=3000)
            files = pair.disk.boot()
            begin = scan_directory(DATA, files).whole_end
            pair.disk.crash_in = crash_in
            try:
                after_boot(DATA, load_epochs(DATA, files), "2", files)
            except Crash:
                steps += 1
            pair.disk.lose_power() if is_power else pair.disk.kill()
            files = pair.disk.boot()
            state = after_boot(DATA, load_epochs(DATA, files), f"{2 + is_power}", files)
            assert not scan_directory(DATA, files).damages
            assert min(each.log_end for each in state.history.starts) == begin
            pair.disk.kill()
            pair.broker = boot(pair.disk, pair.clock)
            pair.feed()
            assert pair.compare().is_equal
    assert steps > 20


@pytest.mark.parametrize(
    "size_bytes", [HOLE_BYTES_MAX, HOLE_BYTES_MAX + 1, 3 * HOLE_BYTES_MAX + 50]
)
def test_a_large_hole_is_closed_by_several_records(pair: Pair, size_bytes: int) -> None:
    pair.disk = Disk(random.Random(1))
    pair.broker = boot(pair.disk, pair.clock, segment_bytes=8 * HOLE_BYTES_MAX)
    pair.send(b"first")
    room = pair.broker.log_end - len(b"first")
    lost = b"x" * (size_bytes - room)
    pair.send(lost, b"last")
    take(pair.disk, [lost])
    files = FakeFiles(pair.disk)
    [damage] = scan_directory(DATA, files).damages
    assert damage.end - damage.start == size_bytes
    close_holes(DATA, [damage], files)
    scan = scan_directory(DATA, files)
    assert not scan.damages
    ends = [damage.start, *(hole.end for hole in scan.holes)]
    assert [hole.start for hole in scan.holes] == ends[:-1]
    assert ends[-1] == damage.end
    sizes = [hole.end - hole.start for hole in scan.holes]
    assert max(sizes) <= HOLE_BYTES_MAX
    data = read_whole(files, DATA / "commitlog" / f"{0:020d}")[damage.start :]
    assert decode(data[: sizes[0]]).topic == HOLE_TOPIC
