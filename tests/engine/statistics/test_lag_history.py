"""The history of lag: kept through restarts, crashes and torn files, bounded, with gaps as gaps."""

import json
import random
import struct
import zlib
from array import array
from pathlib import Path

import pytest

from engine.broker import Broker, LagHistoryPage
from engine.clock import ManualClock
from engine.delivery.reset_plan import ResetTarget, ResetTo
from engine.errors import Corrupt, Invalid
from engine.message import Message
from engine.statistics import lag_block, lag_files
from engine.statistics.lag_block import Block
from engine.statistics.lag_history import LagHistoryStore
from engine.statistics.lag_points import Points, query
from engine.statistics.lag_round import WIDTH, LagColumn, LagRound
from engine.statistics.values import LagName
from engine.statistics.windows import DAY_MS, MINUTE_MS
from engine.store.files import OsFiles
from engine.store.pool import InlinePool
from tests.engine.conftest import Engine
from tests.simulation.disk import Crash, Disk, FakeFiles

START_MS = 1_700_000_000_000 // DAY_MS * DAY_MS
STEP_MS = 10_000
NAMES = (LagName("billing", "orders", 0), LagName("billing", "orders", 1), LagName("log", "a", 0))


def sample(count: int, *, oldest_ms: int = 0, dead: int = 0) -> list[int]:
    return [1, 0, 100 + count, 100, 100, count, oldest_ms, 0, 0, dead, -1, 1, 0, 0, 0]


def round_of(at_ms: int, *counts: int, names: tuple[LagName, ...] = NAMES) -> LagRound:
    names = names[: len(counts)]
    values = array("q", [number for count in counts for number in sample(count)])
    return LagRound(at_ms, names, values)


def history(files: OsFiles | FakeFiles, directory: Path, **bounds: int) -> LagHistoryStore:
    bounds = {"days": 30, "bytes_max": 1 << 28, **bounds}
    made = LagHistoryStore(files, directory, InlinePool(), **bounds)
    made.load()
    return made


def read(kept: LagHistoryStore, from_ms: int, to_ms: int, points_max: int = 2000) -> LagHistoryPage:
    found: list[LagHistoryPage] = []
    kept.read(query("billing", None, None, from_ms, to_ms, points_max, STEP_MS), found.append)
    return found[0]


def times(kept: LagHistoryStore) -> list[int]:
    """When there are samples; a time is named twice if its sample is there twice."""
    page = read(kept, START_MS - 1000 * STEP_MS, START_MS + 900 * STEP_MS)
    assert page.step_ms == STEP_MS
    return [point.at_ms for point in page.points for _ in range(point.samples)]


def asked(broker: Broker, clock: ManualClock, **given: object) -> LagHistoryPage:
    found: list[LagHistoryPage] = []
    now_ms = clock.now_ms()
    given = {"from_ms": now_ms - 3_600_000, "to_ms": now_ms + 1, **given}
    broker.statistics.lag_history("billing", found.append, **given)  # type: ignore[arg-type]
    return found[0]


# -- blocks ----------------------------------------------------------------------------------------


def test_a_block_gives_back_the_rounds_it_was_made_of() -> None:
    chance = random.Random(3)
    rounds = []
    for number in range(40):
        names = tuple(sorted(chance.sample(NAMES, chance.randrange(1, 4))))
        values = array("q")
        for _ in names:
            values.extend([1, *(chance.randrange(-1, 1 << 50) for _ in range(WIDTH - 1))])
        rounds.append(LagRound(START_MS + number * STEP_MS, names, values))
    again = list(Block(lag_block.encode(rounds)).rounds())
    assert [one.at_ms for one in again] == [one.at_ms for one in rounds]
    for one, other in zip(rounds, again, strict=True):
        before = {name: list(one.row(at)) for at, name in enumerate(one.names)}
        assert before == {name: list(other.row(at)) for at, name in enumerate(other.names)}


