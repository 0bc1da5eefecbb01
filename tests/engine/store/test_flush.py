"""Flushed means flushed: held back until the disk has it, and never promised by a failed sync."""

import errno
from pathlib import Path

import pytest

from engine.errors import Corrupt, MessageNotFound
from engine.intake import Intake
from engine.message import Durability, Message, PutResult
from engine.replicas import Replicas
from engine.topic.catalog import Catalog
from engine.topic.route import Router
from tests.engine.store.parts import Bench, HeldPool
from tests.simulation.disk import Disk


def flushed(bench: Bench, body: bytes, **properties: str) -> PutResult:
    message = Message("t", body, queue=0, message_id="ID1", properties=properties)
    waits = properties.get("WAIT") != "false"
    return bench.store.append([message], durability=Durability.FLUSHED, waits=waits)


def test_a_flushed_message_is_invisible_until_its_flush(bench: Bench) -> None:
    pool = HeldPool()
    store = bench.open(pool)
    seen: list[tuple[str, int, int, list[int]]] = []
    store.on_visible.append(lambda *what: seen.append(what))
    told: list[Exception | None] = []
    sent = flushed(bench, b"safe")
    store.when_flushed(sent.flush_position, told.append)
    assert sent.durability is Durability.FLUSHED
    assert (told, seen, bench.bodies(), store.bounds("t", 0)) == ([], [], [], (0, 0))
    assert store.positions_of_key("t", "ID1") == []
    with pytest.raises(MessageNotFound):
        store.read_at(sent.positions[0])
    pool.run()
    assert (told, bench.bodies(), store.bounds("t", 0)) == ([None], [b"safe"], (0, 1))
    assert seen == [("t", 0, 0, [0])]
    assert store.positions_of_key("t", "ID1") == [0]
    assert store.read_at(0).body == b"safe"


def test_what_comes_after_a_held_message_waits_behind_it(bench: Bench) -> None:
    pool = HeldPool()
    bench.open(pool)
    sent = flushed(bench, b"held")
    assert bench.put(b"stored").offsets == [1]
    bench.put(b"elsewhere", queue=1)
    assert (bench.bodies(), bench.bodies(queue=1)) == ([], [])
    bench.store.when_flushed(sent.flush_position, lambda _: None)
    pool.run()
    assert (bench.bodies(), bench.bodies(queue=1)) == ([b"held", b"stored"], [b"elsewhere"])


def test_a_sender_that_does_not_wait_is_told_stored_and_still_not_seen_before(bench: Bench) -> None:
    pool = HeldPool()
    bench.open(pool)
    sent = flushed(bench, b"later", WAIT="false")
    assert sent.durability is Durability.STORED
    assert bench.bodies() == []
    pool.run()
    assert bench.bodies() == [b"later"]


def test_the_wait_property_of_a_producer_says_so(bench: Bench) -> None:
    pool = HeldPool()
    store = bench.open(pool)
    catalog = Catalog(store.journal, store, bench.clock.now_ms)
    intake = Intake(
        store,
        catalog,
        Router(),
        bench.clock,
        bench.events,
        durability=Durability.FLUSHED,
        replicas=Replicas(bench.clock, timeout_s=1.0, falls_back=False),
        rules=(),
    )
    hasty = intake.send([Message("t", b"1", queue=0, properties={"WAIT": "false"})])
    patient = intake.send([Message("t", b"2", queue=0)])
    assert (hasty.durability, patient.durability) == (Durability.STORED, Durability.FLUSHED)


def test_one_sync_serves_everybody_who_came_before_it(weak: Bench, disk: Disk) -> None:
    pool = HeldPool()
    weak.open(pool)
    syncs: list[Path] = []
    disk.fault = lambda verb, path: (
        syncs.append(path) if verb == "sync" and path.parent.name == "commitlog" else None
    )
    told: list[int] = []
    for number in range(10):
        sent = flushed(weak, b"%d" % number)
        weak.store.when_flushed(sent.flush_position, lambda _, n=number: told.append(n))
    pool.run()
    assert told == list(range(10))
    assert len(syncs) == 2, "one that was under way, and one for all who came meanwhile"


def test_after_a_failed_sync_nobody_is_told_that_data_is_safe(weak: Bench, disk: Disk) -> None:
    pool = HeldPool()
    weak.open(pool)
    weak.put(b"before")

    def fail(verb: str, path: Path) -> None:
        if verb == "sync":
            raise OSError(errno.EIO, "Input/output error")

    disk.fault = fail
    told: list[Exception | None] = []
    sent = flushed(weak, b"lost?")
    weak.store.when_flushed(sent.flush_position, told.append)
    weak.put(b"behind")
    pool.run()
    assert [type(error) for error in told] == [Corrupt]
    assert weak.bodies() == [b"before"], "reads go on, held messages stay invisible"
    disk.fault = None
    with pytest.raises(Corrupt, match="refused to flush"):
        weak.put(b"refused")
    weak.store.when_flushed(sent.flush_position, told.append)
    assert [type(error) for error in told] == [Corrupt, Corrupt]
    assert "refused to flush" in weak.store.refusal()


def test_a_stop_after_a_failed_sync_leaves_no_clean_mark(weak: Bench, disk: Disk) -> None:
    weak.open()

    def fail(verb: str, path: Path) -> None:
        if verb == "sync" and path.parent.name == "commitlog":
            raise OSError(errno.EIO, "Input/output error")

    disk.fault = fail
    sent = flushed(weak, b"x")
    weak.store.when_flushed(sent.flush_position, lambda _: None)
    disk.fault = None
    weak.store.stop()
    assert not weak.files.exists(weak.root / "clean")
    assert weak.files.exists(weak.root / "abort")


def test_a_clean_stop_flushes_and_tells_who_waits(bench: Bench) -> None:
    pool = HeldPool()
    bench.open(pool)
    sent = flushed(bench, b"last")
    told: list[Exception | None] = []
    bench.store.when_flushed(sent.flush_position, told.append)
    bench.store.stop()
    assert told == [None]
    bench.open()
    assert bench.bodies() == [b"last"]


def test_what_is_only_stored_is_flushed_in_the_background(bench: Bench) -> None:
    store = bench.open(flush_interval_s=0.5)
    bench.put(b"x")
    assert store.flushed == 0
    flusher = store.services()[0]
    assert flusher.tick() == 0.5
    assert store.flushed == store.written
