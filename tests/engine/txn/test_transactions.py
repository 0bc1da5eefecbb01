import pytest

from engine.broker import Decider, TransactionDecision, TransactionState
from engine.errors import (
    Conflict,
    DiskFull,
    Invalid,
    MessageNotFound,
    Stopping,
    TopicNotFound,
)
from engine.events import CheckGivenUp, CheckResumed, TransactionCommitted, TransactionRolledBack
from engine.message import Durability, Message
from engine.topic.catalog import TopicConfig, TopicType
from engine.txn.pending_transactions import PendingTransactions

HALF = "RMQ_SYS_TRANS_HALF_TOPIC"
OP = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
GIVEN_UP = "TRANS_CHECK_MAX_TIME_TOPIC"
PENDING, COMMITTED = TransactionState.PENDING, TransactionState.COMMITTED
ROLLED_BACK = TransactionState.ROLLED_BACK


def stored(broker, topic):
    return broker.pull(topic, 0, 0, count_max=160).messages


def give_up(engine):
    for _ in range(17):
        engine.tick(30)


def test_nobody_sees_a_half_message_before_it_is_committed(engine, broker, txn, half, bodies):
    name = half("a")
    engine.tick(1)
    assert bodies() == []
    assert broker.receive("consumers", {"t": "*"}) == []
    assert txn.get(name).state is PENDING
    done = txn.commit(name)
    assert (done.state, done.topic, done.queue, done.offset) == (COMMITTED, "t", 0, 0)
    assert broker.receive("consumers", {"t": "*"})[0].message.message_id == name


def test_a_rolled_back_message_is_never_delivered(engine, txn, half, bodies):
    name = half("a")
    assert txn.rollback(name).state is ROLLED_BACK
    give_up(engine)
    assert bodies() == []
    assert txn.get(name).state is ROLLED_BACK
    assert txn.count == 0


def test_the_committed_message_is_the_one_that_was_sent(engine, broker, half, txn, clock):
    broker.create_topic(TopicConfig("u", TopicType.TRANSACTION, read_queues=4, write_queues=4))
    broker.send([Message("t", b"so that the half message does not lie at position 0")])
    name = half(
        "a",
        topic="u",
        queue=2,
        tag="x",
        keys=("k1", "k2"),
        properties={"colour": "red"},
        message_group="m",
        born_ms=5,
        flag=7,
        message_id="ORDER1",
    )
    clock.advance(3)
    txn.commit(name)
    (waited,) = stored(broker, HALF)
    (message,) = broker.pull("u", 2, 0, filter="x").messages
    assert (message.message_id, message.keys, message.message_group) == (
        "ORDER1",
        ("k1", "k2"),
        "m",
    )
    assert (message.born_ms, message.flag, message.properties["colour"]) == (5, 7, "red")
    assert message.stored_ms == waited.stored_ms + 3000
    assert (message.sys_flag & 0xC, waited.sys_flag & 0xC) == (8, 0)
    assert (message.prepared_position, waited.prepared_position) == (waited.position, 0)
    expected = {
        "TRAN_MSG": "true",
        "PGROUP": "g",
        "REAL_TOPIC": "u",
        "REAL_QID": "2",
        "__transactionId__": "ORDER1",
    }
    assert expected.items() <= message.properties.items()
    assert expected.items() <= waited.properties.items()
    assert broker.messages_by_key("u", "k1")[0].offset == message.offset


def test_each_decision_leaves_rocketmqs_op_record(broker, txn, half):
    ids = half("a", "b", "c")
    txn.commit(ids[1])
    txn.rollback(ids[0])
    assert [(each.body, each.tag) for each in stored(broker, OP)] == [(b"1,", "d"), (b"0,", "d")]


@pytest.mark.parametrize("is_restarted", [False, True])
def test_the_same_decision_again_changes_nothing_and_answers_the_same(
    engine, txn, half, bodies, is_restarted
):
    first, second = half("a", "b")
    committed = engine.broker.transactions.commit(first)
    engine.broker.transactions.rollback(second)
    if is_restarted:
        engine.crash()
    txn = engine.broker.transactions
    again = txn.commit(first)
    assert (again.state, again.offset, again.queue) == (COMMITTED, committed.offset, 0)
    assert txn.rollback(second).state is ROLLED_BACK
    assert bodies() == ["a"]


