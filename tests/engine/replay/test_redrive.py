"""Dead letters sent again: to their group or their origin, what the copies look like, marks."""

import pytest

from engine.broker import (
    DeadLetterConditions,
    GroupConfig,
    Nack,
    NewReplay,
    ReplayTo,
    TopicConfig,
    TopicType,
)
from engine.errors import Conflict, Forbidden, GroupNotFound, Invalid, NotFound, TopicNotFound
from engine.events import Replayed
from engine.message import Message
from tests.engine.replay.conftest import Desk

DEAD = "%DLQ%g"


def test_a_redrive_to_the_group_reaches_that_group_only(dead):
    dead.broker.receive("other", {"orders": "*"}, count_max=100)
    job = dead.run()
    assert (job.state, job.totals, job.selected, job.examined) == (
        "finished",
        {"sent": 10},
        10,
        10,
    )
    assert dead.broker.receive("other", {"orders": "*"}, count_max=100) == []
    deliveries = dead.broker.receive("g", {"orders": "*"}, count_max=100)
    assert [each.message.body.decode() for each in deliveries] == list("0123456789")
    assert {each.attempt for each in deliveries} == {1}
    assert {each.message.origin_topic for each in deliveries} == {"orders"}
    dead.broker.ack("g", [each.receipt for each in deliveries])
    assert dead.broker.lag("g").count == 0


def test_a_redrive_to_the_origin_reaches_every_group(dead):
    dead.broker.receive("other", {"orders": "*"}, count_max=100)
    assert dead.run(to=ReplayTo.ORIGIN).totals == {"sent": 10}
    for group in ("g", "other"):
        assert len(dead.broker.receive(group, {"orders": "*"}, count_max=100)) == 10


@pytest.mark.parametrize("to", [ReplayTo.GROUP, ReplayTo.ORIGIN])
def test_a_copy_keeps_the_message_and_leaves_its_death_behind(dead, to):
    original = dead.all("orders")[3]
    job = dead.run(to=to, places=[(0, 3)])
    copy = dead.all("%RETRY%g" if to is ReplayTo.GROUP else "orders")[-1]
    assert (copy.body, copy.tag, copy.keys) == (b"3", "odd", ("k3",))
    assert (copy.message_id, copy.born_ms) == (original.message_id, original.born_ms)
    assert copy.properties["amount"] == "3"
    assert copy.attempt == 1
    assert not {name for name in copy.properties if name.startswith(("DLQ_", "KITE_ERROR"))}
    assert not {"KITE_REASON", "KITE_CLIENT"} & copy.properties.keys()
    assert copy.properties["KITE_REDRIVEN_JOB"] == job.id
    assert copy.properties["KITE_REDRIVEN_FROM"] == "%DLQ%g@0@3"
    assert copy.properties["KITE_REDRIVEN_TIMES"] == "1"
    assert copy.origin_topic == "orders"


@pytest.mark.parametrize("to", [ReplayTo.GROUP, ReplayTo.ORIGIN])
def test_what_dies_again_names_the_job_that_brought_it_back(dead, to):
    original = dead.all("orders")[3]
    job = dead.run(to=to, places=[(0, 3)])
    dead.kill(error="again")
    page = dead.broker.dead_letters.page("g")
    again = page.items[0]
    assert (page.count, again.error, again.redriven_from, again.redrive_count) == (
        11,
        "again",
        job.id,
        1,
    )
    assert (again.failures, again.origin_topic) == (1, "orders")
    if to is ReplayTo.GROUP:
        assert again.origin_id == original.offset_id
    assert page.items[7].redriven_by == [job.id]
    assert [each.redriven_by for each in page.items if each.redriven_by] == [[job.id]]
    second = dead.run(to=to, places=[(0, 10), (0, 3)])
    dead.kill()
    newest = dead.broker.dead_letters.page("g").items
    assert sorted(each.redrive_count for each in newest[:2]) == [1, 2]
    assert dead.broker.dead_letters.get("g", 3).redriven_by == [job.id, second.id]


def test_marks_survive_a_crash_and_a_restart(dead):
    job = dead.run(places=[(0, 1), (0, 8)])
    for go_on in (dead.engine.crash, dead.engine.restart):
        go_on()
        marked = [each.message.offset for each in dead.broker.dead_letters.page("g").items
                  if each.redriven_by == [job.id]]  # fmt: skip
        assert marked == [8, 1]


