"""Alerts: the state machine, what fires and when, silences, restarts, and the API over them."""

import json
from itertools import product
from typing import Any

import pytest

from app.services.alerts.machine import MOVES, Event, Reading, event_of, move
from engine.broker import GroupConfig
from kitemq.model.alerts import RuleState
from tests.app.conftest import App, Starter

pytestmark = [pytest.mark.anyio, pytest.mark.databases]

NOW_MS = 1_700_000_000_000
# Nothing listens there; what is written for it is looked at, not its way.
HOOK = "http://127.0.0.1:9/hook"


def rule(**changes: object) -> dict[str, object]:
    """A rule that fires at once when billing has anything unread."""
    given: dict[str, object] = {
        "name": "billing is behind",
        "kind": "lag",
        "group_pattern": "billing",
        "threshold": 0,
        "for_s": 0,
    }
    return given | changes


async def evaluate(app: App) -> None:
    await app.app.services.alerts.evaluate()
    assert app.app.services.alerts.failure == ""


async def state_of(app: App, number: int = 0) -> Any:
    """Evaluate, and see where a rule stands."""
    await evaluate(app)
    return (await app.get("/alerts"))["items"][number]


async def fall_behind(app: App, count: int = 3) -> list[Any]:
    """billing has taken `count` messages of orders and is done with none."""
    await app.send("orders", *(str(number) for number in range(count)))
    return await app.receive("billing", "orders", max=count, invisible_ms=3_600_000)


async def catch_up(app: App, deliveries: list[Any]) -> None:
    receipts = [delivery["receipt"] for delivery in deliveries]
    await app.post("/groups/billing/ack", {"receipts": receipts})


async def told(app: App) -> list[tuple[str, str]]:
    """Events that were written for webhooks, the oldest first."""
    items = (await app.get("/alerts/deliveries"))["items"]
    return [(item["event"], item["subject"]) for item in reversed(items)]


def test_the_table_of_moves_names_every_pair() -> None:
    assert set(MOVES) == set(product(RuleState, Event))


def test_only_what_is_fine_ends_a_firing() -> None:
    assert {event: move(RuleState.FIRING, event) for event in Event} == {
        Event.FINE: RuleState.OK,
        Event.OVER: RuleState.FIRING,
        Event.HELD: RuleState.FIRING,
        Event.MISSING: RuleState.FIRING,
    }


@pytest.mark.parametrize(
    ("held_s", "event"), [(0, Event.OVER), (59.9, Event.OVER), (60, Event.HELD), (600, Event.HELD)]
)
def test_a_threshold_has_to_be_passed_for_as_long_as_the_rule_asks(
    held_s: float, event: Event
) -> None:
    reading = Reading("g", 9, is_over=True)
    now_ms = NOW_MS + round(held_s * 1000)
    assert event_of(reading, RuleState.PENDING, NOW_MS, now_ms, 60) is event


def test_a_rule_that_asks_for_no_time_holds_at_once() -> None:
    reading = Reading("g", 9, is_over=True)
    assert event_of(reading, RuleState.OK, NOW_MS, NOW_MS, 0) is Event.HELD


async def test_lag_goes_from_ok_over_pending_to_firing_and_back(running: App) -> None:
    await running.post("/alerts/rules", rule(for_s=60, threshold=2), 201)
    deliveries = await fall_behind(running)
    assert (await state_of(running))["state"] == "pending"
    running.advance(59)
    assert (await state_of(running))["state"] == "pending"
    running.advance(1)
    found = await state_of(running)
    assert found["state"] == "firing"
    (subject,) = found["subjects"]
    assert (subject["subject"], subject["value"]) == ("billing", 3)
    await catch_up(running, deliveries)
    assert (await state_of(running))["state"] == "ok"


async def test_what_falls_below_while_pending_begins_anew(running: App) -> None:
    await running.post("/alerts/rules", rule(for_s=60), 201)
    deliveries = await fall_behind(running)
    assert (await state_of(running))["state"] == "pending"
    running.advance(40)
    await catch_up(running, deliveries)
    assert (await state_of(running))["state"] == "ok"
    await fall_behind(running)
    await evaluate(running)
    running.advance(40)
    assert (await state_of(running))["state"] == "pending"