@pytest.mark.parametrize("is_restarted", [False, True])
def test_the_opposite_decision_is_refused_and_says_what_was_decided(
    engine, txn, half, bodies, is_restarted
):
    first, second = half("a", "b")
    txn.commit(first)
    txn.rollback(second)
    if is_restarted:
        engine.restart()
    txn = engine.broker.transactions
    with pytest.raises(Conflict, match="was committed") as committed:
        txn.rollback(first)
    with pytest.raises(Conflict, match="was rolled back") as rolled_back:
        txn.commit(second)
    assert committed.value.code == "transaction_committed"
    assert rolled_back.value.code == "transaction_rolled_back"
    assert bodies() == ["a"]


def test_unknown_changes_nothing_and_says_how_it_stands(txn, half, bodies):
    name = half("a")
    assert txn.decide(name, TransactionDecision.UNKNOWN).state is PENDING
    txn.commit(name)
    assert txn.decide(name, TransactionDecision.UNKNOWN).state is COMMITTED
    assert bodies() == ["a"]


def test_the_offset_id_of_the_half_message_names_the_transaction(engine, broker, txn, half):
    name = half("a")
    (waiting,) = stored(broker, HALF)
    assert txn.get(waiting.offset_id).transaction_id == name
    assert txn.commit(waiting.offset_id).state is COMMITTED
    assert txn.commit(waiting.offset_id.lower()).offset == 0


def test_an_unknown_id_and_another_groups_are_not_found(txn, half):
    name = half("a")
    for arguments in ({"transaction_id": "NOBODYS"}, {"transaction_id": name, "group": "h"}):
        with pytest.raises(MessageNotFound) as missing:
            txn.decide(decision=TransactionDecision.COMMIT, **arguments)
        assert missing.value.code == "transaction_not_found"
    assert txn.commit(name, group="g").state is COMMITTED


def test_a_half_message_that_was_sent_again_is_delivered_once(engine, txn, half, bodies):
    """A producer that got no answer sends with the same id again."""
    half("a", message_id="X")
    half("a", message_id="X")
    assert txn.count == 2
    txn.commit("X")
    assert txn.count == 0
    half("a", message_id="X")
    assert txn.commit("X").offset == 0
    assert txn.count == 0
    assert bodies() == ["a"]
    with pytest.raises(Conflict):
        txn.rollback("X")


def test_after_a_roll_back_the_same_id_can_begin_anew(txn, half, bodies):
    half("a", message_id="X")
    txn.rollback("X")
    half("b", message_id="X")
    assert txn.commit("X").state is COMMITTED
    assert bodies() == ["b"]


def test_an_id_of_two_transactions_has_to_be_told_apart(broker, txn, half, bodies):
    broker.create_topic(TopicConfig("u", TopicType.TRANSACTION, read_queues=1, write_queues=1))
    half("a", message_id="X")
    half("b", message_id="X", topic="u")
    half("c", message_id="X", group="h")
    for arguments in ({}, {"group": "g"}):
        with pytest.raises(Conflict) as ambiguous:
            txn.commit("X", **arguments)
        assert ambiguous.value.code == "ambiguous_transaction"
    assert txn.commit("X", group="h").offset == 0
    halves = stored(broker, HALF)
    txn.commit(halves[1].offset_id)
    txn.rollback(halves[0].offset_id)
    assert (bodies(), bodies("u")) == (["c"], ["b"])
    assert txn.count == 0