def test_only_fresh_ones_leaves_out_what_another_job_has_sent(dead):
    dead.run(places=[(0, 1), (0, 8)])
    job = dead.run(fresh_only=True)
    assert job.totals == {"sent": 8, "sent_before": 2}
    assert dead.labels(job.id)[1] == dead.labels(job.id)[8] == "sent_before"
    assert dead.run(fresh_only=True).totals == {"sent_before": 10}


@pytest.mark.parametrize(
    ("fields", "chosen"),
    [
        ({"filter": "even"}, "02468"),
        ({"filter": "even || odd"}, "0123456789"),
        ({"filter": "SQL92: amount > 6"}, "789"),
        ({"filter": "odd", "places": [(0, 1), (0, 2), (0, 9)]}, "19"),
        ({"ranges": [(0, 2, 5), (0, 4, 6)]}, "2345"),
        ({"ranges": [(0, 8, 99)]}, "89"),
        ({"reason": "rejected"}, "0123456789"),
        ({"reason": "attempts_exhausted"}, ""),
        ({"origin_topic": "orders"}, "0123456789"),
        ({"origin_topic": "bills"}, ""),
    ],
)
def test_a_filter_chooses(dead, fields, chosen):
    job = dead.run(**fields)
    assert dead.bodies("%RETRY%g") == list(chosen) if chosen else True
    assert job.totals.get("sent", 0) == len(chosen)
    assert sum(job.totals.values()) == job.selected
    labels = dead.labels(job.id)
    assert len(labels) == job.selected
    assert labels.count("sent") == len(chosen)


def test_a_time_range_is_by_when_they_died(desk, send):
    times = []
    for number in range(6):
        send(str(number))
        times.append(desk.engine.clock.now_ms())
        desk.kill()
        desk.engine.tick(1)
    job = desk.run(from_ms=times[2], to_ms=times[5])
    assert job.selected == 3
    assert desk.bodies("%RETRY%g") == ["2", "3", "4"]


def test_what_dies_later_is_not_swept_in(dead, send):
    job = dead.redrive(rate=5)
    send("later")
    dead.kill()
    while dead.broker.replays.get(job.id).state == "running":
        dead.engine.tick(0.2)
    assert dead.broker.replays.get(job.id).totals == {"sent": 10}
    assert "later" in [
        each.message.body.decode() for each in dead.broker.dead_letters.page("g").items
    ]
    assert dead.bodies("%RETRY%g") == list("0123456789")


def test_each_message_is_told_with_its_outcome(dead):
    heard = []
    dead.broker.events.subscribe(heard.append)
    job = dead.run(filter="odd")
    told = [event for event in heard if isinstance(event, Replayed)]
    assert [event.offset for event in told] == [1, 3, 5, 7, 9]
    assert {(event.job, event.topic, event.outcome, event.to_topic) for event in told} == {
        (job.id, DEAD, "sent", "%RETRY%g")
    }
    assert all(event.message_id for event in told)


def test_a_topic_that_is_gone_or_closed_is_an_outcome_for_each(dead):
    dead.broker.create_topic(TopicConfig("bills"))
    dead.broker.send([Message("bills", b"b")])
    dead.kill("bills")
    dead.broker.delete_topic("bills")
    for to in (ReplayTo.GROUP, ReplayTo.ORIGIN):
        job = dead.run(to=to)
        assert job.totals == {"sent": 10, "topic_gone": 1}
        assert dead.labels(job.id)[-1] == "topic_gone"
    dead.broker.change_topic("orders", permission=4)
    assert dead.run(to=ReplayTo.ORIGIN).totals == {"not_writable": 10, "topic_gone": 1}


def test_a_group_that_is_deleted_meanwhile_is_an_outcome(dead):
    job = dead.redrive(rate=4)
    dead.engine.tick()
    dead.broker.delete_group("g")
    dead.engine.tick(1)
    while dead.broker.replays.get(job.id).state == "running":
        dead.engine.tick(0.3)
    totals = dead.broker.replays.get(job.id).totals
    assert totals == {"sent": 1, "group_gone": 9}


def test_a_dead_letter_without_an_origin_says_so(dead):
    dead.broker.send([Message(DEAD, b"by hand")])
    assert dead.run(to=ReplayTo.ORIGIN, places=[(0, 10)]).totals == {"no_origin": 1}
    assert dead.run(places=[(0, 10)]).totals == {"no_origin": 1}
    dead.broker.create_topic(TopicConfig("lost"))
    job = dead.run(to=ReplayTo.TOPIC, to_name="lost", places=[(0, 10)])
    assert job.totals == {"sent": 1}