async def test_a_rule_whose_group_does_not_exist_has_no_data_and_says_so(running: App) -> None:
    await running.post("/alerts/rules", rule(), 201)
    found = await state_of(running)
    assert found["state"] == "no_data"
    assert found["subjects"][0]["value"] is None
    assert "no group matches billing" in found["subjects"][0]["detail"]
    await catch_up(running, await fall_behind(running))
    assert (await state_of(running))["state"] == "ok"


async def test_a_pattern_stands_for_each_of_its_groups(running: App) -> None:
    await running.post("/alerts/rules", rule(group_pattern="bill*"), 201)
    await fall_behind(running)
    await running.receive("billboards", "orders", max=1)
    await running.receive("warehouse", "orders", max=1)
    found = await state_of(running)
    assert [one["subject"] for one in found["subjects"]] == ["billboards", "billing"]
    assert found["subjects_checked"] == 2


async def test_age_of_lag_fires_when_the_oldest_is_old_enough(running: App) -> None:
    await running.post("/alerts/rules", rule(kind="lag_age", threshold=300), 201)
    await fall_behind(running)
    assert (await state_of(running))["state"] == "ok"
    running.advance(301)
    assert (await state_of(running))["state"] == "firing"


async def test_new_dead_letters_fire_and_old_ones_do_not(running: App) -> None:
    await running.post("/groups", {"name": "billing", "retry_max": 0}, 201)

    async def give_up() -> None:
        (delivery,) = await fall_behind(running, 1)
        await running.post("/groups/billing/nack", {"nacks": [{"receipt": delivery["receipt"]}]})
        running.advance(1)

    await give_up()
    running.advance(120)
    body = rule(kind="dead_letters", window_s=120)
    await running.post("/alerts/rules", body, 201)
    assert (await state_of(running))["state"] == "ok"
    await give_up()
    found = await state_of(running)
    assert found["state"] == "firing"
    assert found["subjects"][0]["value"] == 1
    running.advance(130)
    assert (await state_of(running))["state"] == "ok"
    # A dismissed one needs nobody: neither the page nor a rule counts it.
    await give_up()
    await give_up()
    assert (await state_of(running))["subjects"][0]["value"] == 2
    letters = "/groups/billing/dead-letters"
    done = await running.post(f"{letters}/dismiss", {"offsets": ["2"], "note": "known"})
    (subject,) = (await state_of(running))["subjects"]
    assert subject["value"] == 1
    assert subject["detail"].endswith("1 more are resent or dismissed; 3 open in all")
    await running.post(f"{letters}/dismiss", {"note": "all"})
    assert (await state_of(running))["state"] == "ok"
    await running.post(f"{letters}/restore", {"dismissal": done["id"]})
    assert (await state_of(running))["state"] == "firing"