def test_pending_transactions_are_listed_page_by_page_oldest_first(engine, txn, half, clock):
    ids = half(*"abcdef")
    half("x", group="other")
    txn.commit(ids[1])
    clock.advance(2)
    page = txn.pending(group="g", count_max=2)
    assert [item.transaction_id for item in page.items] == [ids[0], ids[2]]
    assert page.count == 6
    assert page.items[0].next_check_ms == clock.now_ms() + 4000
    assert (page.items[0].topic, page.items[0].message.topic) == ("t", "t")
    page = txn.pending(group="g", count_max=10, after=page.next)
    assert [item.transaction_id for item in page.items] == ids[3:]
    assert page.next is None
    assert [item.producer_group for item in txn.pending(group="other").items] == ["other"]
    with pytest.raises(Invalid):
        txn.pending(after="x")


def test_a_page_looks_at_a_bounded_number_and_goes_on_there(engine, txn, half):
    for _ in range(12):
        half(*["x"] * 100, group="many")
    last = half("y", group="few")
    page = txn.pending(group="few", count_max=100)
    assert page.items == []
    page = txn.pending(group="few", count_max=100, after=page.next)
    assert [item.transaction_id for item in page.items] == [last]


def test_what_was_given_up_is_listed_and_can_still_be_decided(engine, txn, half, bodies, heard):
    ids = half("a", "b", "c")
    give_up(engine)
    page = txn.given_up()
    assert [item.transaction_id for item in page.items] == ids
    assert {item.state for item in page.items} == {TransactionState.GIVEN_UP}
    assert {item.checks for item in page.items} == {15}
    assert (page.count, txn.count) == (3, 0)
    txn.commit(ids[1], by=Decider.OPERATOR)
    txn.rollback(ids[0], by=Decider.OPERATOR)
    assert txn.commit(ids[1]).offset == 0
    with pytest.raises(Conflict):
        txn.commit(ids[0])
    assert bodies() == ["b"]
    assert [item.transaction_id for item in txn.given_up().items] == ids[2:]
    assert [event.checks for event in heard if isinstance(event, CheckGivenUp)] == [15] * 3
    assert [event.by for event in heard if isinstance(event, TransactionCommitted)] == ["operator"]
    assert [event.message_id for event in heard if isinstance(event, TransactionRolledBack)] == ids[
        :1
    ]


def test_checks_that_were_given_up_can_be_resumed(engine, txn, half, bodies, heard):
    name = half("a")
    with pytest.raises(Conflict):
        txn.resume(name)
    give_up(engine)
    assert txn.resume(name).state is PENDING
    with pytest.raises(Conflict):
        txn.resume(name)
    engine.tick(6)
    (check,) = txn.checks("g")
    assert (check.transaction_id, check.number) == (name, 1)
    engine.crash()
    txn = engine.broker.transactions
    assert txn.commit(name).state is COMMITTED
    assert txn.given_up().count == 0
    assert bodies() == ["a"]
    assert sum(isinstance(event, CheckResumed) for event in heard) == 1


def test_a_topic_that_was_deleted_meanwhile_gets_nothing(broker, txn, half):
    name = half("a")
    broker.delete_topic("t")
    broker.create_topic(TopicConfig("t", TopicType.TRANSACTION))
    with pytest.raises(TopicNotFound):
        txn.commit(name)
    assert txn.get(name).state is PENDING
    assert txn.rollback(name).state is ROLLED_BACK


def test_a_full_disk_refuses_a_decision_and_leaves_it_open(broker, txn, half, bodies, monkeypatch):
    name = half("a")

    def refuse(*_):
        raise DiskFull("no room")

    with monkeypatch.context() as full:
        full.setattr(broker._store._log, "append", refuse)
        for decision in (TransactionDecision.COMMIT, TransactionDecision.ROLLBACK):
            with pytest.raises(DiskFull):
                txn.decide(name, decision)
    assert txn.get(name).state is PENDING
    txn.commit(name)
    assert bodies() == ["a"]


