"""A topic's messages sent again, dry runs, pace, pause and stop, and what waits for room."""

import pytest

from engine.broker import NewReplay, ReplayTo, TopicConfig
from engine.errors import Busy, Conflict, Invalid
from engine.message import Message
from engine.replay import job_store, selection_planner
from engine.replay.rate import Rate

PER_S = 50.0


@pytest.fixture
def copies(desk):
    desk.broker.create_topic(TopicConfig("copies", read_queues=3, write_queues=3))
    desk.broker.create_topic(TopicConfig("wide", read_queues=3, write_queues=3))
    return desk


def fill(desk, count, topic="orders", queue=0, **fields):
    for start in range(0, count, 500):
        numbers = range(start, min(count, start + 500))
        desk.broker.send([Message(topic, b"%d" % each, queue=queue, **fields) for each in numbers])


def replay(desk, topic="orders", **fields):
    return desk.run(source=topic, to=ReplayTo.TOPIC, to_name="copies", **fields)


def test_a_replay_into_another_topic_keeps_queues_and_their_order(copies):
    for queue in range(3):
        fill(copies, 250, "wide", queue, keys=(f"q{queue}",))
    job = replay(copies, "wide")
    assert job.totals == {"sent": 750}
    for queue in range(3):
        pulled = [each for each in copies.all("copies") if each.queue == queue]
        assert [int(each.body) for each in pulled] == list(range(250))
        assert {each.keys for each in pulled} == {(f"q{queue}",)}
    first = copies.all("copies")[0]
    assert first.message_id == copies.all("wide")[0].message_id
    assert first.properties["KITE_REDRIVEN_FROM"] == "wide@0@0"


def test_a_message_group_goes_to_the_queue_that_is_its_own(copies):
    copies.broker.send([Message("orders", b"%d" % each, message_group="g7") for each in range(9)])
    copies.broker.send([Message("copies", b"x", message_group="g7")])
    replay(copies)
    assert len({each.queue for each in copies.all("copies")}) == 1


def test_a_replay_into_its_own_topic_ends(desk):
    fill(desk, 150)
    assert desk.run(source="orders", to=ReplayTo.ORIGIN).totals == {"sent": 150}
    assert [int(body) for body in desk.bodies("orders")] == [*range(150), *range(150)]


def test_a_dry_run_foretells_the_real_one_and_sends_nothing(copies):
    fill(copies, 1200, properties={"amount": "5"})
    fill(copies, 300, properties={"amount": "7"})
    dry = replay(copies, filter="SQL92: amount = 7", dry_run=True)
    assert (dry.dry_run, dry.state, dry.examined) == (True, "finished", 1500)
    assert dry.totals == {"filtered": 1200, "eligible": 300}
    assert copies.bodies("copies") == []
    assert copies.labels(dry.id) == ["filtered"] * 1200 + ["eligible"] * 300
    fill(copies, 100, properties={"amount": "7"})
    copies.broker.replays.begin(dry.id)
    copies.engine.tick()
    done = copies.broker.replays.get(dry.id)
    assert (done.dry_run, done.totals) == (False, {"filtered": 1200, "sent": 300})
    assert len(copies.bodies("copies")) == 300
    with pytest.raises(Conflict):
        copies.broker.replays.begin(dry.id)


def test_a_dry_run_goes_on_after_a_crash_with_the_same_selection(copies):
    fill(copies, 1000)
    dry = copies.redrive(source="orders", to=ReplayTo.TOPIC, to_name="copies", dry_run=True)
    copies.broker.tick()
    assert 0 < copies.broker.replays.get(dry.id).examined < 1000
    copies.broker._store.journal.compact()
    copies.engine.crash()
    fill(copies, 10)
    copies.engine.tick()
    assert copies.broker.replays.get(dry.id).totals == {"eligible": 1000}


def test_a_dry_run_leaves_no_marks(dead):
    dead.run(dry_run=True)
    assert not any(each.redriven_by for each in dead.broker.dead_letters.page("g").items)


@pytest.mark.parametrize("rate", [3.0, 50.0, 2500.0])
def test_the_rate_is_kept_by_the_clock(copies, rate):
    fill(copies, int(rate * 6))
    job = copies.redrive(source="orders", to=ReplayTo.TOPIC, to_name="copies", rate=rate)
    clock, sent = copies.engine.clock, []
    start = clock.monotonic_s()
    while clock.monotonic_s() - start < 4:
        wait_s = copies.broker.tick()
        done = copies.broker.replays.get(job.id).totals.get("sent", 0)
        sent.append((clock.monotonic_s() - start, done))
        clock.advance(max(wait_s, 0.001))
    for at_s, done in sent:
        assert done <= rate * at_s + max(1.0, rate * 0.1) + 1
    assert sent[-1][1] >= rate * 4 * 0.95 - 1
    left = copies.broker.replays.get(job.id)
    assert left.seconds_left == pytest.approx((left.selected - left.examined) / rate, abs=0.1)


