"""The audit trail has an age and a size, and nobody can push changes out of it."""

from typing import Any

import pytest

from app.db import audit_store
from app.db.rows import AuditEntry, AuditFilter
from app.services import audit_pruning
from app.services.audit_pruning import DAY_MS, AuditPruner
from app.settings import Settings
from tests.app.conftest import App

pytestmark = [pytest.mark.anyio, pytest.mark.databases]


@pytest.fixture(autouse=True)
def _steps_are_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_store, "PRUNE_MAX", 7)
    monkeypatch.setattr(audit_pruning, "PAUSE_S", 0.0)


async def write(app: App, count: int, *, age_days: float = 0.0, **fields: Any) -> None:
    entry = {
        "at_ms": round(app.clock.now_ms() - age_days * DAY_MS), "actor": "ann",
        "action": "topic.create", "object_kind": "topic", "object_name": "a", "before_json": "",
        "after_json": "", "result": "done", "request_id": "", "address": "",
    } | fields  # fmt: skip

    def insert(database: Any) -> None:
        with database._transaction() as connection:
            for __ in range(count):
                audit_store.insert_audit(connection, AuditEntry(**entry))

    await app.app.services.database.run(insert)


async def actions(app: App) -> list[str]:
    entries = await app.app.services.audit.find(AuditFilter(), limit=200)
    return [entry.action for entry in entries]


def keeping(app: App, **settings: Any) -> AuditPruner:
    state = app.app.services
    return AuditPruner(state.database, state.host.clock, Settings(**settings))


async def test_entries_that_are_too_old_go_and_the_others_stay(running: App) -> None:
    await write(running, 20, age_days=31, action="old")
    await write(running, 20, age_days=29, action="new")
    assert await keeping(running, audit_days=30).prune() == 20
    assert await actions(running) == ["new"] * 20
    running.clock.advance(2 * DAY_MS / 1000)
    assert await keeping(running, audit_days=30).prune() == 20
    assert await actions(running) == []


async def test_of_too_many_entries_the_oldest_go(running: App) -> None:
    await write(running, 30, action="first")
    await write(running, 30, action="second")
    assert await keeping(running, audit_entries_max=35).prune() == 25
    assert await actions(running) == ["second"] * 30 + ["first"] * 5


async def test_refused_attempts_go_before_changes_that_were_made(running: App) -> None:
    await write(running, 10, action="topic.create")
    await write(running, 40, action="refused", object_kind="request", result="login_needed")
    await write(running, 20, action="login", object_kind="user", result="login_failed")
    await write(running, 5, action="login", object_kind="user", result="done")
    assert await keeping(running, audit_entries_max=20).prune() == 55
    kept = await actions(running)
    assert kept == ["login"] * 10 + ["topic.create"] * 10
    assert await keeping(running, audit_entries_max=12).prune() == 8
    assert await actions(running) == ["login"] * 5 + ["topic.create"] * 7


async def test_without_an_age_and_a_size_all_entries_stay(running: App) -> None:
    await write(running, 20, age_days=10_000)
    assert await keeping(running, audit_days=0, audit_entries_max=0).prune() == 0
    assert len(await actions(running)) == 20
