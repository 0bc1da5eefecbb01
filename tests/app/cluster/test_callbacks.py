"""Callbacks of producer groups before a cluster: kept here, and called when a broker asks."""

import asyncio
from pathlib import Path

import pytest

from app.cluster.verbs.callbacks import FILE, ClusterCallbacks
from engine.broker import Callback
from engine.errors import DiskFull, GroupNotFound, Invalid
from tests.app.api.test_transactions import begin, producing, register, until
from tests.app.conftest import LIMIT_S, App, started
from tests.app.security.test_access import bearer, token_of, with_admin
from tests.makers import CLUSTER

pytestmark = pytest.mark.anyio

CALLBACK = Callback("billing", "https://billing.example/check?key=secret", 3000)


async def test_callbacks_outlive_a_restart_readable_by_the_servers_user_only(
    tmp_path: Path,
) -> None:
    callbacks = ClusterCallbacks(tmp_path)
    for each in (CALLBACK, Callback("other", "https://other.example")):
        assert await callbacks.set(each) == each
    await callbacks.delete("other")
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600
    again = ClusterCallbacks(tmp_path)
    await again.load()
    assert again.all() == [CALLBACK]
    with pytest.raises(GroupNotFound):
        await again.delete("other")
    with pytest.raises(Invalid):
        await again.set(Callback("billing", ""))


async def test_a_damaged_file_is_set_aside_and_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / FILE).write_bytes(b"[[1]]")
    callbacks = ClusterCallbacks(tmp_path)
    await callbacks.load()
    assert callbacks.all() == []
    assert (tmp_path / f"{FILE}.damaged").read_bytes() == b"[[1]]"
    assert f"{FILE}.damaged" in caplog.text


async def test_what_cannot_be_kept_is_refused_and_not_called(tmp_path: Path) -> None:
    callbacks = ClusterCallbacks(tmp_path / "gone")
    with pytest.raises(DiskFull) as refusal:
        await callbacks.set(CALLBACK)
    assert refusal.value.remedy
    assert callbacks.find("billing") is None


async def consumed(app: App) -> str:
    """The body of the next message."""
    async with asyncio.timeout(LIMIT_S):
        while not (got := await app.receive("consumers", "t")):
            app.advance(1)
            await asyncio.sleep(0.01)
    return str(got[0]["body"])


async def test_a_callback_decides_what_a_broker_asks_also_after_a_restart(tmp_path: Path) -> None:
    async with producing() as producer:
        producer.answer = b'{"decision": "unknown"}'
        async with started(tmp_path / "data", CLUSTER) as app:
            await app.post("/topics", {"name": "t", "type": "TRANSACTION"}, 201)
            shown = await register(app, producer.url)
            assert (await app.get("/transactions/callbacks"))["items"] == [shown]
            await begin(app, "a")
            app.advance(6)
            await until(lambda: bool(producer.asked))
            assert producer.asked[0]["message"]["body"] == "a"
        producer.answer = b'{"decision": "commit"}'
        async with started(tmp_path / "data", CLUSTER) as app:
            assert await app.get("/transactions/callbacks/g") == shown
            assert await consumed(app) == "a"


async def test_a_client_with_rights_of_its_own_decides(tmp_path: Path) -> None:
    async with started(tmp_path / "data", CLUSTER) as app:
        await app.post("/topics", {"name": "t", "type": "TRANSACTION"}, 201)
        [name] = await begin(app, "a")
        await with_admin(app)
        headers = bearer(await token_of(app, "ann"))
        for by in ("producer", "operator"):
            path = f"/api/v1/transactions/{name}/commit?by={by}"
            answer = await app.http.post(path, headers=headers)
            assert (answer.status_code, answer.json()["state"]) == (200, "committed"), by
