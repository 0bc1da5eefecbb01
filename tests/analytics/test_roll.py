"""What was rolled equals what the codec reads, however the log was cut and whoever was killed."""

import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from analytics.errors import Refused
from analytics.frames import messages_table
from analytics.log import LogView, walk
from analytics.manifest import load
from analytics.records import LogRecords
from analytics.roll import Busy, ConfirmedEnd, _lock, local_folder, roll
from analytics.schemas import FRAMES, LAG, MESSAGES, TRACE, arrow_schema
from engine.broker import Broker
from engine.message import Message
from engine.statistics.lag_round import LagColumn
from tests.analytics.scenery import Store, live, messages_of, trace_of

Rows = list[dict[str, Any]]
HOUR_MS = 3_600_000
KILLS = 9


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store(tmp_path / "data")
    yield made
    made.close()


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Some hours of everything; only read by the tests that share it."""
    made = Store(tmp_path_factory.mktemp("lived") / "data")
    live(made, seed=7)
    yield made
    made.close()


def rows_in(root: Path, frame: str) -> Rows:
    """Every row that the manifest names, in the order of the log (of lag: of time)."""
    rows: Rows = []
    for path in load(root).paths(frame):
        table = pq.ParquetFile(root / path).read()
        assert table.schema.equals(arrow_schema(frame))
        rows += table.to_pylist()
    keys = {TRACE: ("log_position", "row_number"), MESSAGES: ("log_position",)}
    key = keys.get(frame, ("at_ms", "group", "topic", "queue"))
    return sorted(rows, key=lambda row: tuple(row[name] for name in key))


def lag_of(broker: Broker) -> Rows:
    """The samples as the engine itself reads them."""
    rounds = []
    for sealed in broker.statistics._lag._sealed:
        block = broker.statistics._lag._files.read_block(sealed)
        assert block is not None
        rounds += list(block.rounds())
    rounds += broker.statistics._lag._rounds
    rows = []
    for one in rounds:
        for at, name in enumerate(one.names):
            numbers = one.row(at)
            rows.append(
                {
                    "at_ms": one.at_ms,
                    "group": name.group,
                    "topic": name.topic,
                    "queue": name.queue,
                    "lag": numbers[LagColumn.COUNT],
                    "committed": numbers[LagColumn.COMMITTED],
                    "max_offset": numbers[LagColumn.MAX_OFFSET],
                    "active_ms": numbers[LagColumn.ACTIVE_MS] or None,
                    "expired": numbers[LagColumn.EXPIRED],
                    "resets": numbers[LagColumn.RESETS],
                    "oldest_ms": numbers[LagColumn.OLDEST_MS] or None,
                }
            )
    return rows


def ends(store: Store) -> ConfirmedEnd:
    return ConfirmedEnd(store.position, store.clock.now_ms())


# -- what is there ---------------------------------------------------------------------------------


def test_every_row_equals_what_the_codec_reads(lived: Store, tmp_path: Path) -> None:
    root = tmp_path / "analytics"
    rolled = roll(lived.root, root, ends(lived))
    stored = lived.stored()
    messages, traces = messages_of(stored), trace_of(stored)
    assert rows_in(root, MESSAGES) == messages
    assert rows_in(root, TRACE) == traces
    assert rolled.rows[MESSAGES] == len(messages) > 900
    assert rolled.rows[TRACE] == len(traces) > 300
    assert {row["role"] for row in messages} >= {"message", "retry", "dead", "delayed", "half"}
    assert {row["kind"] for row in traces} >= {"delivered", "acked", "failed", "dead"}
    assert rolled.counters.damaged_bytes == rolled.counters.damaged_records == 0
    kept = lag_of(lived.broker)
    found = rows_in(root, LAG)
    assert [{name: row[name] for name in kept[0]} for row in found] == kept
    assert len(kept) > 100
    assert max(row["active_ms"] or 0 for row in found) > 0


def test_a_piece_of_the_log_at_a_time_gives_the_same(lived: Store, tmp_path: Path) -> None:
    chance = random.Random(11)
    upto = ends(lived)
    assert upto.position is not None
    roll(lived.root, tmp_path / "whole", upto)
    root = tmp_path / "pieces"
    position = 0
    while position < upto.position:
        position = min(upto.position, position + chance.randrange(1, 60_000))
        small = chance.randrange(400, 20_000)
        roll(lived.root, root, ConfirmedEnd(position, 0), step_bytes=small, commit_bytes=10_000)
    roll(lived.root, root, upto)
    for frame in FRAMES:
        assert rows_in(root, frame) == rows_in(tmp_path / "whole", frame)
        whole = load(tmp_path / "whole").fingerprints(frame)
        assert load(root).fingerprints(frame) == whole


def test_rows_lie_in_the_hour_of_the_engines_clock(lived: Store, tmp_path: Path) -> None:
    roll(lived.root, tmp_path, ends(lived))
    manifest = load(tmp_path)
    for frame, clock in ((TRACE, "at_ms"), (MESSAGES, "stored_ms"), (LAG, "at_ms")):
        assert len(manifest.partitions(frame)) >= 3
        for hour, partition in manifest.partitions(frame).items():
            day, number = hour.split("T")
            (path,) = manifest.paths(frame, [hour])
            assert path.startswith(f"{frame}/dt={day}/hr={number}/part-")
            table = pq.ParquetFile(tmp_path / path).read()
            assert table.num_rows == partition.rows
            assert len({at_ms // HOUR_MS for at_ms in table[clock].to_pylist()}) == 1


def test_nothing_new_changes_nothing(lived: Store, tmp_path: Path) -> None:
    upto = ends(lived)
    roll(lived.root, tmp_path, upto)
    before = {frame: load(tmp_path).fingerprints(frame) for frame in FRAMES}
    again = roll(lived.root, tmp_path, upto)
    assert again.dirty == {frame: [] for frame in FRAMES}
    assert {frame: load(tmp_path).fingerprints(frame) for frame in FRAMES} == before


def test_an_hour_that_is_over_becomes_one_file_and_keeps_its_fingerprint(
    store: Store, tmp_path: Path
) -> None:
    for _ in range(4):
        store.broker.send([Message("flights", b"x")])
        roll(store.root, tmp_path, ends(store))
    (hour,) = load(tmp_path).partitions(MESSAGES)
    before = load(tmp_path).partitions(MESSAGES)[hour]
    assert len(before.parts) == 4
    store.tick(HOUR_MS / 1000 + 130)
    rolled = roll(store.root, tmp_path, ends(store))
    after = load(tmp_path).partitions(MESSAGES)[hour]
    assert len(after.parts) == 1
    assert after.is_sealed
    assert after.fingerprint == before.fingerprint
    assert hour not in rolled.dirty[MESSAGES]
    # The four files stay until no job can be reading them any more.
    folder = (tmp_path / load(tmp_path).paths(MESSAGES, [hour])[0]).parent
    assert len(list(folder.iterdir())) == 5
    store.tick(HOUR_MS / 1000 + 10)
    roll(store.root, tmp_path, ends(store))
    assert len(list(folder.iterdir())) == 1


def test_late_rows_are_counted_and_make_their_hour_dirty(store: Store, tmp_path: Path) -> None:
    store.broker.send([Message("flights", b"x")])
    began_ms = store.clock.now_ms()
    store.tick(2 * HOUR_MS / 1000)
    roll(store.root, tmp_path, ends(store))
    (hour,) = load(tmp_path).partitions(MESSAGES)
    store.clock.set_ms(began_ms + 1)  # somebody set the calendar back
    store.broker.send([Message("flights", b"late"), Message("flights", b"late too")])
    rolled = roll(store.root, tmp_path, ConfirmedEnd(store.position, began_ms + 3 * HOUR_MS))
    assert hour in rolled.dirty[MESSAGES]
    partition = load(tmp_path).partitions(MESSAGES)[hour]
    assert (partition.rows, partition.late_rows) == (3, 2)


def test_old_hours_go_after_the_days_to_keep(store: Store, tmp_path: Path) -> None:
    store.broker.send([Message("flights", b"old")])
    roll(store.root, tmp_path, ends(store))
    store.tick(3 * 86_400)
    store.broker.send([Message("flights", b"new")])
    rolled = roll(store.root, tmp_path, ends(store), keep_days=2)
    assert rolled.expired_hours >= 1
    (row,) = rows_in(tmp_path, MESSAGES)
    assert row["offset"] == 0
    assert len(load(tmp_path).paths(MESSAGES)) == 1


# -- what is missing -------------------------------------------------------------------------------


def test_what_retention_took_before_is_counted(store: Store, tmp_path: Path) -> None:
    for number in range(40):
        store.broker.send([Message("flights", bytes(20_000), keys=(str(number),))])
    upto = ends(store)
    names = sorted((store.root / "commitlog").iterdir())
    for path in names[:2]:
        path.unlink()
    rolled = roll(store.root, tmp_path, upto)
    assert rolled.counters.expired_bytes == int(names[2].name)
    rows = rows_in(tmp_path, MESSAGES)
    assert 0 < len(rows) < 40
    assert rows[-1]["keys"] == "39"


def test_damage_is_counted_and_stepped_over(store: Store, tmp_path: Path) -> None:
    sent = [store.broker.send([Message("flights", bytes(2000))]) for _ in range(9)]
    upto = ends(store)
    log = sorted((store.root / "commitlog").iterdir())[0]
    with log.open("r+b") as file:
        file.seek(sent[2].positions[0])
        file.write(b"\0" * 64)  # the head of one: nothing says how long it is
        file.seek(sent[5].positions[0] + 100)
        file.write(b"\xff")  # the body of another
    rolled = roll(store.root, tmp_path, upto)
    assert rolled.counters.damaged_records == 1
    assert rolled.counters.damaged_bytes == sent[3].positions[0] - sent[2].positions[0]
    assert len(rows_in(tmp_path, MESSAGES)) == 7


def test_nothing_is_read_from_the_confirmed_end_on(store: Store, tmp_path: Path) -> None:
    first = store.broker.send([Message("flights", b"first")])
    store.broker.send([Message("flights", b"second")])
    assert store.position > first.flush_position
    for upto in (first.flush_position - 1, first.flush_position):
        roll(store.root, tmp_path, ConfirmedEnd(upto, store.clock.now_ms()))
        found = rows_in(tmp_path, MESSAGES)
        assert len(found) == (upto == first.flush_position)


def test_samples_that_are_sealed_while_they_are_read_are_taken_once(
    store: Store, tmp_path: Path
) -> None:
    store.broker.send([Message("flights", b"x")])
    store.broker.receive("billing", {"flights": "*"}, client="c1")
    for _ in range(130):  # more than two sealings
        store.tick(10)
        if store.clock.now_ms() // 1000 % 7 == 0:
            roll(store.root, tmp_path, ConfirmedEnd(0, store.clock.now_ms()))
    roll(store.root, tmp_path, ConfirmedEnd(0, store.clock.now_ms()))
    kept = lag_of(store.broker)
    times = [(row["at_ms"], row["topic"], row["queue"]) for row in rows_in(tmp_path, LAG)]
    assert times == sorted((row["at_ms"], row["topic"], row["queue"]) for row in kept)
    assert len(set(times)) == len(times) >= 120


# -- kills -----------------------------------------------------------------------------------------


@pytest.mark.crash
def test_a_run_killed_anywhere_is_repeated_without_a_double_or_a_missing_row(
    lived: Store, tmp_path: Path
) -> None:
    upto = ends(lived)
    roll(lived.root, tmp_path / "whole", upto)
    root = tmp_path / "killed"
    seed = random.randrange(1 << 30)
    sys.stderr.write(f"seed {seed}\n")
    chance = random.Random(seed)
    killed = 0
    # Later ones live longer, so that the end is reached whatever the chances.
    for attempt in range(KILLS):
        most = 20 + 15 * attempt
        killed += _killed_after(lived.root, root, upto, calls=chance.randrange(1, most))
        _has_no_double(root)
    assert killed >= KILLS // 2
    roll(lived.root, root, upto)
    for frame in FRAMES:
        assert rows_in(root, frame) == rows_in(tmp_path / "whole", frame)
        whole = load(tmp_path / "whole").fingerprints(frame)
        assert load(root).fingerprints(frame) == whole
    named = {root / path for frame in FRAMES for path in load(root).paths(frame)}
    named |= {root / each.path for each in load(root).dropped}
    assert set(root.glob("*/dt=*/hr=*/*")) == named
    assert {path.name for path in root.iterdir()} == {*FRAMES, "lock", "manifest.json"}


# Kills itself with SIGKILL at the n-th write, rename, sync or removal of a file.
KILLED = """
import os, sys
from pathlib import Path
from analytics import manifest, partitions, roll
left = int(sys.argv[1])
def deadly(work):
    def step(*args, **kwargs):
        global left
        left -= 1
        if left <= 0:
            os.kill(os.getpid(), 9)
        return work(*args, **kwargs)
    return step