def test_a_fifo_topic_refuses_what_has_no_message_group(dead):
    dead.broker.create_topic(TopicConfig("steps", type=TopicType.FIFO))
    job = dead.run(to=ReplayTo.TOPIC, to_name="steps")
    assert job.totals == {"refused": 10}
    assert "message group" in job.last_error


def test_redriven_members_of_a_message_group_keep_their_order(desk):
    desk.broker.create_topic(
        TopicConfig("steps", type=TopicType.FIFO, read_queues=4, write_queues=4)
    )
    desk.broker.send([
        Message("steps", f"{group}{number}".encode(), message_group=group)
        for number in range(20) for group in ("a", "b", "c")
    ])  # fmt: skip
    desk.kill("steps")
    assert desk.run(to=ReplayTo.ORIGIN, rate=0).totals == {"sent": 60}
    seen = {"a": [], "b": [], "c": []}
    while deliveries := desk.broker.receive("g", {"steps": "*"}, count_max=100):
        for each in deliveries:
            body = each.message.body.decode()
            seen[body[0]].append(int(body[1:]))
        desk.broker.ack("g", [each.receipt for each in deliveries])
    assert set(map(tuple, seen.values())) == {tuple(range(20))}


def test_properties_without_room_for_the_jobs_note_are_refused_and_the_others_go(
    desk, no_room_kept
):
    long = {f"p{number:03}": "x" * 302 for number in range(106)}
    for number in range(30):
        properties = long if number == 17 else {}
        desk.broker.send([Message("orders", b"%d" % number, properties=properties)])
    job = desk.run(source="orders", to=ReplayTo.GROUP, to_name="g")
    assert job.totals == {"sent": 29, "refused": 1}
    assert "properties" in job.last_error
    assert desk.labels(job.id)[17] == "refused"
    assert desk.run(source="orders", to_name="g", dry_run=True).totals == {
        "eligible": 29,
        "refused": 1,
    }


def test_a_batch_or_a_copy_that_fits_no_segment_holds_nothing_up(engine):
    engine.start(segment_bytes=64 * 1024)
    desk = Desk(engine)
    desk.broker.create_topic(TopicConfig("orders", read_queues=1, write_queues=1))
    desk.broker.create_group(GroupConfig("g"))
    for number in range(60):
        size = 64 * 1024 - 200 if number == 40 else 3000
        desk.broker.send([Message("orders", bytes([65 + number]) * size)])
    job = desk.run(source="orders", to_name="g")
    assert job.totals == {"sent": 59, "refused": 1}
    assert desk.labels(job.id)[40] == "refused"
    assert [body[0] for body in desk.bodies("%RETRY%g")] == [
        chr(65 + number) for number in range(60) if number != 40
    ]


@pytest.mark.parametrize(
    ("fields", "error", "field"),
    [
        ({"source": "nowhere"}, TopicNotFound, "topic"),
        ({"source": "SCHEDULE_TOPIC_XXXX"}, Forbidden, "source"),
        ({"to_name": "nobody"}, GroupNotFound, "to_name"),
        ({"source": "orders"}, Invalid, "to_name"),
        ({"to": ReplayTo.TOPIC}, Invalid, "to_name"),
        ({"to": ReplayTo.TOPIC, "to_name": "nowhere"}, TopicNotFound, "topic"),
        ({"to": ReplayTo.TOPIC, "to_name": "%DLQ%g"}, Forbidden, "to_name"),
        ({"filter": "SQL92: >"}, Invalid, "filter"),
        ({"rate": -1.0}, Invalid, "rate"),
        ({"rate": float("nan")}, Invalid, "rate"),
        ({"places": [(0, 10)]}, Invalid, "places"),
        ({"places": [(1, 0)]}, NotFound, "places"),
        ({"places": [(0, 0)], "ranges": [(0, 0, 1)]}, Invalid, "places"),
        ({"places": [(0, 0)] * 10_001}, Invalid, "places"),
        ({"ranges": [(0, 2, 1)]}, Invalid, "ranges"),
        ({"from_ms": 2, "to_ms": 1}, Invalid, "to_ms"),
        ({"name": "a\nb"}, Invalid, "name"),
    ],
)
def test_what_is_wrong_with_a_new_job_is_said_with_its_field(dead, fields, error, field):
    with pytest.raises(error) as caught:
        dead.redrive(**fields)
    assert caught.value.field == field
    assert caught.value.remedy
    assert dead.broker.replays.list() == []


