"""Dead letters over REST: what they died of, how many, and sending them again."""

from typing import Any

import pytest

from tests.app.conftest import App, Starter

pytestmark = pytest.mark.anyio


async def bury(app: App, *bodies: str, group: str = "billing", error: str = "boom") -> None:
    """Dead letters of a group, from `orders`."""
    await app.send("orders", *bodies, queue=0, tag="t")
    while deliveries := await app.receive(group, "orders", max=100):
        nacks = [
            {"receipt": each["receipt"], "delay_level": -1, "error": error} for each in deliveries
        ]
        await app.post(f"/groups/{group}/nack", {"nacks": nacks, "client": "worker-1"})
        app.advance(0)


async def trail(app: App) -> list[Any]:
    return list((await app.get("/audit?object_kind=replay"))["items"])


async def test_dead_letters_are_listed_with_their_cause_page_by_page(running: App) -> None:
    await bury(running, "a", "b", "c")
    page = await running.get("/groups/billing/dead-letters?limit=2")
    assert (page["total"], [item["message"]["body"] for item in page["items"]]) == (3, ["c", "b"])
    first = page["items"][0]
    assert (first["reason"], first["error"]) == ("rejected", "boom")
    assert (first["failures"], first["origin_topic"]) == (1, "orders")
    assert first["died_ms"] == running.clock.now_ms()
    assert (first["redriven_by"], first["redriven_from"], first["redrive_count"]) == ([], "", 0)
    rest = await running.get(f"/groups/billing/dead-letters?after={page['next_cursor']}")
    assert [item["message"]["body"] for item in rest["items"]] == ["a"]
    assert rest["next_cursor"] is None
    one = await running.get("/groups/billing/dead-letters/2")
    assert one == first
    original = await running.get(f"/messages/{first['origin_id']}")
    assert original["items"][0]["topic"] == "orders"


async def test_dead_letters_are_chosen_by_reason_topic_and_filter(running: App) -> None:
    await bury(running, "a")
    for query, count in (
        ("reason=rejected", 1),
        ("reason=attempts_exhausted", 0),
        ("topic=orders", 1),
        ("topic=bills", 0),
        ("filter=t", 1),
        ("filter=SQL92:%20TAGS%20%3D%20'u'", 0),
    ):
        page = await running.get(f"/groups/billing/dead-letters?{query}")
        assert len(page["items"]) == count, query


async def test_dead_letters_are_counted_by_cause(running: App) -> None:
    await bury(running, *map(str, range(30)))
    await bury(running, "x", error="other")
    counts = await running.get("/groups/billing/dead-letters/counts?newest=20")
    assert (counts["total"], counts["examined"]) == (31, 20)
    counts = await running.get("/groups/billing/dead-letters/counts")
    assert (counts["reasons"], counts["topics"]) == ({"rejected": 31}, {"orders": 31})
    assert (counts["redriven"], counts["returned"]) == (0, 0)


async def test_counts_go_on_in_steps_over_many(start: Starter) -> None:
    async with start() as app:
        for _ in range(12):
            await bury(app, *map(str, range(100)))
        counts = await app.get("/groups/billing/dead-letters/counts?newest=1150")
        assert (counts["examined"], counts["reasons"]) == (1150, {"rejected": 1150})


async def test_a_redrive_brings_them_back_and_marks_them(running: App) -> None:
    await bury(running, "a", "b", "c")
    job = await running.post("/groups/billing/dead-letters/redrive", {"offsets": ["1", 2]}, 201)
    assert (job["source"], job["to"], job["to_name"]) == ("%DLQ%billing", "group", "billing")
    assert (job["selected"], job["rate"], job["state"]) == (2, 100.0, "running")
    assert job["created_by"].startswith("anonymous@127.0.0.1")
    running.advance(1)
    running.advance(1)
    done = await running.get(f"/replays/{job['id']}")
    assert (done["state"], done["totals"]) == ("finished", {"sent": 2})
    assert done["ended_ms"] is not None
    deliveries = await running.receive("billing", "orders", max=10)
    assert [each["body"] for each in deliveries] == ["b", "c"]
    page = await running.get("/groups/billing/dead-letters?state=all")
    assert [item["redriven_by"] for item in page["items"]] == [[job["id"]], [job["id"]], []]
    (entry,) = await trail(running)
    assert (entry["action"], entry["result"]) == ("replay.create", "done")