def test_a_crash_between_the_decision_and_its_note_changes_nothing(
    engine, txn, half, bodies, monkeypatch
):
    ids = half("a", "b", "c", "d")
    give_up(engine)
    txn.resume(ids[3])
    more = half("e", "f")
    engine.tick(100)
    monkeypatch.setattr(PendingTransactions, "finish", lambda *_, **__: None)
    txn.commit(ids[0])
    txn.rollback(ids[1])
    txn.resume(ids[2])
    txn.commit(ids[3])
    txn.commit(more[0])
    txn.rollback(more[1])
    monkeypatch.undo()
    for _ in range(2):
        engine.crash()
        txn = engine.broker.transactions
        states = [txn.get(name).state for name in (*ids, *more)]
        assert states == [COMMITTED, ROLLED_BACK, PENDING, COMMITTED, COMMITTED, ROLLED_BACK]
        assert sorted(bodies()) == ["a", "d", "e"]
        assert txn.given_up().count == 0


def test_a_commit_into_a_flushed_topic_says_what_to_wait_for(engine, half, txn, bodies):
    broker = engine.broker
    broker.change_topic("t", durability=Durability.FLUSHED)
    name = half("a")
    engine.tick(1)
    broker._store._flusher.request = (lambda kept: lambda *_: None)(broker._store._flusher.request)
    done = txn.commit(name)
    assert bodies() == []
    assert done.flush_position > 0
    assert 0 < txn.commit(name).flush_position <= done.flush_position
    with pytest.raises(Conflict):
        txn.rollback(name)
    del broker._store._flusher.request
    engine.tick(1)
    assert bodies() == ["a"]
    assert txn.commit(name).flush_position == 0


def test_what_waits_for_a_flush_is_decided_all_the_same(engine, half, txn, bodies):
    engine.broker.change_topic("t", durability=Durability.FLUSHED)
    engine.broker._intake._durability = Durability.FLUSHED
    flusher = engine.broker._store._flusher
    given_up = half("a")
    for _ in range(15):
        engine.tick(30)
    engine.clock.advance(30)
    flusher.request = lambda *_: None
    txn.services()[0].tick()
    fresh = half("b")
    assert txn.get(given_up).state is TransactionState.GIVEN_UP
    assert txn.get(fresh).state is PENDING
    for name in (given_up, fresh):
        assert txn.commit(name).flush_position > 0
        assert txn.commit(name).flush_position > 0
        with pytest.raises(Conflict):
            txn.rollback(name)
    assert bodies() == []
    del flusher.request
    engine.broker._store._dispatch.release(engine.broker._store.written)
    engine.tick(1)
    assert sorted(bodies()) == ["a", "b"]
    assert txn.count == 0


def test_the_oldest_undecided_half_message_holds_the_log_back(engine, broker, txn, half):
    assert txn.oldest_position() is None
    ids = half("a", "b")
    positions = [message.position for message in stored(broker, HALF)]
    assert txn.oldest_position() == positions[0]
    txn.commit(ids[0])
    assert txn.oldest_position() == positions[1]
    txn.rollback(ids[1])
    assert txn.oldest_position() is None


def test_a_broker_that_stopped_decides_nothing(broker, txn, half):
    name = half("a")
    broker.stop()
    for verb in (txn.commit, txn.rollback, txn.resume, txn.checks):
        with pytest.raises(Stopping):
            verb(name)


def test_callbacks_of_producer_groups_survive_a_crash(engine, txn):
    from engine.broker import Callback

    txn.callbacks.set(Callback("g", "http://127.0.0.1:1/x"))
    txn.callbacks.set(Callback("h", "http://127.0.0.1:1/y", 100))
    txn.callbacks.set(Callback("g", "http://127.0.0.1:1/z"))
    txn.callbacks.delete("h")
    engine.broker._store.journal.compact()
    engine.crash()
    kept = engine.broker.transactions.callbacks.all()
    assert kept == [Callback("g", "http://127.0.0.1:1/z", 5000)]
    for wrong in (Callback("g", ""), Callback("g", "x", 0), Callback("", "x")):
        with pytest.raises(Invalid):
            txn.callbacks.set(wrong)


def test_messages_without_a_transaction_are_not_touched(broker, txn, bodies):
    broker.send([Message("t", b"plain")])
    (message,) = stored(broker, "t")
    assert not {"TRAN_MSG", "PGROUP", "KITE_SOURCE"} & message.properties.keys()
    assert message.prepared_position == 0
