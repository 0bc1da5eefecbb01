"""The durability `replicated` over the doors: what an answer says, and what a standby has then."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.replication.follower import Follower
from engine.replication.pieces import Piece
from engine.store.files import OsFile
from tests.app.replication.conftest import LIMIT_S, Leader, Opened
from tests.app.replication.test_follower import caught_up, following, until

pytestmark = pytest.mark.anyio
SEND = "/api/v1/topics/orders/messages"


async def post(leader: Leader, **body: Any) -> httpx.Response:
    transport = httpx.ASGITransport(leader.app, client=("127.0.0.1", 50_001))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080") as http:
        return await http.post(SEND, json={"body": "x", **body})


async def stuck(piece: Piece) -> None:
    """A standby whose disk does not answer."""
    await asyncio.Event().wait()


async def test_a_replicated_message_is_on_the_standby_when_the_answer_comes(
    opened: Opened, tmp_path: Path
) -> None:
    async with opened() as leader, following(leader, tmp_path) as standby:
        await until(lambda: leader.broker.replicas._in_step)
        for number in range(20):
            answer = await post(leader, body=f"{number}", durability="replicated")
            assert (answer.status_code, answer.json()["durability"]) == (201, "replicated")
            topic = await standby.get("/topics/orders")
            assert topic["messages"] == number + 1
        answer = await post(leader)
        assert answer.json()["durability"] == "stored"


async def test_a_topic_may_have_its_messages_replicated(opened: Opened, tmp_path: Path) -> None:
    async with opened(durability="replicated") as leader:
        refused = await post(leader, durability="stored")
        assert (refused.status_code, refused.json()["code"]) == (503, "not_replicated")
        async with following(leader, tmp_path):
            await until(lambda: leader.broker.replicas._in_step)
            answer = await post(leader, durability="stored")
            assert answer.json()["durability"] == "replicated"


@pytest.mark.parametrize("fallback", ["refuse", "flushed"])
async def test_without_a_standby_in_time_the_setting_decides(
    opened: Opened, tmp_path: Path, fallback: str
) -> None:
    settings = {"replicated_fallback": fallback, "replicated_timeout_s": 0.2}
    async with opened(**settings) as leader:
        early = await post(leader, durability="replicated")
        async with following(leader, tmp_path) as standby:
            await caught_up(leader, standby)
            await until(lambda: leader.broker.replicas._in_step)
            feed = standby.app.services.leadership.feed
            assert isinstance(feed, Follower)
            feed._take = stuck  # type: ignore[method-assign]
            late = await post(leader, durability="replicated")
        for answer in (early, late):
            if fallback == "refuse":
                assert (answer.status_code, answer.json()["code"]) == (503, "not_replicated")
            else:
                assert (answer.status_code, answer.json()["durability"]) == (201, "flushed")


@pytest.mark.parametrize("must_flush", [False, True])
async def test_with_replicated_flush_a_standby_has_what_is_on_its_disk(
    opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, must_flush: bool
) -> None:
    sync, is_quick = OsFile.sync, threading.Event()
    is_quick.set()

    def sync_slowly(file: OsFile) -> None:
        if str(tmp_path / "standby") in str(Path(f"/proc/self/fd/{file._fd}").readlink()):
            is_quick.wait(LIMIT_S)
        sync(file)

    monkeypatch.setattr(OsFile, "sync", sync_slowly)
    settings = {"replicated_flush": must_flush, "replicated_timeout_s": 1.0}
    async with opened(**settings) as leader, following(leader, tmp_path) as standby:
        await until(lambda: leader.broker.replicas._in_step)
        assert (await post(leader, durability="replicated")).status_code == 201
        await caught_up(leader, standby)
        try:
            is_quick.clear()
            slow = await post(leader, durability="replicated")
            assert slow.status_code == (503 if must_flush else 201)
            assert (await standby.get("/topics/orders"))["messages"] == 2  # it is written there
        finally:
            is_quick.set()
        await until(lambda: leader.broker.replicas.reached == leader.broker.log_end)
        assert (await post(leader, durability="replicated")).status_code == 201