def test_a_block_can_be_read_with_nothing_but_struct_json_and_zlib() -> None:
    """The format as the page of statistics describes it, for readers in other languages."""
    data = lag_block.encode([round_of(START_MS, 5, 7), round_of(START_MS + STEP_MS, 6, 7)])
    magic, size, crc, rounds, rows, first, last = struct.unpack_from("<IIIIIqq", data)
    assert (magic, size, rounds, rows) == (0x32474C4B, len(data), 2, 2)
    assert (first, last) == (START_MS, START_MS + STEP_MS)
    assert zlib.crc32(data[12:]) == crc
    sizes = struct.unpack_from("<17I", data, 36)
    parts, at = [], 36 + 4 * 17
    for part in sizes:
        parts.append(zlib.decompress(data[at : at + part]))
        at += part
    assert json.loads(parts[0]) == [["billing", "orders", 0], ["billing", "orders", 1]]
    assert struct.unpack("<2q", parts[1]) == (START_MS, STEP_MS)
    assert struct.unpack("<4q", parts[2 + LagColumn.COUNT]) == (5, 1, 7, 0)


def as_before(data: bytes) -> bytes:
    """The block as it was written when there were three columns fewer."""
    head = struct.unpack_from("<IIIIIqq17I", data)
    sizes, at = head[7:21], 36 + 4 * 17
    packed = struct.pack("<IIqq14I", *head[3:7], *sizes) + data[at : at + sum(sizes)]
    start = struct.pack("<III", 0x31474C4B, 12 + len(packed), zlib.crc32(packed))
    return start + packed


def test_a_block_of_before_is_read_and_what_it_has_not_is_unknown() -> None:
    rounds = [round_of(START_MS + number * STEP_MS, number, 7) for number in range(5)]
    block = Block(as_before(lag_block.encode(rounds)))
    assert block.times_ms == [one.at_ms for one in rounds]
    for one, other in zip(rounds, block.rounds(), strict=True):
        for at in range(len(one.names)):
            assert list(other.row(at)) == [*one.row(at)[:12], -1, -1, -1]


def test_a_block_with_a_changed_byte_is_refused() -> None:
    data = bytearray(lag_block.encode([round_of(START_MS, 5)]))
    for at in range(len(data)):
        data[at] ^= 1
        with pytest.raises(Corrupt):
            Block(bytes(data))
        data[at] ^= 1


def test_a_sample_costs_a_few_bytes() -> None:
    chance = random.Random(1)
    names = tuple(LagName("g", f"t{number}", 0) for number in range(100))
    offsets, rounds = [0] * 100, []
    for step in range(60):
        values = array("q")
        for row in range(100):
            offsets[row] += chance.randrange(900, 1100)
            late = chance.randrange(50)
            at_ms = START_MS + step * STEP_MS - late
            place = (offsets[row], offsets[row] - late, offsets[row] - late, late, at_ms)
            values.extend([1, 0, *place, late, 0, 0, 2, 1, at_ms, 0, 3])
        rounds.append(LagRound(START_MS + step * STEP_MS, names, values))
    assert len(lag_block.encode(rounds)) < 12 * 6000


# -- what is kept ----------------------------------------------------------------------------------


def test_samples_are_kept_over_a_restart_and_a_crash(engine: Engine, clock: ManualClock) -> None:
    broker = engine.start()
    broker.send([Message("orders", b"x", queue=0)] * 5)
    broker.receive("billing", {"orders": "*"}, count_max=2)
    for _ in range(100):
        engine.tick(10)
    before = asked(broker, clock)
    assert sum(point.samples for point in before.points) == 100
    assert before.points[-1].count_max == 5
    assert asked(engine.restart(), clock) == before
    assert asked(engine.crash(), clock) == before


