"""A server that follows an Apache master: what it takes from one, and what it does not."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.main import create_app
from app.replication import master_follower
from app.replication.master_follower import MasterFollower
from app.replication.master_link import FRAME_BYTES_MAX
from app.services.leadership import settings_by_role
from app.settings import Settings, SettingsError, load
from engine.errors import Conflict, Refused
from engine.replication.promotion import promote_directory
from engine.replication.rocketmq_standby import RocketmqStandby
from protocol.replication import HEAD, frame
from tests.app.conftest import App
from tests.app.replication.conftest import LIMIT_S
from tests.app.replication.scripted_master import ScriptedMaster

pytestmark = pytest.mark.anyio

SEGMENT_BYTES = 64 * 1024
TOPICS = {"orders": {"readQueueNums": 2, "writeQueueNums": 2, "perm": 6}}


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(master_follower, "TABLES_S", 0.02)


@pytest.fixture
async def master() -> AsyncIterator[ScriptedMaster]:
    master = ScriptedMaster(SEGMENT_BYTES)
    master.sections["topics"] = TOPICS
    async with master.running():
        yield master


class Standby:
    """A server that follows the master."""

    def __init__(self, app: App) -> None:
        self.app, self.http = app, app.http
        services = app.app.services
        self.following, self.host = services.following, services.host

    @property
    def engine(self) -> RocketmqStandby:
        standby = self.host.standby_broker.standby
        assert isinstance(standby, RocketmqStandby)
        return standby

    @property
    def end(self) -> int:
        return self.engine.end[0]

    def bodies(self, queue: int = 0) -> list[bytes]:
        broker = self.host.broker
        first = broker.topic_stats("orders").queues[queue].min_offset
        page = broker.pull("orders", queue, first, count_max=10)
        return [message.body for message in page.messages]

    async def has(self, master: ScriptedMaster) -> None:
        """Wait until the log is the master's."""
        await until(lambda: self.end == len(master.log.data) and not self.engine.is_busy)

    async def fails(self, words: str) -> None:
        await until(lambda: words in self.following.failure)


@asynccontextmanager
async def following(
    master: ScriptedMaster, path: Path, *, broker: str = "", **changes: Any
) -> AsyncIterator[Standby]:
    given = {"segment_bytes": SEGMENT_BYTES, "disk_free_min_bytes": 0, **changes}
    follow = f"rocketmq://{master.address}{broker}"
    app = create_app(Settings(data=path / "standby", follow=follow, **given))
    async with app.router.lifespan_context(app):
        follower = MasterFollower(app.services)
        await follower.start()
        transport = httpx.ASGITransport(app, client=("127.0.0.1", 50_000))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080") as http:
            try:
                yield Standby(App(app, None, http, None))  # type: ignore[arg-type]
            finally:
                await follower.stop()


async def until(look: Callable[[], Any]) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not look():
            await asyncio.sleep(0.01)


async def test_a_standby_answers_from_the_masters_log_and_tables(
    master: ScriptedMaster, tmp_path: Path
) -> None:
    master.sections |= {"groups": {"g": {}}, "offsets": {"orders@g": {0: 1}}}
    for number in range(3):
        master.log.put("orders", b"%d" % number)
    async with following(master, tmp_path, broker="/a") as standby:
        await standby.has(master)
        await until(standby.host.broker.groups)
        lag = (await standby.http.get("/api/v1/groups/g/lag")).json()
        assert lag["count"] == 2
        answer = await standby.http.get("/api/v1/topics/orders")
        said = f"standby of rocketmq://{master.address}/a, 0 bytes behind"
        assert answer.headers["kitemq-standby"] == said
        assert answer.json()["read_queues"] == 2
        refused = await standby.http.post("/api/v1/topics", json={"name": "new"})
        assert (refused.status_code, refused.json()["code"]) == (409, "standby")
        assert master.positions == [1], "from 0 a master gives its last segment alone"
        await until(lambda: master.reported == len(master.log.data))
    master.log.put("orders", b"3")
    async with following(master, tmp_path, broker="/a") as standby:
        await standby.has(master)
        assert standby.bodies() == [b"0", b"1", b"2", b"3"]
        assert [group.name for group in standby.host.broker.groups()] == ["g"]