def test_there_is_no_burst_after_a_pause(copies):
    fill(copies, 1000)
    job = copies.redrive(source="orders", to=ReplayTo.TOPIC, to_name="copies", rate=PER_S)
    copies.engine.tick(1)
    copies.broker.replays.pause(job.id)
    sent = copies.broker.replays.get(job.id).totals["sent"]
    copies.engine.tick(100)
    assert copies.broker.replays.get(job.id).totals == {"sent": sent, "pending": 1000 - sent}
    copies.broker.replays.resume(job.id)
    copies.engine.tick()
    assert copies.broker.replays.get(job.id).totals["sent"] == sent + 1
    copies.engine.tick(100)
    assert copies.broker.replays.get(job.id).totals["sent"] <= sent + 1 + PER_S * 0.1


def test_the_rate_can_be_changed_under_way_and_lifted(copies):
    fill(copies, 1000)
    job = copies.redrive(source="orders", to=ReplayTo.TOPIC, to_name="copies", rate=0.1)
    copies.engine.tick()
    assert copies.broker.replays.get(job.id).totals["sent"] == 1
    assert copies.broker.replays.change_rate(job.id, 0).rate == 0
    copies.engine.tick()
    assert copies.broker.replays.get(job.id).state == "finished"


def test_a_paused_job_stays_paused_over_a_crash_and_goes_on_when_told(copies):
    fill(copies, 100)
    job = copies.redrive(source="orders", to=ReplayTo.TOPIC, to_name="copies", rate=PER_S)
    copies.engine.tick(1)
    copies.broker.replays.pause(job.id)
    before = copies.broker.replays.get(job.id)
    copies.engine.crash()
    copies.engine.tick(5)
    assert copies.broker.replays.get(job.id) == before
    copies.broker.replays.resume(job.id)
    copies.broker.replays.change_rate(job.id, 0)
    copies.engine.tick()
    assert copies.broker.replays.get(job.id).totals == {"sent": 100}
    assert [int(body) for body in sorted(copies.bodies("copies"), key=int)] == list(range(100))


def test_what_a_stopped_job_did_not_send_it_never_does(copies):
    fill(copies, 100)
    job = copies.redrive(source="orders", to=ReplayTo.TOPIC, to_name="copies", rate=PER_S)
    copies.engine.tick(1)
    stopped = copies.broker.replays.stop(job.id)
    sent = stopped.totals["sent"]
    assert stopped.totals == {"sent": sent, "stopped": 100 - sent}
    assert stopped.ended_ms == copies.engine.clock.now_ms()
    copies.engine.restart()
    copies.engine.tick(100)
    assert copies.broker.replays.get(job.id) == stopped
    assert len(copies.bodies("copies")) == sent
    labels = copies.labels(job.id)
    assert labels == ["sent"] * sent + ["stopped"] * (100 - sent)
    with pytest.raises(Conflict):
        copies.broker.replays.resume(job.id)


def test_jobs_take_turns(copies):
    fill(copies, 3000)
    jobs = [copies.redrive(source="orders", to=ReplayTo.TOPIC, to_name="copies") for _ in range(3)]
    for _ in range(6):
        copies.broker.tick()
    done = [copies.broker.replays.get(job.id).examined for job in jobs]
    assert done == [200, 200, 200]


@pytest.mark.parametrize(("field", "value"), [("_free_bytes", -1), ("crowding", "it is not free")])
def test_a_job_waits_for_room_and_says_so(copies, monkeypatch, field, value):
    fill(copies, 10)
    job = copies.redrive(source="orders", to=ReplayTo.TOPIC, to_name="copies")
    monkeypatch.setattr(copies.broker._store, field, value)
    for _ in range(3):
        copies.engine.clock.advance(0.5)
        copies.broker._parts.replay._runner.run(copies.engine.clock.monotonic_s())
    waiting = copies.broker.replays.get(job.id)
    assert (waiting.state, waiting.totals) == ("running", {"pending": 10})
    assert "free" in waiting.waiting
    assert "replays" not in copies.broker.health().failures
    for _ in range(2):  # the disk is measured first, then the job tries again
        copies.engine.tick(10)
    done = copies.broker.replays.get(job.id)
    assert (done.waiting, done.totals) == ("", {"sent": 10})


def test_a_source_that_is_deleted_meanwhile_counts_as_expired(copies):
    fill(copies, 10)
    job = copies.redrive(source="orders", to=ReplayTo.TOPIC, to_name="copies", rate=1)
    copies.engine.tick()
    copies.broker.delete_topic("orders")
    copies.broker.create_topic(TopicConfig("orders", read_queues=1, write_queues=1))
    fill(copies, 50)
    copies.broker.replays.change_rate(job.id, 0)
    copies.engine.tick()
    assert copies.broker.replays.get(job.id).totals == {"sent": 1, "expired": 9}
    assert copies.bodies("copies") == ["0"]