def test_the_time_that_the_server_was_down_is_a_gap(engine: Engine, clock: ManualClock) -> None:
    broker = engine.start()
    broker.send([Message("orders", b"x", queue=0)])
    broker.receive("billing", {"orders": "*"})
    for _ in range(6):
        engine.tick(10)
    engine.close()
    clock.advance(60)
    broker = engine.start()
    for _ in range(6):
        engine.tick(10)
    page = asked(broker, clock, from_ms=clock.now_ms() - 180_000, points_max=300)
    shown = [point for point in page.points if point.at_ms >= clock.now_ms() - 170_000]
    gap = [point for point in shown if point.samples == 0]
    assert 5 <= len(gap) <= 7
    assert all(point.count_max is None and point.oldest_age_max_ms is None for point in gap)
    assert sum(point.samples for point in shown) == 12


def test_a_point_keeps_the_highest_and_the_mean(tmp_path: Path) -> None:
    kept = history(OsFiles(), tmp_path)
    counts = [3, 90, 4, 3]
    for number, count in enumerate(counts):
        kept.append(round_of(START_MS + number * STEP_MS, count, 10, 777))
    page = read(kept, START_MS, START_MS + 4 * STEP_MS, points_max=2)
    assert page.step_ms == 4 * STEP_MS
    seen = [point for point in page.points if point.samples]
    assert len(page.points) <= 2
    assert max(point.count_max or 0 for point in seen) == 100
    mean = sum((point.count_avg or 0) * point.samples for point in seen) / 4
    assert mean == sum(counts) / 4 + 10


def test_down_sampling_keeps_the_maximum_however_few_points_are_asked_for(tmp_path: Path) -> None:
    kept = history(OsFiles(), tmp_path)
    chance = random.Random(5)
    counts = [chance.randrange(1000) for _ in range(300)]
    for number, count in enumerate(counts):
        kept.append(round_of(START_MS + number * STEP_MS, count))
    for points_max in (1, 2, 3, 7, 50, 299, 300, 2000):
        page = read(kept, START_MS, START_MS + 300 * STEP_MS, points_max)
        assert len(page.points) <= points_max
        assert max(point.count_max or 0 for point in page.points) == max(counts)
        assert sum(point.samples for point in page.points) == 300


def test_the_oldest_age_is_that_of_the_sample(tmp_path: Path) -> None:
    kept = history(OsFiles(), tmp_path)
    values = array("q", sample(2, oldest_ms=START_MS - 5_000) + sample(1, oldest_ms=START_MS))
    kept.append(LagRound(START_MS + 1_000, NAMES[:2], values))
    [point, *_] = read(kept, START_MS, START_MS + STEP_MS).points
    assert point.oldest_age_max_ms == 6_000


def test_one_topic_or_queue_can_be_asked_for(tmp_path: Path) -> None:
    kept = history(OsFiles(), tmp_path)
    kept.append(round_of(START_MS, 5, 7, 9))
    for group, topic, queue, wanted in (
        ("billing", None, None, 12),
        ("billing", "orders", None, 12),
        ("billing", "orders", 1, 7),
        ("log", None, None, 9),
        ("log", "orders", None, None),
    ):
        found: list[LagHistoryPage] = []
        end_ms = START_MS + STEP_MS
        kept.read(query(group, topic, queue, START_MS, end_ms, 10, STEP_MS), found.append)
        assert found[0].points[0].count_max == wanted


def test_a_wrong_question_is_refused_with_its_field() -> None:
    for field, given in (
        ("topic", (None, 3, 0, 10, 10)),
        ("from_ms", (None, None, 10, 10, 10)),
        ("points_max", ("orders", 3, 0, 10, 0)),
        ("points_max", ("orders", 3, 0, 10, 2001)),
    ):
        with pytest.raises(Invalid) as refused:
            query("billing", *given, STEP_MS)
        assert refused.value.field == field


# -- bounds ----------------------------------------------------------------------------------------