def of_no_size(position: int) -> Iterator[bytes]:
    yield HEAD.pack(position, -1)


def too_large(position: int) -> Iterator[bytes]:
    yield HEAD.pack(position, FRAME_BYTES_MAX + 1)


def that_jumps(position: int) -> Iterator[bytes]:
    yield frame(position)
    yield frame(position + 8, b"x" * 100)


def that_goes_back(position: int) -> Iterator[bytes]:
    yield frame(max(0, position - 1), b"x" * 100)


def of_garbage(position: int) -> Iterator[bytes]:
    yield frame(position, b"\x7f" * 5000)


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (of_no_size, "a frame of -1 bytes"),
        (too_large, f"a frame of {FRAME_BYTES_MAX + 1} bytes"),
        (that_jumps, "the master goes on at"),
        (that_goes_back, "the master goes on at"),
        (of_garbage, "other bytes"),
    ],
)
async def test_a_frame_that_cannot_be_is_refused_and_the_log_goes_on(
    script: Callable[[int], Iterator[bytes]], words: str, master: ScriptedMaster, tmp_path: Path
) -> None:
    for number in range(5):
        master.log.put("orders", b"%d" % number * 100)
    async with following(master, tmp_path) as standby:
        await standby.has(master)
    master.log.put("orders", b"last")
    master.script = script
    async with following(master, tmp_path) as standby:
        state = standby.following
        await until(lambda: state.failure)
        assert words in state.failure
        await standby.has(master)
        assert len(standby.bodies()) == 6
        await until(lambda: not state.failure)


async def test_tables_wait_until_the_log_has_what_they_speak_of(
    master: ScriptedMaster, tmp_path: Path
) -> None:
    """An offset that moved on because a retry was stored may not be here before the retry."""
    master.log.put("orders", b"0")
    master.log.put("%RETRY%g", b"0")
    master.held = 1
    master.sections |= {"groups": {"g": {}}, "offsets": {"orders@g": {0: 1}}}
    async with following(master, tmp_path) as standby:
        await until(lambda: master.positions)
        await asyncio.sleep(0.3)  # several times as long as tables take
        assert standby.host.broker.groups() == []
        assert not (tmp_path / "standby" / "config" / "consumerOffset.json").exists()
        master.held = 1 << 62
        await until(standby.host.broker.groups)
        assert standby.end == len(master.log.data)


async def test_what_the_masters_retention_deletes_goes_here_too(
    master: ScriptedMaster, tmp_path: Path
) -> None:
    for _ in range(5):
        master.log.put("orders", b"x" * 50_000)
    async with following(master, tmp_path) as standby:
        await standby.has(master)
        store = standby.engine.parts.store
        await until(lambda: store.flushed == store.written)
        store.begin_checkpoint(lambda: None)  # nothing behind it is deleted
        master.oldest = 2 * SEGMENT_BYTES
        await until(lambda: store.oldest_base == master.oldest)
    async with following(master, tmp_path) as standby:
        await standby.has(master)
    master.oldest = 9 * SEGMENT_BYTES
    master.end = 10 * SEGMENT_BYTES
    async with following(master, tmp_path) as standby:
        await standby.fails("its retention took what lay between")


