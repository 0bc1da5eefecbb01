"""A server that follows another: what it answers, what it refuses, and how it comes back."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.main import create_app
from app.replication.follower import Follower
from app.settings import Settings, SettingsError, load
from engine.broker import TopicConfig
from engine.errors import OnStandby
from engine.message import Message
from tests.app.conftest import App
from tests.app.replication.conftest import LIMIT_S, Leader, Opened

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def following(leader: Leader, path: Path, **changes: Any) -> AsyncIterator[App]:
    """A standby of the leader, with a client of it."""
    settings = Settings(
        data=path / "standby",
        disk_free_min_bytes=0,
        follow=f"127.0.0.1:{leader.port}",
        **changes,
    )
    app = create_app(settings)
    async with app.router.lifespan_context(app):
        follower = Follower(app.services)
        await follower.start()
        transport = httpx.ASGITransport(app, client=("127.0.0.1", 50_000))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080") as http:
            try:
                yield App(app, None, http, None)  # type: ignore[arg-type]
            finally:
                await follower.stop()


async def until(look: Callable[[], Any]) -> Any:
    async with asyncio.timeout(LIMIT_S):
        while not (seen := look()):
            await asyncio.sleep(0.01)
    return seen


async def caught_up(leader: Leader, standby: App) -> None:
    host = standby.app.services.host
    await until(lambda: host.is_ready and host.standby_broker.standby.end == leader.end)
    await until(lambda: not host.standby_broker.standby.is_busy)


async def test_a_standby_answers_reads_and_says_what_it_is(opened: Opened, tmp_path: Path) -> None:
    async with opened() as leader, following(leader, tmp_path) as standby:
        leader.send(b"one", b"two")
        await caught_up(leader, standby)
        await until(lambda: len(standby.app.services.host.broker.topics()) == 1)
        answer = await standby.http.get("/api/v1/topics/orders")
        assert answer.status_code == 200
        said = f"standby of 127.0.0.1:{leader.port}, 0 bytes behind"
        assert answer.headers["kitemq-standby"] == said
        bodies = []
        for queue in range(4):
            page = await standby.get(f"/topics/orders/messages?queue={queue}&offset=0")
            bodies += [each["body"] for each in page["messages"]]
        assert sorted(bodies) == ["one", "two"]
        ready = (await standby.http.get("/readyz")).json()
        assert (ready["status"], ready["warnings"]["standby"]) == ("ready", said)
        figures = (await standby.http.get("/metrics")).text
        assert "\nkitemq_replication_lag_bytes 0\n" in figures
        assert "\nkitemq_replication_connected 1\n" in figures
        control = (await standby.http.get("/engine/control")).text
        assert "start the server without the setting follow" in control
        page = (await standby.http.get("/topics")).text
        assert "Standby: changes are disabled" in page
        assert f"This server is a standby of 127.0.0.1:{leader.port}" in page


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/topics/orders/messages", {"messages": [{"body": "x"}]}),
        ("POST", "/topics", {"name": "new"}),
        ("DELETE", "/topics/orders", None),
        ("POST", "/groups/g/receive", {"topic": "orders"}),
        ("POST", "/groups", {"name": "g"}),
    ],
)
async def test_a_change_is_refused_with_the_leader_named(
    opened: Opened, tmp_path: Path, method: str, path: str, body: Any
) -> None:
    async with opened() as leader, following(leader, tmp_path) as standby:
        leader.send(b"one")
        await caught_up(leader, standby)
        answer = await standby.http.request(method, f"/api/v1{path}", json=body)
        problem = answer.json()
        assert (answer.status_code, problem["code"]) == (409, "standby")
        assert f"a standby of 127.0.0.1:{leader.port}" in problem["detail"]
        assert problem["errors"][0]["remedy"] == "send it to the leader"


async def test_the_engine_itself_refuses_changes_of_a_standby(
    opened: Opened, tmp_path: Path
) -> None:
    async with opened() as leader, following(leader, tmp_path) as standby:
        leader.send(b"one")
        await caught_up(leader, standby)
        broker = standby.app.services.host.broker
        end = broker.log_end
        with pytest.raises(OnStandby):
            broker.send([Message("orders", b"x")])
        with pytest.raises(OnStandby):
            broker.create_topic(TopicConfig("new"))
        assert broker.log_end == end
        assert [topic.name for topic in broker.topics()] == ["orders"]


async def test_a_standby_goes_on_when_its_leader_comes_back(opened: Opened, tmp_path: Path) -> None:
    async with opened() as leader, following(leader, tmp_path) as standby:
        leader.send(b"one")
        await caught_up(leader, standby)
        (link,) = leader.links
        (connection,) = leader.monitor.connections
        await connection.stop()  # type: ignore[attr-defined]
        leader.send(b"two")
        await caught_up(leader, standby)
        assert leader.links != [link]
        state = await standby.get("/replication")
        assert (state["is_connected"], state["lag_bytes"], state["failure"]) == (True, 0, "")


async def test_a_standby_without_its_leader_answers_and_says_why(
    opened: Opened, tmp_path: Path
) -> None:
    async with opened() as leader:
        gone = Leader(leader.app, leader.port, leader.monitor)
    async with following(gone, tmp_path) as standby:
        following_state = standby.app.services.following
        await until(lambda: following_state.failure)
        state = await standby.get("/replication")
        assert (state["is_connected"], state["lag_bytes"]) == (False, None)
        ready = await standby.http.get("/readyz")
        assert ready.status_code == 200
        assert ready.json()["problems"]["replication"] == following_state.failure
        assert "Not connected" in (await standby.http.get("/topics")).text


async def test_a_leader_lists_its_standbys(opened: Opened, tmp_path: Path) -> None:
    async with opened(ha_listen="127.0.0.1:10912") as leader, following(leader, tmp_path) as other:
        leader.send(b"one")
        await caught_up(leader, other)
        transport = httpx.ASGITransport(leader.app, client=("127.0.0.1", 50_001))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080") as http:
            await until(lambda: not leader.links[0].lag_bytes(leader.broker.log_end))
            (listed,) = (await http.get("/api/v1/replication")).json()["standbys"]
            assert (listed["kind"], listed["lag_bytes"]) == ("kitemq", 0)
            assert "kitemq_standbys 1\n" in (await http.get("/metrics")).text
            page = (await http.get("/engine")).text
            assert listed["address"] in page
            assert "KiteMQ standby" in page


async def test_a_standby_with_too_old_a_journal_loads_anew_and_answers_again(
    opened: Opened, tmp_path: Path
) -> None:
    async with opened() as leader:
        async with following(leader, tmp_path) as standby:
            leader.send(b"one")
            await caught_up(leader, standby)
        leader.broker.create_topic(TopicConfig("later"))
        for _ in range(2):  # the file that the standby had last is needless then
            leader.broker._store.journal.compact()
            await until(lambda: not leader.broker._store.journal._compacting)
        async with following(leader, tmp_path) as standby:
            await caught_up(leader, standby)
            host = standby.app.services.engine_host
            await until(lambda: host.is_ready and len(host.broker.topics()) == 2)
            assert host._loading is not None
            assert (await standby.get("/topics/later"))["name"] == "later"


async def test_while_a_standby_loads_its_probes_alone_are_answered(
    opened: Opened, tmp_path: Path
) -> None:
    async with opened() as leader, following(leader, tmp_path) as standby:
        await caught_up(leader, standby)
        standby.app.services.host.is_loading = True
        answer = await standby.http.get("/api/v1/topics")
        assert (answer.status_code, answer.json()["code"]) == (503, "busy")
        assert answer.headers["retry-after"] == "2"
        ready = await standby.http.get("/readyz")
        assert (ready.status_code, ready.json()["status"]) == (503, "starting")
        assert (await standby.http.get("/healthz")).status_code == 200
        standby.app.services.host.is_loading = False


@pytest.mark.parametrize("wrong", ["here", "host", "h:99999", "10912"])
def test_a_leader_needs_an_address(wrong: str) -> None:
    with pytest.raises(SettingsError, match="'follow'"):
        load({"follow": wrong}, environ={})