def test_days_beyond_the_setting_go(tmp_path: Path) -> None:
    kept = history(OsFiles(), tmp_path, days=2)
    for number in range(6 * 144):
        kept.append(round_of(START_MS + number * 10 * MINUTE_MS, number))
    newest_ms = START_MS + (6 * 144 - 1) * 10 * MINUTE_MS
    assert kept.oldest_ms is not None
    assert newest_ms - 3 * DAY_MS - 20 * MINUTE_MS <= kept.oldest_ms
    assert kept.oldest_ms <= newest_ms - 2 * DAY_MS + 20 * MINUTE_MS
    assert len(list(tmp_path.glob("0*.lag"))) <= 4


def test_bytes_beyond_the_setting_go_the_oldest_first(tmp_path: Path) -> None:
    kept = history(OsFiles(), tmp_path, bytes_max=20_000)
    for number in range(3_000):
        kept.append(round_of(START_MS + number * 2 * MINUTE_MS, number, 2, 3))
    assert kept.size_bytes <= 20_000 + 20_000 // lag_files.FILES_IN_LIMIT + 2_000
    on_disk = sum(path.stat().st_size for path in tmp_path.glob("0*.lag"))
    assert on_disk == kept.size_bytes
    assert kept.oldest_ms is not None
    assert kept.oldest_ms > START_MS


def test_rounds_in_memory_are_bounded_by_sealing(tmp_path: Path) -> None:
    kept = history(OsFiles(), tmp_path)
    for number in range(500):
        kept.append(round_of(START_MS + number * STEP_MS, number))
        assert len(kept._rounds) <= 61
    assert kept.samples == 500


def test_a_calendar_that_is_set_back_loses_rounds_and_says_so(tmp_path: Path) -> None:
    kept = history(OsFiles(), tmp_path)
    kept.append(round_of(START_MS + STEP_MS, 1))
    kept.append(round_of(START_MS, 1))
    assert (kept.samples, kept.lost) == (1, 1)


def test_no_history_is_kept_where_the_setting_is_0(engine: Engine, clock: ManualClock) -> None:
    broker = engine.start(lag_sample_s=0.0)
    broker.send([Message("orders", b"x", queue=0)])
    broker.receive("billing", {"orders": "*"})
    for _ in range(10):
        engine.tick(10)
    assert broker.statistics.lag_keeping().samples == 0