async def test_a_standby_of_a_master_without_its_first_segments_begins_where_that_does(
    master: ScriptedMaster, tmp_path: Path
) -> None:
    for _ in range(5):
        master.log.put("orders", b"x" * 50_000)
    master.oldest = 2 * SEGMENT_BYTES
    async with following(master, tmp_path) as standby:
        await standby.has(master)
        assert master.positions == [2 * SEGMENT_BYTES]
        assert len(standby.bodies()) == 3


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"mappedFileSizeCommitLog": 1 << 30}, "start with --segment-bytes 1073741824"),
        ({"brokerRole": "SLAVE"}, "is no master"),
        ({"enableDLegerCommitLog": "true"}, "DLedger"),
        ({"enableControllerMode": "true"}, "with a controller"),
        ({"haListenPort": "no port"}, "the master's HA address is '127.0.0.1:no port'"),
    ],
)
async def test_a_master_that_cannot_be_followed_is_named_with_the_reason(
    changes: dict[str, object], words: str, master: ScriptedMaster, tmp_path: Path
) -> None:
    master.settings |= changes
    async with following(master, tmp_path) as standby:
        await standby.fails(words)
        ready = (await standby.http.get("/readyz")).json()
        assert words in ready["problems"]["replication"]


async def test_of_several_masters_one_has_to_be_named(
    master: ScriptedMaster, tmp_path: Path
) -> None:
    master.brokers = ["a", "b"]
    async with following(master, tmp_path) as standby:
        await standby.fails("the cluster has 2 masters: a, b")
    async with following(master, tmp_path, broker="/c") as standby:
        await standby.fails("the broker c has no master, but a, b")
    async with following(master, tmp_path, broker="/b") as standby:
        await until(lambda: standby.following.is_connected)


async def test_a_directory_of_another_kind_is_not_taken(
    master: ScriptedMaster, tmp_path: Path
) -> None:
    master.log.put("orders", b"0")
    async with following(master, tmp_path) as standby:
        await standby.has(master)
        data = tmp_path / "standby"
        copy = Settings(data=data, follow="127.0.0.1:10912")
    with pytest.raises(Refused, match="an Apache master's"):
        settings_by_role(copy)
    with pytest.raises(Refused, match="is a standby's"):
        settings_by_role(Settings(data=data))
    own = tmp_path / "own"
    (own / "commitlog").mkdir(parents=True)
    (own / "commitlog" / f"{0:020d}").write_bytes(b"\0" * 100)
    with pytest.raises(Refused, match="no Apache master's"):
        settings_by_role(Settings(data=own, follow="rocketmq://127.0.0.1:9876"))


async def test_a_stopped_standby_is_promoted_by_its_directory(
    master: ScriptedMaster, tmp_path: Path
) -> None:
    master.sections |= {"groups": {"g": {}}, "offsets": {"orders@g": {0: 1}}}
    for number in range(3):
        master.log.put("orders", b"%d" % number)
    async with following(master, tmp_path) as standby:
        await standby.has(master)
        await until(standby.host.broker.groups)
    data, follow = tmp_path / "standby", f"rocketmq://{master.address}"
    assert promote_directory(data).epoch == 2
    settings = settings_by_role(
        Settings(data=data, follow=follow, segment_bytes=SEGMENT_BYTES, disk_free_min_bytes=0)
    )
    assert settings.follow == ""
    app = create_app(settings)
    async with app.router.lifespan_context(app):
        broker = app.services.host.broker
        deliveries = broker.receive("g", {"orders": "*"}, count_max=5)
        assert [each.message.body for each in deliveries] == [b"1", b"2"]
    assert promoted_again(data) == "a leader one's"


def promoted_again(data: Path) -> str:
    """What a promotion of what is no standby's says."""
    with pytest.raises(Conflict) as refusal:
        promote_directory(data)
    return refusal.value.detail.rpartition("but ")[2]


@pytest.mark.parametrize(
    "wrong",
    ["rocketmq://", "rocketmq://host", "rocketmq://h:1;", "rocketmq://h:1/", "rocketmq://h:1/a b"],
)
def test_an_address_that_is_none_is_refused(wrong: str) -> None:
    with pytest.raises(SettingsError, match=r"expected rocketmq://HOST:PORT"):
        load({"follow": wrong}, environ={})


def test_name_servers_and_a_broker_are_read() -> None:
    follow = "rocketmq://10.0.0.1:9876;[::1]:9876/broker-a"
    assert load({"follow": follow}, environ={}).follow == follow
    with pytest.raises(SettingsError, match="follow_ca"):
        load({"follow": follow, "follow_ca": "/ca.pem"}, environ={})
