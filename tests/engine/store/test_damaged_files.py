"""A damaged directory for each kind of file: verified, opened or refused and repaired; no silence.

The directories in `fixtures` were made by the version before records had a CRC of their own, one
killed and one stopped; each test damages one file of them.
"""

import re
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.broker import Broker, TopicConfig
from engine.clock import ManualClock
from engine.config import EngineConfig
from engine.errors import Busy, Corrupt
from engine.inspection import inspect, repair
from engine.message import Message
from engine.store.files import OsFiles
from engine.store.pool import InlinePool, Pool
from tests.engine.store.parts import HeldPool

FIXTURES = Path(__file__).parent / "fixtures"
SHAPE = {"index_slots": 50, "index_items": 200}
SNAPSHOT, JOURNAL = "config/progress.snapshot.0000000001", "config/progress.journal.0000000001"
ORDERS = "consumequeue/orders/0/00000000000000000000"
LOG, INDEX = "commitlog/00000000000000000000", "index/20231114221320000"


@pytest.fixture(params=["killed", "stopped"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    with tarfile.open(FIXTURES / f"earlier-{request.param}.tar.gz") as archive:
        archive.extractall(tmp_path / "data", filter="data")
    return tmp_path / "data"


def start(root: Path, pool: Pool | None = None) -> Broker:
    config = EngineConfig(
        data=root, segment_bytes=32 * 1024, queue_file_entries=40, disk_free_min_bytes=0, **SHAPE
    )
    broker = Broker(config, clock=ManualClock(), pool=pool or InlinePool())
    broker.start()
    return broker


def missing_journal(root: Path) -> Path:
    """One between two others, which had a change each; no snapshot came after them."""
    broker = start(root, HeldPool())
    journal = broker._store.journal
    for name in ("gone", "made-after"):
        journal.compact()
        broker.create_topic(TopicConfig(name))
    close(broker)
    path = root / "config" / f"progress.journal.{journal.place.number - 1:010d}"
    path.unlink()
    return path


def close(broker: Broker) -> None:
    broker._store.close()
    broker.statistics.close()


def flip(root: Path, name: str, at: int, bits: int = 1) -> None:
    data = bytearray((root / name).read_bytes())
    data[at] ^= bits
    (root / name).write_bytes(data)


def faults(root: Path) -> list[str]:
    found = inspect(OsFiles(), root, patience_s=(), **SHAPE).faults
    return [f"{fault.where}: {fault.detail}" for fault in found]


def orders(broker: Broker) -> list[bytes]:
    return [message.body for message in broker.pull("orders", 0, 0, count_max=100).messages]


WHOLE = [b"order %d" % number for number in range(20)] + [b"last"]


def test_a_directory_of_the_earlier_version_opens_whole(root: Path) -> None:
    assert faults(root) == []
    broker = start(root)
    assert orders(broker) == WHOLE
    assert broker.health().damages == []
    assert "damage" not in broker.health().warnings
    assert broker._timers.find("LATER") is not None
    assert [d.message.body for d in broker.receive("billing", {"orders": "*"}, count_max=2)] == [
        b"order 14",
        b"order 15",
    ]
    close(broker)


def test_verifying_changes_nothing_and_repairing_a_sound_one_neither(root: Path) -> None:
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    faults(root)
    assert repair(OsFiles(), root, **SHAPE).done == []
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before


def body(root: Path) -> int:
    return (root / LOG).read_bytes().index(b"order 5")


STEPPED_OVER: dict[str, tuple[str, Callable[[Path], int]]] = {
    "journal": (JOURNAL, lambda root: 20),
    "log": (LOG, body),
    "queue": (ORDERS, lambda root: 3 * 20 + 7),
    "lag": ("lag/open.lag", lambda root: 60),
    "checkpoint": ("checkpoint", lambda root: 39),
}


@pytest.mark.parametrize("kind", STEPPED_OVER)
def test_damage_is_found_by_verifying_and_named_by_the_start(root: Path, kind: str) -> None:
    name, at = STEPPED_OVER[kind]
    flip(root, name, at(root))
    assert faults(root)
    broker = start(root)
    orders(broker)
    assert broker.health().damages, "named"
    assert "damaged in" in broker.health().warnings["damage"]
    assert [each for each in orders(broker) if each not in WHOLE] == []
    if kind != "log":
        assert orders(broker) == WHOLE
    close(broker)


def test_a_damaged_index_is_found_by_verifying_and_made_anew_by_a_repair(root: Path) -> None:
    flip(root, INDEX, 40 + 50 * 4 + 20 * 3 + 3)
    assert [fault for fault in faults(root) if fault.startswith("index/")]
    assert repair(OsFiles(), root, **SHAPE).done
    broker = start(root)
    assert orders(broker) == WHOLE
    assert len(broker._store.positions_of_key("orders", "k7")) == 1
    close(broker)


def test_a_damaged_snapshot_refuses_and_the_repair_keeps_what_it_removes(root: Path) -> None:
    """Earlier versions kept no older one."""
    damaged_at = (root / SNAPSHOT).read_bytes().index(b"billing")
    flip(root, SNAPSHOT, damaged_at)
    damaged = (root / SNAPSHOT).read_bytes()
    assert any(SNAPSHOT in fault for fault in faults(root))
    with pytest.raises(Corrupt) as refused:
        start(root)
    assert f"{SNAPSHOT} is damaged at offset" in refused.value.detail
    assert f"kitemq store repair --data {root}" in refused.value.remedy
    done = repair(OsFiles(), root, **SHAPE)
    assert (root / done.kept[0]).read_bytes() == damaged
    assert any(SNAPSHOT in line for line in done.missing)
    broker = start(root)
    assert orders(broker) == WHOLE
    assert {config.name for config in broker.topics()} == {"orders", "later"}
    close(broker)


def test_a_damaged_clean_file_costs_nothing(tmp_path: Path) -> None:
    with tarfile.open(FIXTURES / "earlier-stopped.tar.gz") as archive:
        archive.extractall(tmp_path / "data", filter="data")
    flip(tmp_path / "data", "clean", 0)
    assert any(fault.startswith("clean") for fault in faults(tmp_path / "data"))
    broker = start(tmp_path / "data")
    assert orders(broker) == WHOLE
    assert [damage.file for damage in broker.health().damages] == ["clean"]
    close(broker)


def test_an_exported_file_is_kept_before_a_damaged_journal_writes_another(tmp_path: Path) -> None:
    root = tmp_path / "data"
    with tarfile.open(FIXTURES / "earlier-stopped.tar.gz") as archive:
        archive.extractall(root, filter="data")
    exported = (root / "config" / "topics.json").read_bytes()
    flip(root, JOURNAL, 20)
    start(root).stop()
    assert (root / "set-aside" / "topics.json").read_bytes() == exported


def test_a_missing_entry_is_counted_though_nothing_else_is_wrong(root: Path) -> None:
    """7,247 records and 7,238 entries were sound."""
    data = bytearray((root / ORDERS).read_bytes())
    data[20 * 20 :] = bytes(len(data) - 20 * 20)
    (root / ORDERS).write_bytes(data)
    assert any("orders/0" in fault for fault in faults(root))


def test_what_follows_a_missing_journal_counts_after_a_repair(root: Path) -> None:
    path = missing_journal(root)
    with pytest.raises(Corrupt, match=rf"{path.name} is missing"):
        start(root)
    done = repair(OsFiles(), root, **SHAPE)
    assert done.missing == [f"config/{path.name}, all of it"]
    broker = start(root)
    assert {config.name for config in broker.topics()} >= {"orders", "made-after"}
    assert orders(broker) == WHOLE
    close(broker)


def test_a_journal_without_its_end_is_found_by_verifying(root: Path) -> None:
    path = missing_journal(root)
    path.write_bytes(b"")
    [fault] = faults(root)
    assert re.fullmatch(rf"config/{path.name} at 0: \d+ bytes at the end are missing", fault)


def test_a_wrong_tag_hash_is_found_by_verifying_and_mended_by_a_repair(root: Path) -> None:
    flip(root, ORDERS, 3 * 20 + 15)
    assert [fault for fault in faults(root) if fault.startswith("orders/0@3: its tag hash")]
    assert repair(OsFiles(), root, **SHAPE).done
    broker = start(root)
    assert orders(broker) == WHOLE
    close(broker)
    assert faults(root) == []


def test_a_wrong_tag_hash_is_mended_and_told_when_its_message_is_read(root: Path) -> None:
    flip(root, ORDERS, 3 * 20 + 15)
    broker = start(root)
    assert orders(broker) == WHOLE
    (damage,) = broker.health().damages
    assert (damage.file, damage.start) == (ORDERS, 3 * 20)
    assert damage.copy
    close(broker)
    assert faults(root) == []


def test_a_repair_while_a_server_runs_is_refused(root: Path) -> None:
    broker = start(root)
    with pytest.raises(Busy):
        repair(OsFiles(), root, **SHAPE)
    close(broker)


def test_queues_that_verifying_found_wrong_are_made_anew(root: Path) -> None:
    for offset in range(5):
        flip(root, ORDERS, offset * 20 + 7)
    done = repair(OsFiles(), root, **SHAPE)
    assert "queue 0 of orders is made anew from the log" in done.done
    broker = start(root)
    assert orders(broker) == WHOLE
    close(broker)
    assert faults(root) == []


@pytest.mark.parametrize("at", [16, 23, 24, 31, 36, 38])
def test_a_key_index_with_a_damaged_head_is_made_anew_at_the_start(root: Path, at: int) -> None:
    start(root).stop()
    flip(root, INDEX, at)
    broker = start(root)
    (damage,) = broker.health().damages
    assert damage.file == "index"
    assert (root / damage.copy / Path(INDEX).name).exists()
    assert orders(broker) == WHOLE
    for number in range(20):
        assert len(broker._store.positions_of_key("orders", f"k{number}")) == 1
    broker.stop()
    assert faults(root) == []


ITEMS_AT = 40 + 50 * 4
KEYS = [f"k{number}" for number in range(20)]


def killed(root: Path) -> None:
    """A process of this version has used the directory, written a checkpoint, and was killed."""
    broker = start(root)
    for _ in range(2):
        broker._store.begin_checkpoint(lambda: None)
    close(broker)


def looked_up(broker: Broker) -> dict[str, list[int]]:
    return {key: broker._store.positions_of_key("orders", key) for key in KEYS}


def undamaged(root: Path) -> dict[str, list[int]]:
    broker = start(root)
    found = looked_up(broker)
    assert all(len(places) == 1 for places in found.values())
    close(broker)
    return found


OPEN_HEAD = (0, 7, 16, 23, 36, 39)  # one bit of each field; what is left follows from the items
MARK_AT = tuple(ITEMS_AT + at for at in (0, 5, 9, 17))
ITEM_5_AT = ITEMS_AT + 5 * 20
ITEM_AT = tuple(ITEM_5_AT + at for at in (3, 4, 11, 15, 19))
CLOSED_AT = (0, 8, 15, 16, 24, 32, 36, 39, 40, 43, 59, ITEMS_AT + 13)


@pytest.mark.parametrize("at", [*OPEN_HEAD, *MARK_AT, *ITEM_AT])
def test_a_flipped_bit_of_a_key_index_after_a_kill_is_named_and_mended(root: Path, at: int) -> None:
    whole = undamaged(root)
    killed(root)
    flip(root, INDEX, at)
    assert [fault for fault in faults(root) if fault.startswith("index/")]
    broker = start(root)
    (damage,) = broker.health().damages
    assert damage.file == "index"
    assert (root / damage.copy / Path(INDEX).name).exists()
    assert looked_up(broker) == whole
    broker.stop()
    assert faults(root) == []


@pytest.mark.parametrize("at", [*CLOSED_AT, *MARK_AT, *ITEM_AT])
def test_any_flipped_bit_of_a_stopped_key_index_is_named_by_start_and_verifying(
    root: Path, at: int
) -> None:
    start(root).stop()
    flip(root, INDEX, at)
    assert [fault for fault in faults(root) if fault.startswith("index/")]
    broker = start(root)
    assert [damage.file for damage in broker.health().damages] == ["index"]
    close(broker)


@pytest.mark.parametrize("ending", ["killed", "stopped"])
def test_a_key_index_that_lost_its_mark_is_made_anew(root: Path, ending: str) -> None:
    whole = undamaged(root)
    killed(root)
    if ending == "stopped":
        start(root).stop()
    data = bytearray((root / INDEX).read_bytes())
    data[ITEMS_AT : ITEMS_AT + 20] = bytes(20)
    (root / INDEX).write_bytes(data)
    assert f"{INDEX}: it has lost its mark" in faults(root)
    broker = start(root)
    (damage,) = broker.health().damages
    assert "lost its mark" in damage.detail
    assert looked_up(broker) == whole
    close(broker)


def test_a_kill_right_after_the_start_that_follows_a_kill_is_no_damage(root: Path) -> None:
    killed(root)
    broker = start(root)
    broker.send([Message("orders", b"behind the checkpoint", keys=("late",), queue=0)])
    broker._store._index.write()  # to the page cache, which a kill leaves
    close(broker)
    for _ in range(2):  # the first start cuts the key index back to the checkpoint
        broker = start(root)
        assert broker.health().damages == []
        assert len(broker._store.positions_of_key("orders", "late")) == 1
        close(broker)
    assert faults(root) == []


def test_a_kill_while_the_key_index_is_made_anew_loses_nothing(root: Path) -> None:
    whole = undamaged(root)
    start(root).stop()
    flip(root, INDEX, 23)
    close(start(root))  # what was made anew is in memory alone
    broker = start(root)
    assert looked_up(broker) == whole
    close(broker)


def test_an_item_of_an_earlier_version_that_hides_others_after_a_kill_is_named(
    tmp_path: Path,
) -> None:
    root = tmp_path / "data"
    with tarfile.open(FIXTURES / "earlier-killed.tar.gz") as archive:
        archive.extractall(root, filter="data")
    flip(root, INDEX, ITEM_5_AT + 4)
    broker = start(root)
    assert [damage.file for damage in broker.health().damages] == ["index"]
    assert all(looked_up(broker).values())
    close(broker)


@pytest.mark.parametrize(("at", "bits"), [(16, 1), (23, 1), (36, 1), (38, 1), (39, 96)])
def test_a_head_of_an_earlier_version_that_does_not_fit_its_items_after_a_kill_is_named(
    tmp_path: Path, at: int, bits: int
) -> None:
    root = tmp_path / "data"
    with tarfile.open(FIXTURES / "earlier-killed.tar.gz") as archive:
        archive.extractall(root, filter="data")
    flip(root, INDEX, at, bits)
    broker = start(root)
    assert [damage.file for damage in broker.health().damages] == ["index"]
    assert all(looked_up(broker).values())
    close(broker)


def test_a_key_index_file_that_is_missing_is_made_anew(root: Path) -> None:
    whole = undamaged(root)
    killed(root)
    (root / INDEX).unlink()
    assert f"{INDEX}: it is missing" in faults(root)
    broker = start(root)
    (damage,) = broker.health().damages
    assert "is missing" in damage.detail
    assert looked_up(broker) == whole
    close(broker)
