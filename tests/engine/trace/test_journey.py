"""The journey of a message says all that happened to it, in order, also after restarts."""

import pytest

from engine.broker import GroupConfig, Nack, NewReplay, ReplayTo, TopicConfig, TopicType
from engine.errors import Invalid, TopicNotFound
from engine.message import Message
from engine.trace import finder

SENT = ["produce stored", "store stored"]


def send(engine, topic="orders", body=b"x", **fields):
    sent = engine.broker.send([Message(topic, body, queue=0, **fields)])
    return sent.stored[0].message_id


def receive(engine, client="c1", *, group="g", topic="orders", filter="*", **fields):
    return engine.broker.receive(group, {topic: filter}, client=client, **fields)


def ack(engine, deliveries, group="g"):
    engine.broker.ack(group, [each.receipt for each in deliveries])


def nack(engine, deliveries, group="g", client="c1", **fields):
    engine.broker.nack(group, [Nack(each.receipt, **fields) for each in deliveries], client)


def test_a_plain_message_was_produced_stored_delivered_and_acknowledged(engine, broker, tell):
    message_id = send(engine, born_ms=engine.clock.now_ms() - 5, born_host="10.0.0.7:4000")
    engine.tick(2)
    deliveries = receive(engine)
    engine.tick(3)
    ack(engine, deliveries)
    journey = broker.traces.journey(message_id)
    assert tell(message_id) == [*SENT, "wait delivered g", "delivery acked g c1 1"]
    produce, _, wait, delivery = journey.stages
    assert produce.client == "10.0.0.7:4000"
    assert produce.until_ms - produce.at_ms == 5
    assert wait.until_ms - wait.at_ms == 2000
    assert delivery.until_ms - delivery.at_ms == 3000
    assert [(each.group, each.state, each.deliveries) for each in journey.groups] == [
        ("g", "done", 1)
    ]
    assert (journey.topic, journey.complete) == ("orders", True)


def test_a_message_that_is_handed_out_among_many_has_its_own_journey(engine, broker, tell):
    sent = broker.send([Message("orders", b"x", queue=0) for _ in range(100)])
    deliveries = receive(engine, count_max=100)
    engine.tick(1)
    ack(engine, deliveries[:99])
    first, *_, last = (each.message_id for each in sent.stored)
    assert tell(first) == [*SENT, "wait delivered g", "delivery acked g c1 1"]
    assert tell(last) == [*SENT, "wait delivered g", "delivery inflight g c1 1"]


def test_a_message_that_nobody_took_waits_for_each_group(engine, broker, tell):
    broker.create_topic(TopicConfig("orders"))
    receive(engine)
    message_id = send(engine)
    assert tell(message_id) == [*SENT, "wait waiting g"]
    deliveries = receive(engine)
    assert tell(message_id) == [*SENT, "wait delivered g", "delivery inflight g c1 1"]
    broker.release("g", [each.receipt for each in deliveries])
    assert tell(message_id)[-2:] == ["delivery returned g c1 1", "wait waiting g"]


def test_a_retried_message_has_a_stage_for_each_delivery_and_wait(engine, broker, tell):
    message_id = send(engine)
    nack(engine, receive(engine), error="no room")
    assert broker.traces.journey(message_id).groups[0].state == "retry_waiting"
    engine.tick(10)
    receive(engine, "c2", invisible_s=5)
    engine.tick(6)
    ack(engine, receive(engine, "c3"))
    assert tell(message_id) == [
        *SENT,
        "wait delivered g",
        "delivery failed g c1 1",
        "retry_wait released g 2",
        "wait delivered g",
        "delivery expired g c2 2",
        "wait delivered g",
        "delivery acked g c3 3",
    ]
    failed = next(each for each in broker.traces.journey(message_id).stages if each.detail)
    assert failed.detail == "no room"


def test_a_dead_letter_ends_the_journey_with_its_reason(engine, broker, tell):
    message_id = send(engine)
    nack(engine, receive(engine), delay_level=-1, error="never")
    assert tell(message_id) == [
        *SENT,
        "wait delivered g",
        "delivery dead g c1 1",
        "dead_letter dead g c1 1",
    ]
    journey = broker.traces.journey(message_id)
    assert journey.stages[-1].detail == "rejected: never"
    assert journey.groups[0].state == "dead"


def test_a_group_without_dead_letters_shows_by_its_trace_that_it_gave_up(engine, broker, tell):
    message_id = send(engine)
    receive(engine, group="h")
    broker.change_group("h", dead_letters=False)
    engine.tick(61)
    nack(engine, receive(engine, group="h"), group="h", delay_level=-1)
    assert tell(message_id)[-1] == "delivery dead h c1 2"
    assert broker.traces.journey(message_id).groups[0].state == "dead"