async def test_what_dies_again_shows_where_it_was_sent_from(running: App) -> None:
    await bury(running, "a")
    job = await running.post("/groups/billing/dead-letters/redrive", {}, 201)
    running.advance(1)
    await bury(running, "b", error="again")
    newest = (await running.get("/groups/billing/dead-letters?state=all"))["items"]
    returned = [item for item in newest if item["redriven_from"]]
    assert [(item["redriven_from"], item["redrive_count"]) for item in returned] == [(job["id"], 1)]
    fresh = await running.post("/groups/billing/dead-letters/redrive", {"fresh_only": True}, 201)
    running.advance(1)
    running.advance(1)
    done = await running.get(f"/replays/{fresh['id']}")
    assert done["totals"] == {"sent": 2, "sent_before": 1}


async def test_each_dead_letter_has_a_state_and_the_open_ones_are_listed(running: App) -> None:
    await bury(running, "a", "b", "c")
    path = "/groups/billing/dead-letters"
    await running.post(f"{path}/redrive", {"offsets": ["1"]}, 201)
    await running.post(f"{path}/dismiss", {"offsets": ["2"], "note": "known"})
    running.advance(1)
    for state, offsets in (
        ("", ["0"]),
        ("?state=open", ["0"]),
        ("?state=resent", ["1"]),
        ("?state=dismissed", ["2"]),
        ("?state=all", ["2", "1", "0"]),
    ):
        items = (await running.get(path + state))["items"]
        assert [each["message"]["offset"] for each in items] == offsets, state
    await running.get(f"{path}?state=gone", 422)
    counts = await running.get(f"{path}/counts")
    assert counts["states"] == {"open": 1, "resent": 1, "dismissed": 1}
    lag = await running.get("/groups/billing/lag")
    assert (lag["dead"], lag["resent"], lag["dismissed"]) == (3, 1, 1)
    await running.http.patch("/api/v1/groups/billing", json={"dismiss_when_resent": True})
    counts = await running.get(f"{path}/counts")
    assert counts["states"] == {"open": 1, "resent": 0, "dismissed": 2}
    job = await running.post(f"{path}/redrive", {"state": "open", "rate": 0}, 201)
    running.advance(1)
    done = await running.get(f"/replays/{job['id']}")
    assert (done["dead_letter_state"], done["totals"]) == ("open", {"sent": 1, "filtered": 1})


async def test_dead_letters_are_cut_by_their_error(running: App) -> None:
    await bury(running, "a", error="KeyError: 'a'")
    await bury(running, "b", error="TimeoutError: 3 s")
    await bury(running, "c", error="TimeoutError: 9 s")
    path = "/groups/billing/dead-letters"
    for query, bodies in (
        ("error_class=TimeoutError", ["c", "b"]),
        ("error=TimeoutError:%209%20s", ["c"]),
        ("error=Timeout*&client=worker-1&failures=1", ["c", "b"]),
        ("failures=2", []),
        ("client=worker-2", []),
        ("to_ms=1", []),
    ):
        items = (await running.get(f"{path}?{query}"))["items"]
        assert [each["message"]["body"] for each in items] == bodies, query
    counts = await running.get(f"{path}/counts")
    assert counts["error_classes"] == {"KeyError": 1, "TimeoutError": 2}
    cut = {"error_class": "TimeoutError", "rate": 0}
    job = await running.post(f"{path}/redrive", {**cut, "dry_run": True}, 201)
    running.advance(1)
    assert (await running.get(f"/replays/{job['id']}"))["totals"] == {"eligible": 2, "filtered": 1}
    await running.post(f"{path}/redrive", {"error": "x" * 1025}, 422)
    done = await running.post(f"{path}/dismiss", {"error_class": "KeyError", "note": "typo"})
    assert done["count"] == 1


async def test_what_cannot_be_redriven_is_refused_with_its_field(running: App) -> None:
    path = "/groups/billing/dead-letters/redrive"
    problem = await running.post(path, {}, 404)
    assert (problem["code"], problem["errors"][0]["field"]) == ("no_dead_letters", "group")
    await running.get("/groups/nobody/dead-letters", 404)
    await bury(running, "a")
    for body, status, field in (
        ({"offsets": ["x"]}, 422, "offsets[0]"),
        ({"offsets": ["7"]}, 422, "places"),
        ({"rate": -1}, 422, "rate"),
        ({"filter": "SQL92: >"}, 422, "filter"),
        ({"to": "nowhere"}, 422, "to"),
        ({"to": "topic", "to_name": "unknown"}, 404, "topic"),
        ({"to_name": "nobody"}, 404, "to_name"),
        ({"colour": 1}, 422, "colour"),
    ):
        problem = await running.post(path, body, status)
        assert problem["errors"][0]["field"] == field, body
    await running.get("/groups/billing/dead-letters/7", 404)
    await running.get("/groups/billing/dead-letters?limit=201", 422)
    await running.get("/groups/billing/dead-letters?after=x", 422)
