"""The list of groups that have dead letters, while others change them."""

import httpx
import pytest

from app import pause
from tests.app.ui.conftest import Site
from tests.app.ui.dead_letters.dead_scene import dying_group, kill, one_queue
from tests.app.ui.scenery import Scenery


def piles(scenery: Scenery) -> set[str]:
    found = scenery.get("/topics?system=true&limit=200&q=%25DLQ%25")
    assert found["next_cursor"] is None
    return {topic["name"] for topic in found["items"]}


@pytest.mark.parametrize("step", ["counting", "looking"])
def test_dead_letters_that_are_deleted_while_the_list_is_made_are_left_out(
    site: Site, scenery: Scenery, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    stays, goes = f"{step}-a", f"{step}-b"
    one_queue(scenery, step)
    for group in (stays, goes):
        dying_group(scenery, group)
        kill(scenery, group, step, [{"body": "x"}])
    # A rest follows each that was counted, then each that was looked at.
    left = [len(piles(scenery)) if step == "looking" else 0]
    broker = site.app.services.host.broker

    class Interrupted(pause.Pause):
        async def when_due(self) -> None:
            if left[0] == 0:
                broker.delete_topic(f"%DLQ%{goes}")
            left[0] -= 1
            await super().when_due()

    monkeypatch.setattr(pause, "Pause", Interrupted)
    answer = httpx.get(f"{site.base}/dlq?q={step}&sort=group&format=json")
    assert answer.status_code == 200, answer.text
    assert [row["dead"]["group"] for row in answer.json()["cut"]["rows"]] == [stays]
    kept = piles(scenery)
    assert (f"%DLQ%{stays}" in kept, f"%DLQ%{goes}" in kept) == (True, False)