def test_outcomes_are_found_by_name_page_by_page(copies):
    fill(copies, 9000)
    fill(copies, 20, tag="x")
    fill(copies, 5000)
    job = replay(copies, filter="x")
    assert job.totals == {"filtered": 14000, "sent": 20}
    found, after = [], -1
    while after is not None:
        page = copies.broker.replays.outcomes(job.id, outcome="sent", after=after, count_max=6)
        found += [row.index for row in page.items]
        after = page.next
    assert found == list(range(9000, 9020))
    page = copies.broker.replays.outcomes(job.id, after=9018, count_max=2)
    assert [row.outcome for row in page.items] == ["sent", "filtered"]
    assert copies.broker.replays.outcomes(job.id, outcome="refused").items == []


def test_a_page_of_outcomes_names_the_message_and_where_it_went(copies):
    fill(copies, 3, tag="x", keys=("k",))
    job = replay(copies)
    rows = copies.broker.replays.outcomes(job.id).items
    assert [(row.queue, row.offset, row.outcome) for row in rows] == [
        (0, 0, "sent"),
        (0, 1, "sent"),
        (0, 2, "sent"),
    ]
    assert rows[0].message_id == copies.all("copies")[0].message_id
    assert (rows[0].tag, rows[0].keys, rows[0].to_topic) == ("x", ("k",), "copies")


def test_large_bodies_are_taken_in_small_bites(copies):
    copies.broker.send([Message("orders", b"x" * 700_000, queue=0) for _ in range(4)])
    job = copies.redrive(source="orders", to=ReplayTo.TOPIC, to_name="copies")
    copies.broker.tick()
    assert copies.broker.replays.get(job.id).examined == 1
    copies.engine.tick()
    assert copies.broker.replays.get(job.id).totals == {"sent": 4}
    assert copies.labels(job.id) == ["sent"] * 4


def test_the_oldest_jobs_that_are_over_are_forgotten(copies, monkeypatch):
    monkeypatch.setattr(job_store, "JOBS_MAX", 3)
    fill(copies, 2)
    first = copies.redrive(source="orders", to=ReplayTo.TOPIC, to_name="copies", rate=0.001)
    others = [replay(copies) for _ in range(4)]
    kept = [job.id for job in copies.broker.replays.list()]
    assert kept == [others[3].id, others[2].id, first.id]
    copies.engine.crash()
    assert [job.id for job in copies.broker.replays.list()] == kept


def test_jobs_that_take_too_much_memory_are_forgotten_early(copies, monkeypatch):
    monkeypatch.setattr(job_store, "JOBS_BYTES_MAX", 1000)
    fill(copies, 100)
    for _ in range(5):
        replay(copies, places=[(0, offset) for offset in range(0, 20, 2)])
    assert len(copies.broker.replays.list()) < 3


def test_too_many_jobs_under_way_are_refused(copies, monkeypatch):
    monkeypatch.setattr(job_store, "UNFINISHED_MAX", 2)
    fill(copies, 2)
    for _ in range(2):
        copies.redrive(source="orders", to=ReplayTo.TOPIC, to_name="copies", rate=0.001)
    with pytest.raises(Busy):
        copies.redrive(source="orders", to=ReplayTo.TOPIC, to_name="copies")


def test_too_many_messages_are_refused(copies, monkeypatch):
    monkeypatch.setattr(selection_planner, "SELECTED_MAX", 5)
    fill(copies, 6)
    with pytest.raises(Exception, match="6 messages are selected"):
        replay(copies)


def test_jobs_are_listed_newest_first_by_source_and_state(copies):
    fill(copies, 2)
    fill(copies, 2, "wide")
    first, second = replay(copies), replay(copies, "wide")
    listed = copies.broker.replays.list
    assert [job.id for job in listed()] == [second.id, first.id]
    assert [job.id for job in listed(after=second.id)] == [first.id]
    assert [job.id for job in listed(source="orders")] == [first.id]
    assert listed(state="running") == []
    assert len(listed(state="finished", count_max=1)) == 1
    with pytest.raises(Invalid):
        listed(state="lost")


def test_a_job_over_nothing_is_finished_at_once(copies):
    job = copies.broker.replays.create(
        NewReplay(source="orders", to=ReplayTo.TOPIC, to_name="copies")
    )
    assert (job.state, job.selected, job.totals) == ("finished", 0, {})
    assert job.ended_ms


def test_a_rate_fills_no_further_than_a_tenth_of_a_second():
    rate = Rate(100.0, 0.0)
    assert rate.allowed(0.0, 50) == 1
    rate.spend(1)
    assert rate.wait_s() == 0.02
    assert rate.allowed(60.0, 50) == 10
    assert Rate(0, 0.0).allowed(0.0, 50) == 50