@pytest.mark.parametrize("wait", [{"delay_level": 2}, {"deliver_at_ms": 1_700_000_005_000}])
def test_a_delayed_message_waits_and_is_released(engine, broker, tell, wait):
    broker.create_topic(TopicConfig("orders"))
    message_id = send(engine, message_id="MINE", **wait)
    assert tell(message_id) == ["produce stored", "delay waiting"]
    engine.tick(6)
    ack(engine, receive(engine))
    assert tell(message_id) == [
        "produce stored",
        "delay released",
        "store stored",
        "wait delivered g",
        "delivery acked g c1 1",
    ]
    assert broker.traces.journey(message_id).topic == "orders"


def test_a_recalled_and_a_moved_message_say_so(engine, broker, tell):
    broker.create_topic(TopicConfig("orders"))
    due_ms = engine.clock.now_ms() + 60_000
    moved, gone = (send(engine, message_id=each, deliver_at_ms=due_ms) for each in ("M", "G"))
    engine.tick(1)
    broker.recall(gone)
    broker.reschedule(moved, due_ms - 50_000)
    assert tell(gone) == ["produce stored", "delay recalled"]
    assert tell(moved) == ["produce stored", "delay rescheduled", "delay waiting"]
    engine.tick(60)
    assert tell(moved)[1:] == ["delay rescheduled", "delay released", "store stored"]


def test_a_message_of_a_fifo_topic_waits_at_its_place(engine, broker, tell):
    broker.create_topic(TopicConfig("fifo", TopicType.FIFO, read_queues=1, write_queues=1))
    broker.create_group(GroupConfig("g", ordered=True))
    message_id = send(engine, "fifo", message_group="a")
    nack(engine, receive(engine, topic="fifo"), delay_s=4.0)
    assert tell(message_id)[2:] == [
        "wait delivered g",
        "delivery failed g c1 1",
        "retry_wait waiting g 2",
    ]
    engine.tick(5)
    ack(engine, receive(engine, "c2", topic="fifo"))
    assert tell(message_id)[2:] == [
        "wait delivered g",
        "delivery failed g c1 1",
        "retry_wait released g 2",
        "wait delivered g",
        "delivery acked g c2 2",
    ]
    *_, wait, _ = broker.traces.journey(message_id).stages
    assert wait.until_ms - wait.at_ms == 1000, "of the five seconds it waited four for the retry"


def test_each_group_has_a_branch_and_one_that_filtered_it_out_passed_it(engine, broker, tell):
    message_id = send(engine, tag="blue")
    ack(engine, receive(engine))
    receive(engine, group="picky", filter="red")
    assert [(each.group, each.state) for each in broker.traces.journey(message_id).groups] == [
        ("g", "done"),
        ("picky", "passed"),
    ]
    assert "wait passed picky" in tell(message_id)


def test_a_group_that_pulls_shows_its_reads(engine, broker, tell):
    message_id = send(engine)
    broker.pull("orders", 0, 0, group="puller")
    broker.pull("orders", 0, 0)
    assert tell(message_id) == [*SENT, "delivery pulled puller"]


def test_a_refused_send_is_found_by_the_id_that_its_producer_chose(engine, broker, tell):
    broker.create_topic(TopicConfig("closed", permission=4))
    with pytest.raises(Exception, match="not open for writing"):
        send(engine, "closed", message_id="C0FFEE", born_host="10.0.0.7:4000")
    (stage,) = broker.traces.journey("C0FFEE").stages
    assert (stage.name, stage.outcome, stage.topic) == ("refused", "refused", "closed")
    assert (stage.client, stage.detail) == ("10.0.0.7:4000", "forbidden")


def test_a_committed_transaction_shows_its_wait_and_its_checks(engine, broker, tell):
    broker.create_topic(TopicConfig("pay", TopicType.TRANSACTION))
    message_id = send(engine, "pay", transaction_group="till")
    assert tell(message_id) == ["produce stored", "transaction waiting"]
    engine.tick(70)
    broker.transactions.commit(message_id)
    lines = tell(message_id)
    assert lines[0] == "produce stored"
    assert "transaction committed" in lines
    assert any(line.startswith("check nobody_to_ask till") for line in lines)
    assert lines[-1] == "store stored"


def test_a_restart_loses_nothing_of_the_journey(engine, broker, tell):
    message_id = send(engine)
    nack(engine, receive(engine))
    engine.tick(1)
    before = tell(message_id)
    engine.crash()
    assert tell(message_id) == before, "what was written before the kill is there"
    engine.tick(10)
    ack(engine, receive(engine, "c2"))
    engine.restart()
    assert tell(message_id) == [
        *SENT,
        "wait delivered g",
        "delivery failed g c1 1",
        "retry_wait released g 2",
        "wait delivered g",
        "delivery acked g c2 2",
    ]


def test_a_kill_loses_only_what_the_last_moment_brought(engine, broker, tell):
    message_id = send(engine)
    deliveries = receive(engine)
    engine.tick(0.2)
    ack(engine, deliveries)
    engine.crash()
    assert tell(message_id)[-1] == "delivery unknown g c1 1", "the acknowledgement was not written"