os.fsync = deadly(os.fsync)
Path.replace, Path.unlink = deadly(Path.replace), deadly(Path.unlink)
partitions.pq.ParquetWriter.write_table = deadly(partitions.pq.ParquetWriter.write_table)
upto = roll.ConfirmedEnd(int(sys.argv[4]), int(sys.argv[5]))
roll.roll(Path(sys.argv[2]), Path(sys.argv[3]), upto, step_bytes=60_000, commit_bytes=200_000)
"""


def _killed_after(data: Path, root: Path, upto: ConfirmedEnd, calls: int) -> bool:
    arguments = [str(calls), str(data), str(root), str(upto.position), str(upto.at_ms)]
    done = subprocess.run([sys.executable, "-c", KILLED, *arguments], check=False, timeout=60)
    assert done.returncode in (0, -signal.SIGKILL)
    return done.returncode != 0


def _has_no_double(root: Path) -> None:
    positions = [row["log_position"] for row in rows_in(root, MESSAGES)]
    assert len(positions) == len(set(positions))


# -- the command -----------------------------------------------------------------------------------


def command(data: Path, upto: int, *more: str) -> list[str]:
    """The roll as a process of its own."""
    told = ["--data", str(data), "--upto", str(upto), *more]
    return [sys.executable, "-m", "analytics.roll", *told]


def test_the_command_says_what_it_did(store: Store) -> None:
    store.broker.send([Message("flights", b"x")])
    upto = ends(store)
    words = command(store.root, upto.position, "--at-ms", str(upto.at_ms))
    done = subprocess.run(words, capture_output=True, check=True, text=True, timeout=60)
    assert '"messages":1' in done.stdout
    assert len(rows_in(store.root / "analytics", MESSAGES)) == 1


def test_another_store_is_refused(store: Store, tmp_path: Path) -> None:
    store.broker.send([Message("flights", b"x")])
    upto = ends(store)
    roll(store.root, tmp_path, upto)
    assert upto.position is not None
    with pytest.raises(Refused, match="another store"):
        roll(store.root, tmp_path, ConfirmedEnd(upto.position - 1, 0))
    with pytest.raises(Refused, match="behind the log's files"):
        roll(store.root, tmp_path, ConfirmedEnd(1 << 40, 0))
    words = command(tmp_path / "no", 0)
    done = subprocess.run(words, capture_output=True, check=False, text=True, timeout=60)
    assert done.returncode == 2
    assert "name the data directory" in done.stderr
    with pytest.raises(Refused, match="no folder of this machine"):
        local_folder("s3a://bucket/analytics")
    assert local_folder("file:///srv/analytics") == Path("/srv/analytics")


def test_a_full_disk_costs_nothing_but_a_repeat(lived: Store, tmp_path: Path) -> None:
    upto = ends(lived)
    roll(lived.root, tmp_path / "whole", upto)
    more = ["--root", str(tmp_path / "full"), "--at-ms", str(upto.at_ms)]
    words = command(lived.root, upto.position, *more)
    limited = ["bash", "-c", 'ulimit -f 8; trap "" XFSZ; exec "$@"', "-", *words]  # 8 KiB a file
    refused = subprocess.run(limited, capture_output=True, check=False, text=True, timeout=60)
    assert refused.returncode == 1
    assert "cannot be written: [Errno 27]" in refused.stderr
    assert load(tmp_path / "full").paths(MESSAGES) == []
    assert subprocess.run(words, capture_output=True, check=False, timeout=60).returncode == 0
    for frame in FRAMES:
        assert rows_in(tmp_path / "full", frame) == rows_in(tmp_path / "whole", frame)


def test_two_runs_at_once_are_one_too_many(store: Store, tmp_path: Path) -> None:
    root = tmp_path / "analytics"
    root.mkdir()
    with _lock(root), pytest.raises(Busy, match="another process writes"):
        roll(store.root, root, ConfirmedEnd(0, 0))
    assert [path.name for path in root.iterdir()] == ["lock"]


# -- records ---------------------------------------------------------------------------------------


def test_columns_of_damaged_bytes_never_leave_the_buffer(lived: Store) -> None:
    """Whatever lengths a record claims: it is damaged, or it is what the codec reads."""
    with LogView(lived.root, lived.position) as log:
        stretch = next(iter(walk(log, 0, 40_000)))
    chance = random.Random(5)
    for _ in range(200):
        data = bytearray(stretch.data)
        for _ in range(chance.randrange(1, 4)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        records = LogRecords(bytes(data), stretch.starts, first_position=0)
        assert records.damaged + len(records) == len(stretch.starts)
        assert messages_table(records).num_rows == len(records)
