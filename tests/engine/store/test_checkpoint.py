"""The checkpoint: what lies below it needs no second look, whatever happens after it."""

import random
import struct
from pathlib import Path

from engine.message import Durability, Message
from engine.store.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from engine.store.files import OsFiles
from tests.engine.store.parts import Bench, HeldPool
from tests.simulation.disk import Crash, Disk


def test_the_file_is_rocketmqs(tmp_path: Path) -> None:
    save_checkpoint(OsFiles(), tmp_path / "checkpoint", Checkpoint(1, 2, 3, 4, 5))
    data = (tmp_path / "checkpoint").read_bytes()
    assert len(data) == 4096
    assert struct.unpack_from(">qqqqq", data) == (1, 2, 3, 4, 5)
    assert load_checkpoint(OsFiles(), tmp_path / "checkpoint") == Checkpoint(1, 2, 3, 4, 5)


def test_no_checkpoint_or_a_short_one_is_the_beginning(tmp_path: Path) -> None:
    assert load_checkpoint(OsFiles(), tmp_path / "checkpoint") == Checkpoint()
    (tmp_path / "checkpoint").write_bytes(bytes(39))
    assert load_checkpoint(OsFiles(), tmp_path / "checkpoint") == Checkpoint()


def test_it_moves_once_everything_is_synced(bench: Bench) -> None:
    pool = HeldPool()
    bench.open(pool)
    bench.put(b"x")
    done: list[bool] = []
    bench.store.begin_checkpoint(lambda: done.append(True))
    end = bench.store.written
    bench.put(b"later")
    path = bench.root / "checkpoint"
    assert load_checkpoint(bench.files, path).confirmed == 0
    pool.run()
    assert done == [True]
    assert load_checkpoint(bench.files, path).confirmed == end


def test_it_does_not_move_over_messages_that_wait_for_their_flush(bench: Bench) -> None:
    pool = HeldPool()
    bench.open(pool)
    bench.store.append([Message("t", b"held", queue=0)], durability=Durability.FLUSHED)
    bench.store.begin_checkpoint(lambda: None)
    pool.run()
    assert load_checkpoint(bench.files, bench.root / "checkpoint").confirmed == 0


def test_a_sync_that_failed_leaves_it_where_it_was(weak: Bench, disk: Disk) -> None:
    weak.open()
    weak.put(b"x")

    def fail(verb: str, path: Path) -> None:
        if verb == "sync" and "consumequeue" in str(path):
            raise OSError(5, "Input/output error")

    disk.fault = fail
    weak.checkpoint()
    assert load_checkpoint(weak.files, weak.root / "checkpoint").confirmed == 0
    disk.fault = None
    weak.put(b"y")
    weak.checkpoint()
    assert load_checkpoint(weak.files, weak.root / "checkpoint").confirmed == weak.store.written
    disk.lose_power()
    after = Bench(weak.root, disk.boot())
    after.open()
    assert after.bodies() == [b"x", b"y"]


def test_after_a_checkpoint_a_power_loss_takes_nothing() -> None:
    for seed in range(40):
        disk = Disk(random.Random(seed))
        bench = Bench(Path("/data"), disk.boot())
        bench.open(segment_bytes=4096, queue_file_entries=3, index_items=5)
        bodies = [b"%d" % number * 400 for number in range(9)]
        for body in bodies:
            bench.put(body, keys=("k",))
        bench.checkpoint()
        bench.put(b"may be lost", topic="other")
        disk.lose_power()
        after = Bench(bench.root, disk.boot())
        after.open(segment_bytes=4096, queue_file_entries=3, index_items=5)
        assert after.bodies() == bodies, seed
        assert len(after.store.positions_of_key("t", "k")) == 9, seed


def test_a_clean_stop_survives_a_power_loss_and_is_not_scanned() -> None:
    for seed in range(20):
        disk = Disk(random.Random(seed))
        bench = Bench(Path("/data"), disk.boot())
        bench.open()
        bench.put(b"x", keys=("k",))
        bench.store.stop()
        disk.lose_power()
        after = Bench(bench.root, disk.boot())
        after.open()
        assert after.bodies() == [b"x"], seed
        assert after.store.positions_of_key("t", "k") == [0], seed


def test_a_crash_at_any_step_of_a_clean_stop_loses_nothing() -> None:
    crashes = 0
    for crash_in in range(1, 60):
        for is_power in (False, True):
            disk = Disk(random.Random(crash_in))
            bench = Bench(Path("/data"), disk.boot())
            bench.open()
            sent = bench.put(b"x", keys=("k",))
            bench.store.when_flushed(sent.flush_position, lambda _: None)
            disk.crash_in = crash_in
            try:
                bench.store.stop()
            except Crash:
                crashes += 1
            disk.lose_power() if is_power else disk.kill()
            after = Bench(bench.root, disk.boot())
            after.open()
            assert after.bodies() == [b"x"], (crash_in, is_power)
            assert after.store.positions_of_key("t", "k") == [0], (crash_in, is_power)
            assert after.put(b"y").offsets == [1]
    assert crashes > 20
