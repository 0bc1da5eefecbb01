"""What failed in a job is tried again: these messages and no others, linked both ways."""

import pytest

from engine.broker import NewReplay, ReplayTo, RetryRequest, TopicConfig, TopicType
from engine.errors import Conflict, NotFound, Refused, TopicNotFound
from engine.message import Message
from engine.replay import job_commands, outcomes


def retry(desk, job, **how):
    """As the service does: gather what failed piece by piece, then order the new job."""
    runs, start = [], 0
    while start is not None:
        found = desk.broker.replays.failed(job.id, start)
        runs += found.runs
        start = found.next
    created = desk.broker.replays.retry(job.id, runs, RetryRequest(rate=0, **how))
    desk.engine.tick()
    return desk.broker.replays.get(created.id)


@pytest.fixture
def half(dead):
    """A job over ten dead letters of which four failed: their topic is gone."""
    broker = dead.broker
    broker.create_topic(TopicConfig("gone", read_queues=1, write_queues=1))
    broker.send([Message("gone", b"g%d" % number) for number in range(4)])
    dead.kill("gone")
    broker.delete_topic("gone")
    job = dead.run(to=ReplayTo.ORIGIN)
    assert job.totals == {"sent": 10, "topic_gone": 4}
    assert job.failed == 4
    return dead, job


def test_exactly_what_failed_is_tried_again(half):
    desk, job = half
    desk.broker.create_topic(TopicConfig("gone", read_queues=1, write_queues=1))
    again = retry(desk, job, name="once more")
    assert (again.selected, again.totals) == (4, {"sent": 4})
    assert desk.bodies("gone") == [f"g{number}" for number in range(4)]
    assert len(desk.bodies("orders")) == 20  # those that were sent are not sent again
    rows = desk.broker.replays.outcomes(again.id).items
    assert [row.offset for row in rows] == [10, 11, 12, 13]


def test_both_jobs_name_each_other_also_after_a_restart_and_a_compaction(half):
    desk, job = half
    first, second = retry(desk, job, dry_run=True), retry(desk, job)
    for is_compacted in (False, True):
        if is_compacted:
            desk.broker._store.journal.compact()
            desk.engine.tick()
        desk.engine.restart()
        assert desk.broker.replays.get(job.id).retried_by == (first.id, second.id)
        assert desk.broker.replays.get(second.id).retry_of == job.id
        assert desk.broker.replays.get(second.id).totals == {"topic_gone": 4}


def test_what_failed_may_go_elsewhere(half):
    desk, job = half
    desk.broker.create_topic(TopicConfig("copies", read_queues=1, write_queues=1))
    again = retry(desk, job, to=ReplayTo.TOPIC, to_name="copies")
    assert again.totals == {"sent": 4}
    assert len(desk.bodies("copies")) == 4
    with pytest.raises(TopicNotFound):
        retry(desk, job, to=ReplayTo.TOPIC, to_name="nowhere")


def test_a_retry_may_fail_and_be_tried_again(half):
    desk, job = half
    again = retry(desk, job)
    assert again.totals == {"topic_gone": 4}
    third = retry(desk, again)
    assert (third.retry_of, third.selected) == (again.id, 4)


def test_what_failed_is_not_sent_twice_however_often_it_is_tried_again(half):
    desk, job = half
    early = retry(desk, job, dry_run=True)
    desk.broker.create_topic(TopicConfig("gone", read_queues=1, write_queues=1))
    runs = desk.broker.replays.failed(job.id).runs
    slow = desk.broker.replays.retry(job.id, runs, RetryRequest(rate=0.001))
    desk.engine.tick()
    with pytest.raises(Conflict, match="trying the same again"):
        retry(desk, job)
    with pytest.raises(Conflict, match="trying the same again"):
        desk.broker.replays.begin(early.id)
    desk.broker.replays.stop(slow.id)
    sent = desk.broker.replays.get(slow.id).totals.get("sent", 0)
    with pytest.raises(Conflict, match="since this dry run"):
        desk.broker.replays.begin(early.id)
    again = retry(desk, job)
    assert (sent, again.totals["sent"]) == (1, 3)
    assert desk.bodies("gone") == [f"g{number}" for number in range(4)]


def test_there_must_be_something_that_failed(half):
    desk, _ = half
    fine = desk.run(places=[(0, 1)])
    dry = desk.run(places=[(0, 11)], to=ReplayTo.ORIGIN, dry_run=True)
    slow = desk.redrive(places=[(0, 11), (0, 1), (0, 2)], to=ReplayTo.ORIGIN, rate=0.001)
    for each in (fine, dry, slow):
        with pytest.raises(Conflict):
            desk.broker.replays.failed(each.id)
    with pytest.raises(NotFound):
        desk.broker.replays.retry("123", [], RetryRequest())


def test_failures_are_found_over_chunks_and_steps(desk, monkeypatch):
    monkeypatch.setattr(outcomes, "CHUNK", 16)
    monkeypatch.setattr(job_commands, "SEARCHED_MAX", 50)
    desk.broker.create_topic(TopicConfig("plain", read_queues=1, write_queues=1))
    desk.broker.create_topic(
        TopicConfig("fifo", type=TopicType.FIFO, read_queues=1, write_queues=1)
    )
    bad = [number for number in range(200) if number % 7 == 3 or 60 <= number < 90]
    for number in range(200):
        group = "" if number in bad else "g"
        desk.broker.send([Message("plain", b"%d" % number, message_group=group)])
    job = desk.broker.replays.create(
        NewReplay(source="plain", to=ReplayTo.TOPIC, to_name="fifo", rate=0)
    )
    desk.engine.tick()
    job = desk.broker.replays.get(job.id)
    assert job.totals == {"sent": 200 - len(bad), "refused": len(bad)}
    again = retry(desk, job)
    rows, after = [], -1
    while after is not None:
        page = desk.broker.replays.outcomes(again.id, after=after)
        rows += [row.offset for row in page.items]
        after = page.next
    assert rows == bad
    monkeypatch.setattr(job_commands, "RETRIED_RUNS_MAX", 3)
    with pytest.raises(Refused, match="more than 3 stretches"):
        retry(desk, job)
