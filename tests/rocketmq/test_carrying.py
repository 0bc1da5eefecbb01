"""A data directory goes from KiteMQ to Apache RocketMQ's broker and back, and nothing is different.

Each test has a copy of a directory with 20,000 messages of all kinds. The broker is RocketMQ's own
`BrokerController`; after each hand-over every field of every message is compared.
"""

import json
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest

from engine.errors import Busy
from engine.inspection import inspect
from engine.replication.boots import after_boot
from engine.replication.epochs import EpochState
from engine.store.files import OsFiles
from tests.engine.opened import let_go
from tests.rocketmq.apache import Apache, Refused, missing
from tests.rocketmq.kite import COMMITTED, Kite, dump
from tests.rocketmq.messages import QUEUES, SHORT_MS, rows, uniq

pytestmark = [
    pytest.mark.slow,
    pytest.mark.crash,
    pytest.mark.timeout(600),
]

SEGMENT_BYTES = 8 * 1024 * 1024
ENTRIES = 30_000
SLOTS, ITEMS = 50_000, 100_000
OURS = {
    "segment_bytes": SEGMENT_BYTES,
    "queue_file_entries": ENTRIES,
    "index_slots": SLOTS,
    "index_items": ITEMS,
    "trace_sample": 0.0,
}
THEIRS = {
    "segment_bytes": SEGMENT_BYTES,
    "queue_file_bytes": ENTRIES * 20,
    "index_slots": SLOTS,
    "index_items": ITEMS,
}
RELEASE_S = 4.0  # what was sent to be delivered soon is there, on a machine at rest
LIMIT_S = 60.0
EXPORT_S = 6.0  # what KiteMQ writes for RocketMQ now and then is written
MORE = 400
Messages = list[dict[str, Any]]
Place = tuple[str, int, int]


@pytest.fixture(scope="module", autouse=True)
def installed() -> None:
    reason = missing()
    if reason:
        pytest.skip(reason)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("rocketmq")


def write_rows(path: Path, **span: int) -> Path:
    path.write_text("\n".join(map(json.dumps, rows(**span))))
    return path


def copied(root: Path, target: Path) -> Path:
    subprocess.run(["cp", "-a", "--sparse=always", str(root), str(target)], check=True)
    return target


# -- what there is at the beginning -----------------------------------------------------------