def test_a_job_that_is_unknown_or_over_is_refused(dead):
    job = dead.run()
    for verb in (dead.broker.replays.pause, dead.broker.replays.resume, dead.broker.replays.stop):
        with pytest.raises(Conflict):
            verb(job.id)
        with pytest.raises(NotFound) as caught:
            verb("nonsense")
        assert caught.value.code == "replay_not_found"
    with pytest.raises(Conflict):
        dead.broker.replays.change_rate(job.id, 1)


def test_a_nack_after_a_redrive_retries_as_often_as_at_first(dead):
    dead.broker.change_group("g", retry_max=1)
    dead.run(places=[(0, 0)])
    for attempt in (1, 2):
        (delivery,) = dead.broker.receive("g", {"orders": "*"})
        assert delivery.attempt == attempt
        dead.broker.nack("g", [Nack(delivery.receipt)])
        dead.engine.tick(10)
    assert dead.broker.dead_letters.page("g").count == 11


def test_dead_letters_are_listed_with_their_cause_newest_first(dead, send):
    dead.broker.create_group(GroupConfig("h", retry_max=0))
    page = dead.broker.dead_letters.page("g", count_max=4)
    assert [each.message.body.decode() for each in page.items] == list("9876")
    assert (page.count, page.next) == (10, 6)
    first = page.items[0]
    assert (first.reason, first.error, first.client) == ("rejected", "boom", "worker-1")
    assert (first.failures, first.origin_topic) == (1, "orders")
    assert first.origin_id == dead.all("orders")[9].offset_id
    rest = dead.broker.dead_letters.page("g", after=page.next, count_max=100)
    assert [each.message.body.decode() for each in rest.items] == list("543210")
    assert rest.next is None
    odd = dead.broker.dead_letters.page(
        "g", DeadLetterConditions(filter="odd", reason="rejected", topic="orders")
    )
    assert [each.message.body.decode() for each in odd.items] == list("97531")
    exhausted = DeadLetterConditions(reason="attempts_exhausted")
    assert dead.broker.dead_letters.page("g", exhausted).items == []
    assert dead.broker.dead_letters.page("h").count == 0
    with pytest.raises(GroupNotFound):
        dead.broker.dead_letters.page("nobody")


def test_dead_letters_are_counted_by_cause(dead, send):
    job = dead.run(places=[(0, 0), (0, 1)])
    dead.kill(error="again")
    tally = dead.broker.dead_letters.tally("g")
    assert (tally.examined, tally.next) == (12, None)
    assert (tally.reasons, tally.topics) == ({"rejected": 12}, {"orders": 12})
    assert tally.clients == {"worker-1": 12}
    assert (tally.redriven, tally.returned) == (2, 2)
    assert dead.broker.dead_letters.page("g").items[0].redriven_from == job.id


def test_dead_letters_outlive_their_group(dead):
    dead.broker.delete_group("g")
    assert dead.broker.dead_letters.page("g").count == 10
    with pytest.raises(GroupNotFound):
        dead.redrive()
    assert dead.run(to=ReplayTo.ORIGIN).totals == {"sent": 10}


def test_a_request_may_not_set_what_a_job_writes(dead):
    with pytest.raises(Invalid):
        dead.broker.send([Message("orders", b"x", properties={"KITE_REDRIVEN_JOB": "x"})])
    assert NewReplay(source=DEAD, to=ReplayTo.GROUP).rate == 100


def test_purged_dead_letters_count_as_expired_and_later_ones_are_no_part_of_the_job(dead, send):
    job = dead.redrive(rate=1)
    dead.engine.tick()
    dead.broker.retention.purge(DEAD, everything=True)
    dead.engine.crash()
    send("later")
    dead.kill()
    for _ in range(10):
        dead.engine.tick(1)
    assert dead.broker.replays.get(job.id).state == "finished"
    totals = dead.broker.replays.get(job.id).totals
    assert totals["expired"] >= 8
    assert sum(totals.values()) == 10
    assert "later" not in dead.bodies("%RETRY%g")
    (letter, *_) = dead.broker.dead_letters.page("g").items
    assert letter.message.offset >= 10
    assert letter.redriven_by == []