async def test_a_group_that_goes_while_rules_are_read_stops_none_of_them(
    running: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    await running.post("/groups", {"name": "billing", "retry_max": 0}, 201)
    (delivery,) = await fall_behind(running, 1)
    await running.post("/groups/billing/nack", {"nacks": [{"receipt": delivery["receipt"]}]})
    await running.post("/alerts/rules", rule(name="a"), 201)
    await running.post("/alerts/rules", rule(name="b", kind="dead_letters"), 201)
    await running.post("/alerts/rules", rule(name="c"), 201)
    broker = running.app.services.host.broker
    listed = broker.groups
    rounds: list[int] = []

    def groups() -> list[GroupConfig]:
        found = listed()
        rounds.append(len(found))
        if len(rounds) == 2:  # names and lags of the first rule are known, of the second names
            broker.delete_group("billing")
            broker.delete_topic("%DLQ%billing")
        return found

    monkeypatch.setattr(broker, "groups", groups)
    await running.app.services.alerts.evaluate()
    assert rounds == [1, 1, 0]


async def test_who_has_seen_a_firing_stands_there_until_it_is_over(running: App) -> None:
    await running.post("/alerts/rules", rule(threshold=2), 201)
    seen = {"rule_id": "1", "subject": "billing"}
    problem = await running.post("/alerts/acknowledge", seen, 409)
    assert problem["errors"][0]["field"] == "subject"
    deliveries = await fall_behind(running)
    assert (await state_of(running))["subjects"][0]["acknowledged_by"] is None
    first = await running.post("/alerts/acknowledge", seen)
    assert first["acknowledged_by"].startswith("anonymous@")
    assert first["acknowledged_ms"] == running.clock.now_ms()
    running.advance(60)
    (subject,) = (await state_of(running))["subjects"]
    assert (subject["state"], subject["acknowledged_ms"]) == ("firing", first["acknowledged_ms"])
    again = await running.post("/alerts/acknowledge", seen)
    assert again["acknowledged_ms"] == first["acknowledged_ms"]
    page = (await running.http.get("/alerts?format=json")).json()["subjects"]
    assert page[0]["acked_by"] == first["acknowledged_by"]
    entries = (await running.get("/audit?action=alert.acknowledge"))["items"]
    assert [json.loads(entries[0][side])["acked_by"] for side in ("before_json", "after_json")] == [
        None,
        first["acknowledged_by"],
    ]
    await catch_up(running, deliveries)
    assert (await state_of(running))["state"] == "ok"
    await fall_behind(running)
    assert (await state_of(running))["subjects"][0]["acknowledged_by"] is None
    await running.post("/alerts/acknowledge", {"rule_id": "9"}, 404)


async def test_no_data_fires_for_a_silent_topic_and_for_one_that_is_not_there(running: App) -> None:
    body = {"name": "silent", "kind": "no_data", "topic_pattern": "orders", "for_s": 0}
    await running.post("/alerts/rules", body | {"threshold": 60}, 201)
    found = await state_of(running)
    assert found["state"] == "firing"
    assert "no topic matches orders" in found["subjects"][0]["detail"]
    await running.send("orders", "x")
    assert (await state_of(running))["state"] == "ok"
    running.advance(61)
    assert (await state_of(running))["subjects"][0]["subject"] == "orders"


async def test_engine_warnings_fire_under_their_names(
    running: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    await running.post("/alerts/rules", {"name": "engine", "kind": "engine", "for_s": 0}, 201)
    assert (await state_of(running))["state"] == "ok"
    retention = running.app.services.host.broker.retention
    monkeypatch.setattr(retention, "warning", lambda: "the disk is nearly full")
    (subject,) = (await state_of(running))["subjects"]
    assert (subject["subject"], subject["detail"]) == ("retention", "the disk is nearly full")
    monkeypatch.undo()
    assert (await state_of(running))["state"] == "ok"


async def test_a_disk_that_cannot_be_asked_is_unknown_not_empty(
    running: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    await running.post("/alerts/rules", {"name": "disk", "kind": "disk", "threshold": 100}, 201)
    assert (await state_of(running))["state"] == "ok"

    def fail(_: object) -> None:
        raise OSError("the disk is away")

    monkeypatch.setattr("app.services.alerts.readings.shutil.disk_usage", fail)
    found = await state_of(running)
    assert found["state"] == "no_data"
    assert found["subjects"][0]["value"] is None


async def test_what_fires_is_told_once_and_once_more_when_it_is_over(start: Starter) -> None:
    async with start(alert_webhooks=(HOOK,)) as app:
        await app.post("/alerts/rules", rule(), 201)
        deliveries = await fall_behind(app)
        for _ in range(3):
            await evaluate(app)
            app.advance(10)
        assert await told(app) == [("firing", "billing")]
        await catch_up(app, deliveries)
        for _ in range(3):
            await evaluate(app)
        assert await told(app) == [("firing", "billing"), ("resolved", "billing")]
        (item, *_) = (await app.get("/alerts/deliveries"))["items"]
        assert item["webhook"] == "http://127.0.0.1:9"


async def test_a_restart_tells_nothing_twice_and_keeps_since_when_it_fires(start: Starter) -> None:
    async with start(alert_webhooks=(HOOK,)) as app:
        await app.post("/alerts/rules", rule(), 201)
        deliveries = await fall_behind(app)
        since_ms = (await state_of(app))["subjects"][0]["since_ms"]
    async with start(alert_webhooks=(HOOK,)) as app:
        app.clock.set_ms(since_ms + 60_000)
        assert (await app.get("/alerts"))["firing"] == 1  # before anything was evaluated
        found = await state_of(app)
        assert found["subjects"][0]["since_ms"] == since_ms
        assert await told(app) == [("firing", "billing")]
        app.advance(3_600)
        deliveries = await app.receive("billing", "orders", max=3)
        await catch_up(app, deliveries)
        await evaluate(app)
        assert await told(app) == [("firing", "billing"), ("resolved", "billing")]


async def test_a_change_that_cannot_be_written_is_not_taken_as_true(
    start: Starter, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with start(alert_webhooks=(HOOK,)) as app:
        await app.post("/alerts/rules", rule(), 201)
        await fall_behind(app)
        store = app.app.services.database._database.alerts

        def fail(_: object) -> None:
            from app.db.rows import DatabaseError

            raise DatabaseError("the disk is full")

        monkeypatch.setattr(store, "apply", fail)
        await app.app.services.alerts.evaluate()
        page = await app.get("/alerts")
        assert page["items"][0]["state"] == "ok"
        assert "the disk is full" in page["failure"]
        monkeypatch.undo()
        assert (await state_of(app))["state"] == "firing"
        assert await told(app) == [("firing", "billing")]


async def test_a_silenced_alert_is_told_when_the_silence_is_over(start: Starter) -> None:
    async with start(alert_webhooks=(HOOK,)) as app:
        made = await app.post("/alerts/rules", rule(), 201)
        until_ms = app.clock.now_ms() + 60_000
        body = {"rule_id": made["id"], "subject": "billing", "until_ms": until_ms}
        await app.post("/alerts/silences", body, 201)
        await fall_behind(app)
        found = await state_of(app)
        assert (found["state"], found["subjects"][0]["silenced"]) == ("firing", True)
        assert await told(app) == []
        app.advance(61)
        await evaluate(app)
        assert await told(app) == [("firing", "billing")]


async def test_a_silence_can_be_ended_before_its_time(running: App) -> None:
    made = await running.post("/alerts/rules", rule(), 201)
    until_ms = running.clock.now_ms() + 60_000
    silence = await running.post(
        "/alerts/silences", {"rule_id": made["id"], "until_ms": until_ms}, 201
    )
    assert len((await running.get("/alerts"))["silences"]) == 1
    path = f"/api/v1/alerts/silences/{silence['id']}"
    assert (await running.http.delete(path)).status_code == 204
    assert (await running.get("/alerts"))["silences"] == []
    assert (await running.http.delete(path)).status_code == 404


async def test_switching_a_rule_off_ends_what_it_stands_for(start: Starter) -> None:
    async with start(alert_webhooks=(HOOK,)) as app:
        made = await app.post("/alerts/rules", rule(), 201)
        await fall_behind(app)
        await evaluate(app)
        answer = await app.http.patch(f"/api/v1/alerts/rules/{made['id']}", json={"enabled": False})
        assert answer.json()["enabled"] is False
        found = await state_of(app)
        assert (found["state"], found["subjects"]) == ("ok", [])
        assert await told(app) == [("firing", "billing"), ("resolved", "billing")]


async def test_deleting_a_rule_takes_its_silences_and_is_audited(running: App) -> None:
    made = await running.post("/alerts/rules", rule(), 201)
    until_ms = running.clock.now_ms() + 60_000
    await running.post("/alerts/silences", {"rule_id": made["id"], "until_ms": until_ms}, 201)
    path = f"/api/v1/alerts/rules/{made['id']}"
    assert (await running.http.delete(path)).status_code == 204
    page = await running.get("/alerts")
    assert (page["items"], page["silences"]) == ([], [])
    assert (await running.http.get(path)).status_code == 404
    entries = (await running.get("/audit"))["items"]
    assert [entry["action"] for entry in entries[:3]] == [
        "alert_rule.delete",
        "alert.silence",
        "alert_rule.create",
    ]


async def test_rules_are_changed_listed_and_kept_over_a_restart(start: Starter) -> None:
    async with start() as app:
        made = await app.post("/alerts/rules", rule(), 201)
        path = f"/api/v1/alerts/rules/{made['id']}"
        assert (await app.http.patch(path, json={"threshold": 7})).json()["threshold"] == 7
    async with start() as app:
        (kept,) = (await app.get("/alerts/rules"))["items"]
        assert (kept["name"], kept["threshold"], kept["unit"]) == (
            "billing is behind",
            7,
            "messages",
        )


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"name": " "}, "name"),
        ({"kind": "disk", "threshold": 101}, "threshold"),
        ({"kind": "dead_letters", "window_s": 5}, "window_s"),
        ({"for_s": 10**6}, "for_s"),
        ({"group_pattern": ""}, "group_pattern"),
        ({"kind": "weather"}, "kind"),
    ],
)
async def test_a_rule_that_makes_no_sense_is_refused_at_its_field(
    running: App, changes: dict[str, object], field: str
) -> None:
    problem = await running.post("/alerts/rules", rule(**changes), 422)
    assert problem["errors"][0]["field"] == field
    assert (await running.get("/alerts/rules"))["items"] == []