@pytest.fixture(scope="module")
def ours_killed(base: Path) -> Path:
    """KiteMQ filled it, and was killed."""
    root, path = base / "ours-killed", write_rows(base / "rows")
    command = [sys.executable, "-m", "tests.rocketmq.kite", str(root), json.dumps(OURS), str(path)]
    with subprocess.Popen(
        [*command, str(RELEASE_S + EXPORT_S)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "filled\n"
        finally:
            process.kill()
    return root


@pytest.fixture(scope="module")
def ours_stopped(base: Path, ours_killed: Path) -> Path:
    """The same after a start and a clean stop."""
    root = copied(ours_killed, base / "ours-stopped")
    Kite(root, **OURS).broker.stop()
    return root


@pytest.fixture(scope="module")
def theirs_killed(base: Path) -> Path:
    """RocketMQ filled it, and was killed."""
    root, path = base / "theirs-killed", write_rows(base / "their-rows")
    root.mkdir()
    with Apache(root, **THEIRS) as apache:
        fill_theirs(apache, path)
        wait_for_soon_ones(apache, base / "dump")
        apache.ask("persist")
    return root


@pytest.fixture(scope="module")
def theirs_stopped(base: Path) -> Path:
    """The same, but for the end: it was stopped."""
    root, path = base / "theirs-stopped", write_rows(base / "their-rows")
    root.mkdir()
    with Apache(root, **THEIRS) as apache:
        fill_theirs(apache, path)
        wait_for_soon_ones(apache, base / "dump")
        apache.stop()
    return root


def fill_theirs(apache: Apache, path: Path) -> None:
    for topic in ("orders", "bulk", "ledger"):
        apache.ask("create", topic=topic, queues=QUEUES)
    apache.ask("fill", path=str(path))
    for queue in range(QUEUES):
        apache.ask("commit", group="readers", topic="orders", queue=queue, offset=COMMITTED)


# -- looking ----------------------------------------------------------------------------------


@pytest.fixture
def kite() -> Iterator[Any]:
    """Opens directories with KiteMQ; what is left open is killed."""
    opened: list[Kite] = []

    def open_it(root: Path) -> Kite:
        opened.append(Kite(root, **OURS))
        return opened[-1]

    yield open_it
    for each in opened:
        let_go(each.root)


def their_messages(apache: Apache, path: Path) -> Messages:
    apache.ask("dump", path=str(path))
    found = [json.loads(line) for line in path.read_text().splitlines()]
    assert all("body" in each for each in found), "an entry leads to no record"
    for each in found:
        each["properties"].pop("__CRC32#", None)
    return found


def by_place(messages: Messages) -> dict[Place, dict[str, Any]]:
    return {(each["topic"], each["queue"], each["offset"]): each for each in messages}


def wait_for_soon_ones(apache: Apache, path: Path, first: int = 0, count: int = 20_000) -> Messages:
    """All messages, once those are there that were to be delivered within seconds."""
    limit_s = time.monotonic() + LIMIT_S
    while True:
        time.sleep(RELEASE_S)
        found = their_messages(apache, path)
        there = {each["properties"].get("UNIQ_KEY") for each in found if each["topic"] == "orders"}
        if not due_soon(first, count) - there or time.monotonic() > limit_s:
            return found


def due_soon(first: int, count: int) -> set[str]:
    """Ids of messages for `orders` that were sent to be delivered within seconds."""
    return {
        row["properties"]["UNIQ_KEY"]
        for row in rows(count, first)
        if row.get("ahead_ms") == SHORT_MS or row.get("properties", {}).get("DELAY") == "1"
        if row["topic"] == "orders"
    }


def assert_equal(before: Messages, after: Messages, *, but_codes_of: tuple[str, ...] = ()) -> None:
    """All that was there is there, in its place and with every field."""
    old, new = by_place(before), by_place(after)
    assert not old.keys() - new.keys()
    different = [
        (place, name, value, new[place].get(name))
        for place, fields in old.items()
        for name, value in fields.items()
        if name in new[place] and new[place][name] != value
        if not (name == "tag_code" and place[0] in but_codes_of)
    ]
    assert different == []


WAITING = ("SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer", "RMQ_SYS_TRANS_HALF_TOPIC")
OWN_CODES = ("rmq_sys_wheel_timer", "RMQ_SYS_TRANS_HALF_TOPIC")  # RocketMQ does not look at them


def assert_none_twice(messages: Messages) -> None:
    """No message was delivered a second time."""
    found = Counter(
        (each["topic"], each["properties"].get("UNIQ_KEY"))
        for each in messages
        if each["topic"] in ("orders", "ledger", "bulk", "%RETRY%workers")
    )
    assert [place for place, count in found.items() if count > 1] == []


def assert_soon_ones_came(messages: Messages, first: int = 0, count: int = 20_000) -> None:
    """What was to be delivered within seconds has been."""
    there = {each["properties"].get("UNIQ_KEY") for each in messages if each["topic"] == "orders"}
    assert not due_soon(first, count) - there


def waiting(kite: Kite) -> tuple[int, int, int]:
    """How many messages wait in a level, for a time, for a decision."""
    broker = kite.broker
    levels = sum(each.count for each in broker.delay_levels())
    return levels, broker.scheduled().count - levels, broker.transactions.count


# -- from KiteMQ to RocketMQ and back -------------------------------------------------------------


@pytest.mark.parametrize("end", ["stopped", "killed"])
def test_rocketmq_goes_on_where_kitemq_ended_and_kitemq_where_that_did(
    request: pytest.FixtureRequest, tmp_path: Path, kite: Any, end: str
) -> None:
    root = copied(request.getfixturevalue(f"ours_{end}"), tmp_path / "data")
    looking = kite(copied(root, tmp_path / "look"))
    before, waited = dump(looking.broker), waiting(looking)
    assert_soon_ones_came(before)
    path = write_rows(tmp_path / "more", count=MORE, first=100_000)
    with Apache(root, **THEIRS) as apache:
        time.sleep(RELEASE_S)
        there = their_messages(apache, tmp_path / "dump")
        assert_equal(before, there)
        assert_none_twice(there)
        for queue in range(QUEUES):
            found = apache.ask("offset", group="readers", topic="orders", queue=queue)
            assert found == {"offset": COMMITTED}
        positions = apache.ask("query", topic="orders", key="k101")["positions"]
        assert len(positions) == 1, "the key index is theirs as well"
        apache.ask("fill", path=str(path))
        apache.ask("create", topic="new-there", queues=2)
        apache.ask("commit", group="readers", topic="orders", queue=0, offset=COMMITTED + 50)
        there = wait_for_soon_ones(apache, tmp_path / "dump", 100_000, MORE)
        apache.ask("persist")
        assert_soon_ones_came(there, 100_000, MORE)
        if end == "stopped":
            apache.stop()
    back = kite(root)
    back.tick(RELEASE_S)
    after = dump(back.broker)
    assert_equal(there, after, but_codes_of=OWN_CODES)
    assert_none_twice(after)
    assert back.broker.committed_offset("readers", "orders", 0) == COMMITTED + 50
    assert back.broker.topic("new-there").read_queues == 2
    assert "RocketMQ" in back.broker.health().warnings["rocketmq"]
    assert back.broker.health().damages == []
    more = [sum(waited_for(kind, first, MORE) for first in (100_000,)) for kind in range(3)]
    assert waiting(back) == tuple(a + b for a, b in zip(waited, more, strict=True))
    back.broker.stop()
    assert_sound(root)


def waited_for(kind: int, first: int, count: int) -> int:
    """How many of these rows wait: in a level, for a time, for a decision."""
    asked = list(rows(count, first))
    if kind == 0:
        return sum(each.get("properties", {}).get("DELAY") in ("17", "18") for each in asked)
    if kind == 1:
        return sum(each.get("ahead_ms", 0) > SHORT_MS for each in asked)
    return sum(each["kind"] == "half" and each["decision"] is None for each in asked)


def assert_sound(root: Path) -> None:
    report = inspect(OsFiles(), root, index_slots=SLOTS, index_items=ITEMS)
    assert report.faults == []


def test_rocketmq_reads_on_behind_what_a_loss_of_power_took(
    ours_killed: Path, tmp_path: Path, kite: Any
) -> None:
    """It cuts the log at a hole: all that was flushed behind it would be lost."""
    root = copied(ours_killed, tmp_path / "data")
    before = dump(kite(copied(root, tmp_path / "look")).broker)
    newest = {(each["topic"], each["queue"]): each for each in before}.values()
    lost = min(newest, key=itemgetter("position"))  # the queue has no gap without it
    (root / "checkpoint").unlink()  # else nothing so old is looked at
    with (root / "commitlog" / f"{0:020d}").open("r+b") as log:
        log.seek(lost["position"])
        log.write(bytes(lost["size_bytes"]))
    after_boot(root, EpochState().with_cluster(), "after the loss")
    opened = kite(root)
    assert [each.start for each in opened.broker.health().damages] == [lost["position"]]
    opened.broker.stop()
    with Apache(root, **THEIRS) as apache:
        there = their_messages(apache, tmp_path / "dump")
        apache.stop()
    assert lost["position"] not in {each["position"] for each in there}
    assert_equal([each for each in before if each != lost], there)
    assert kite(root).broker.health().damages == []


# -- from RocketMQ to KiteMQ and back ---------------------------------------------------------


@pytest.mark.parametrize("end", ["stopped", "killed"])
def test_kitemq_goes_on_where_rocketmq_ended_and_rocketmq_where_that_did(
    request: pytest.FixtureRequest, tmp_path: Path, kite: Any, end: str
) -> None:
    root = copied(request.getfixturevalue(f"theirs_{end}"), tmp_path / "data")
    opened = kite(root)
    opened.tick(RELEASE_S)
    before = dump(opened.broker)
    assert_soon_ones_came(before)
    assert_none_twice(before)
    assert waiting(opened) == tuple(waited_for(kind, 0, 20_000) for kind in range(3))
    for queue in range(QUEUES):
        assert opened.broker.committed_offset("readers", "orders", queue) == COMMITTED
    assert opened.broker.messages_by_id(uniq(101))
    assert opened.broker.health().damages == []
    opened.broker.commit_offset("readers", "orders", 1, COMMITTED + 7)
    opened.broker.stop()
    assert_sound(root)
    with Apache(root, **THEIRS) as apache:
        time.sleep(RELEASE_S)
        there = their_messages(apache, tmp_path / "dump")
        assert_equal(before, there)
        assert_none_twice(there)
        found = apache.ask("offset", group="readers", topic="orders", queue=1)
        assert found == {"offset": COMMITTED + 7}


# -- both at once -----------------------------------------------------------------------------


def test_the_two_brokers_refuse_one_another(ours_stopped: Path, tmp_path: Path, kite: Any) -> None:
    root = copied(ours_stopped, tmp_path / "data")
    opened = kite(root)
    before = dump(opened.broker)
    with pytest.raises(Refused, match="Lock failed"):
        Apache(root, **THEIRS)
    assert dump(opened.broker) == before
    opened.broker.stop()
    assert_sound(root)
    with Apache(root, **THEIRS), pytest.raises(Busy, match="another process"):
        kite(root)
    shutil.rmtree(root)