def test_more_queues_than_a_round_may_have_are_sampled_less_often(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.statistics.lag_statistics.ROWS_PER_INTERVAL", 2)
    broker = engine.start()
    broker.send([Message("orders", b"x", queue=0)])
    broker.receive("billing", {"orders": "*"})  # four queues and the group's retries
    for _ in range(25):
        engine.tick(10)
    assert broker.statistics.lag_keeping().samples == 5 * 10


def test_a_sample_tells_who_acts_what_expired_and_which_reset_was_the_last(
    engine: Engine, clock: ManualClock
) -> None:
    broker = engine.start()
    broker.send([Message("orders", b"x", queue=0)] * 5)

    def sampled() -> tuple[int, int, int]:
        engine.tick(10)
        one = broker.statistics.recent()
        assert one is not None
        row = one.row(one.names.index(LagName("billing", "orders", 0)))
        return row[LagColumn.ACTIVE_MS], row[LagColumn.EXPIRED], row[LagColumn.RESETS]

    (got,) = broker.receive("billing", {"orders": "*"})
    received_ms = clock.now_ms()
    assert sampled() == (received_ms, 0, 0)
    assert sampled() == (received_ms, 0, 0)
    broker.ack("billing", [got.receipt])
    acked_ms = clock.now_ms()
    assert sampled() == (acked_ms, 0, 0)
    plan = broker.resets.plan("billing", ["orders"], ResetTarget(ResetTo.EARLIEST))
    assert broker.resets.apply(plan, force=True).number == 1
    assert sampled() == (acked_ms, 0, 1)
    broker.retention.purge("orders", everything=True)
    engine.tick(10)
    assert sampled()[1] == 5
    broker.statistics.forget_group("billing")
    assert sampled()[0] == 0


# -- damage ----------------------------------------------------------------------------------------


def test_a_torn_end_of_the_open_file_costs_that_round_only(tmp_path: Path) -> None:
    kept = history(OsFiles(), tmp_path)
    for number in range(3):
        kept.append(round_of(START_MS + number * STEP_MS, number))
    kept.close()
    path = tmp_path / lag_files.OPEN_NAME
    path.write_bytes(path.read_bytes()[:-3])
    kept = history(OsFiles(), tmp_path)
    assert times(kept) == [START_MS, START_MS + STEP_MS]
    kept.append(round_of(START_MS + 2 * STEP_MS, 9))
    kept.close()
    assert len(times(history(OsFiles(), tmp_path))) == 3


def test_a_torn_end_of_a_sealed_file_is_cut_off(tmp_path: Path) -> None:
    kept = history(OsFiles(), tmp_path)
    for number in range(130):
        kept.append(round_of(START_MS + number * STEP_MS, number))
    kept.close()
    [path] = tmp_path.glob("0*.lag")
    path.write_bytes(path.read_bytes() + b"\x4b\x4c\x47\x31 torn")
    again = history(OsFiles(), tmp_path)
    assert len(times(again)) == 130
    for number in range(130, 200):
        again.append(round_of(START_MS + number * STEP_MS, number))
    again.close()
    assert len(times(history(OsFiles(), tmp_path))) == 200


def test_a_damaged_block_is_told_and_the_others_are_read(tmp_path: Path) -> None:
    kept = history(OsFiles(), tmp_path)
    for number in range(200):
        kept.append(round_of(START_MS + number * STEP_MS, number))
    [path] = tmp_path.glob("0*.lag")
    data = bytearray(path.read_bytes())
    data[200] ^= 0xFF
    path.write_bytes(data)
    page = read(kept, START_MS, START_MS + 200 * STEP_MS)
    assert page.damaged == 1
    assert 0 < sum(point.samples for point in page.points) < 200


@pytest.mark.parametrize("is_power_lost", [False, True])
def test_a_death_at_any_write_keeps_what_was_kept_before(is_power_lost: bool) -> None:
    """At midnight another file begins: what is of the new day stays in the open file."""
    directory = Path("/data/lag")
    begin_ms = START_MS - 25 * STEP_MS
    for crash_in in range(1, 500):
        disk = Disk(random.Random(crash_in))
        written: list[int] = []
        disk.crash_in = crash_in
        try:
            kept = history(disk.boot(), directory)
            for number in range(70):
                at_ms = begin_ms + number * 2 * STEP_MS
                kept.append(round_of(at_ms, number))
                written.append(at_ms)
        except Crash:
            pass
        else:
            assert crash_in > 70
            return
        disk.lose_power() if is_power_lost else disk.kill()
        kept = history(disk.boot(), directory)
        found = times(kept)
        every = [begin_ms + number * 2 * STEP_MS for number in range(len(written) + 1)]
        assert found == [at_ms for at_ms in every if at_ms in found]
        if not is_power_lost:  # which may take one round out of the middle
            assert found == every[: len(found)]
            assert len(found) >= len(written)
        kept.append(round_of(START_MS + 800 * STEP_MS, 1))
        assert len(times(kept)) == len(found) + 1
    raise AssertionError("it never came to the end")


def test_a_full_disk_costs_samples_and_nothing_else() -> None:
    disk = Disk(random.Random(1))
    kept = history(disk.boot(), Path("/data/lag"))
    disk.room_bytes = 0
    kept.append(round_of(START_MS, 1))
    assert "not written" in kept.failure
    disk.room_bytes = 1 << 20
    for number in range(1, 70):
        kept.append(round_of(START_MS + number * STEP_MS, number))
    assert kept.failure == ""
    assert len(times(kept)) == 70


def test_reading_takes_only_the_rows_that_are_wanted() -> None:
    block = Block(lag_block.encode([round_of(START_MS, 5, 7, 9)]))
    points = Points(query("log", None, None, START_MS, START_MS + STEP_MS, 10, STEP_MS))
    points.add_block(block)
    assert points.points()[0].count_max == 9
