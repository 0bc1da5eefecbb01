"""Of several servers that share a database one evaluates the rules, and all show what it finds."""

from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from app.services.alerts.duty import LEASE_MS
from tests.app.conftest import App, started
from tests.app.services.alerts.test_alerts import fall_behind, rule

pytestmark = [pytest.mark.anyio, pytest.mark.databases]


async def round_of(app: App) -> bool:
    """What a server does every ten seconds; whether it evaluated."""
    alerts = app.app.services.alerts
    if is_ours := await alerts._take_duty():
        await alerts.evaluate()
    assert alerts.failure == ""
    return bool(is_ours)


async def test_one_evaluates_and_the_other_shows_it_and_goes_on_where_it_stops(
    url: str, tmp_path: Path
) -> None:
    async with started(tmp_path / "one", database_url=url) as one, AsyncExitStack() as stack:
        assert await round_of(one)  # its database is ready: SQLite's is made by one at a time
        two = await stack.enter_async_context(started(tmp_path / "two", database_url=url))
        assert not await round_of(two)
        for app in (one, two):
            await fall_behind(app)
        await two.post("/alerts/rules", rule(), 201)
        assert await round_of(one)
        assert not await round_of(two)
        standings = [(await app.get("/alerts"))["items"] for app in (one, two)]
        assert standings[0] == standings[1]
        assert [(each["state"], each["subjects_checked"]) for each in standings[0]] == [
            ("firing", 1)
        ]
        firing = {"rule_id": str(standings[0][0]["rule_id"]), "subject": "billing"}
        await two.post("/alerts/acknowledge", firing)
        assert await round_of(one)
        assert (await one.get("/alerts"))["items"][0]["subjects"][0]["acknowledged_by"]
        for app in (one, two):
            app.clock.advance(LEASE_MS / 1000 + 1)
        assert await round_of(two)
        assert not await round_of(one)
        assert (await two.get("/alerts"))["items"][0]["state"] == "firing"
        assert len((await one.get("/alerts/deliveries"))["items"]) == 0