def test_traces_of_a_deleted_topic_do_not_count_for_its_successor(engine, broker, tell):
    send(engine)
    ack(engine, receive(engine))
    broker.delete_topic("orders")
    message_id = send(engine)
    assert tell(message_id) == SENT


def test_an_offset_id_tells_the_same_journey(engine, broker):
    message_id = send(engine)
    ack(engine, receive(engine))
    record = broker.messages_by_id(message_id)[0]
    assert broker.traces.journey(record.offset_id) == broker.traces.journey(message_id)


def test_an_empty_journey_says_what_was_looked_at(engine, broker):
    send(engine)
    made = "7F000001" + "0" * 8 + f"{1 << 40:016X}"
    for asked in ("nobody-has-this", made):
        journey = broker.traces.journey(asked)
        assert (journey.stages, journey.groups, journey.topic) == ([], [], "")
        codes = [reason.code for reason in journey.reasons_checked]
        assert codes == ["retention", "kind_of_id", "not_indexed", "tracing_off", "dropped"]
        assert all(reason.detail for reason in journey.reasons_checked)
    with pytest.raises(Invalid) as refused:
        broker.traces.journey("x" * 300)
    assert refused.value.field == "id"


def test_a_message_that_retention_took_says_so(engine):
    broker = engine.start(segment_bytes=32 * 1024, checkpoint_interval_s=0.1)
    message_id = send(engine)
    for _ in range(20):
        send(engine, body=bytes(4000))
    engine.tick(2)
    engine.tick(2)
    assert broker._store.expire(broker._store.written) > 0
    reasons = broker.traces.journey(message_id).reasons_checked
    assert [reason.code for reason in reasons if reason.applies] == ["retention"]


def test_an_unknown_topic_leaves_no_topic_behind(engine):
    broker = engine.start(auto_create_topics=False)
    with pytest.raises(TopicNotFound):
        send(engine, "nowhere", message_id="LOST")
    assert [stage.detail for stage in broker.traces.journey("LOST").stages] == ["topic_not_found"]


def test_a_replayed_dead_letter_goes_on_in_the_same_journey(engine, broker, tell):
    message_id = send(engine)
    nack(engine, receive(engine), delay_level=-1)
    job = broker.replays.create(NewReplay(source="%DLQ%g", to=ReplayTo.GROUP, rate=0))
    engine.tick(1)
    engine.tick(1)
    ack(engine, receive(engine, "c2"))
    journey = broker.traces.journey(message_id)
    assert tell(message_id)[2:] == [
        "wait delivered g",
        "delivery dead g c1 1",
        "dead_letter dead g c1 1",
        "replay replayed",
        "wait delivered g",
        "delivery acked g c2 1",
    ]
    replay = next(stage for stage in journey.stages if stage.name == "replay")
    assert replay.client == job.id
    assert "%DLQ%g" in replay.detail
    assert journey.groups[0].state == "done"


def test_a_message_that_a_replay_left_out_says_why(engine, broker, tell):
    message_id = send(engine)
    broker.create_topic(TopicConfig("copies"))
    new = NewReplay(source="orders", to=ReplayTo.TOPIC, to_name="copies", fresh_only=True, rate=0)
    for _ in range(2):
        broker.replays.create(new)
        engine.tick(2)
    assert [line for line in tell(message_id) if "replay" in line] == [
        "replay replayed",
        "replay left_out",
    ]
    details = [each.detail for each in broker.traces.journey(message_id).stages]
    assert "from orders, queue 0, offset 0" in details


def test_a_rolled_back_transaction_ends_there(engine, broker, tell):
    broker.create_topic(TopicConfig("pay", TopicType.TRANSACTION))
    message_id = send(engine, "pay", transaction_group="till")
    engine.tick(1)
    broker.transactions.rollback(message_id)
    assert tell(message_id) == ["produce stored", "transaction rolled_back"]
    assert broker.traces.journey(message_id).stages[-1].detail == "by producer"
    assert broker.traces.journey(message_id).groups == []


def test_a_journey_of_very_many_records_says_that_it_is_cut(engine, monkeypatch):
    monkeypatch.setattr(finder, "READS_MAX", 5)
    broker = engine.start()
    message_id = send(engine)
    for _ in range(10):
        deliveries = receive(engine)
        broker.release("g", [each.receipt for each in deliveries])
        engine.tick(0.2)
    journey = broker.traces.journey(message_id)
    assert not journey.complete
    assert [each.code for each in journey.reasons_checked if each.applies] == ["too_much"]


def test_stages_of_a_producer_whose_clock_is_ahead_are_in_order(engine, broker, tell):
    message_id = send(engine, born_ms=engine.clock.now_ms() + 60_000)
    assert tell(message_id) == SENT
    produce = broker.traces.journey(message_id).stages[0]
    assert produce.detail == "the producer's clock is ahead of the broker's by 60000 ms"
