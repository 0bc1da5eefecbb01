"""Templates of messages: each user's own, bounded, and gone with the user."""

import pytest

from app.db import template_store
from app.db.rows import Actor
from engine.errors import Conflict, NotFound
from tests.app.conftest import App

pytestmark = pytest.mark.anyio
ACTOR = Actor("ann")


async def test_users_see_and_delete_only_their_own_templates(running: App) -> None:
    templates = running.app.services.templates
    own = await templates.save(ACTOR, "ann", "mine", "orders", {"body": "a"})
    assert await templates.fields("ann", own.id) == {"body": "a"}
    assert await templates.of("otto") == []
    for refused in (templates.fields("otto", own.id), templates.delete(ACTOR, "otto", own.id)):
        with pytest.raises(NotFound):
            await refused
    assert [row.name for row in (await templates.glance("ann")).value] == ["mine"]


async def test_a_name_that_is_taken_is_replaced_also_at_the_limit(
    running: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(template_store, "TEMPLATES_MAX", 2)
    templates = running.app.services.templates
    for name in ("a", "b", "a"):
        saved = await templates.save(ACTOR, "ann", name, "orders", {"body": name * 2})
    with pytest.raises(Conflict):
        await templates.save(ACTOR, "ann", "c", "orders", {})
    assert [row.name for row in await templates.of("ann")] == ["a", "b"]
    assert await templates.fields("ann", saved.id) == {"body": "aa"}