async def test_two_rules_cannot_have_one_name(running: App) -> None:
    await running.post("/alerts/rules", rule(), 201)
    problem = await running.post("/alerts/rules", rule(), 409)
    assert problem["errors"][0]["field"] == "name"


async def test_a_test_without_a_webhook_says_what_to_set(running: App) -> None:
    problem = await running.post("/alerts/test", None, 409)
    assert "alert_webhooks" in json.dumps(problem)


async def test_more_subjects_than_memory_holds_are_counted_as_left_out(
    running: App, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("app.services.alerts.alerts.STATES_MAX", 3)
    await running.post("/alerts/rules", rule(name="all", group_pattern="*"), 201)
    await running.post("/alerts/rules", rule(name="some", group_pattern="group-?"), 201)
    await running.send("orders", "1")
    for number in range(4):
        await running.receive(f"group-{number}", "orders", max=1)
    for _ in range(2):
        first, second = await state_of(running), await state_of(running, 1)
        if first["rule_id"] != "1":  # what fires stands first
            first, second = second, first
        assert [one["subject"] for one in first["subjects"]] == ["group-0", "group-1", "group-2"]
        assert (first["subjects_left_out"], first["subjects_checked"]) == (1, 4)
        assert (second["subjects"], second["subjects_left_out"]) == ([], 4)
    messages = [each.getMessage() for each in caplog.records if each.name == "kitemq.alerts"]
    assert [message.partition(":")[0] for message in messages] == [
        "the alert rule 'all' does not watch 1 objects",
        "the alert rule 'some' does not watch 4 objects",
    ]
    assert "5 objects are not watched" in (await running.http.get("/")).text


async def test_what_is_fine_takes_no_room(running: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.services.alerts.alerts.STATES_MAX", 1)
    await running.post("/alerts/rules", rule(group_pattern="bil*"), 201)
    deliveries = await fall_behind(running)
    await running.receive("billboards", "orders", max=1)
    await running.post("/topics", {"name": "elsewhere"}, 201)
    for number in range(5):
        await running.receive(f"bildung-{number}", "elsewhere", max=1)
    one = await state_of(running)
    assert (one["subjects_checked"], one["subjects_left_out"]) == (7, 1)
    await catch_up(running, deliveries)
    await evaluate(running)
    one = await state_of(running)
    assert ([each["subject"] for each in one["subjects"]], one["subjects_left_out"]) == (
        ["billboards"],
        0,
    )


async def test_idle_groups_are_no_subjects_of_a_pattern(running: App) -> None:
    await running.post("/alerts/rules", rule(group_pattern="*", threshold=2), 201)
    for number in range(30):
        await running.post("/groups", {"name": f"idle-{number}"}, 201)
    one = await state_of(running)
    assert [each["detail"] for each in one["subjects"]] == ["no group reads a topic like * yet"]
    await fall_behind(running)
    one = await state_of(running)
    assert ([each["subject"] for each in one["subjects"]], one["subjects_checked"]) == (
        ["billing"],
        1,
    )


async def test_alerts_watch_every_group_however_many_there_are(running: App) -> None:
    await running.send("orders", "1")
    broker = running.app.services.host.broker
    for number in range(1_200):
        broker.receive(f"group-{number:04}", {"orders": "*"}, count_max=1)
    await running.post("/alerts/rules", rule(group_pattern="*"), 201)
    one = await state_of(running)
    assert (one["subjects_checked"], one["subjects_left_out"]) == (1_200, 0)
    assert one["subjects"][-1]["subject"] == "group-1199"
    assert {each["state"] for each in one["subjects"]} == {"firing"}


async def test_lengths_of_time_are_told_in_the_unit_that_people_say(running: App) -> None:
    await running.post("/alerts/rules", rule(kind="lag_age", threshold=300), 201)
    await fall_behind(running)
    running.advance(27 * 60)
    (subject,) = (await state_of(running))["subjects"]
    assert (subject["value"], subject["detail"]) == (1_620, "oldest unread message: 27 min")
