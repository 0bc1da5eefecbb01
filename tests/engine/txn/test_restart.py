"""Whatever dies at whatever moment: each transaction ends as its producer decided, once."""

import random
from collections import Counter
from contextlib import suppress

import pytest

from engine.broker import Decider, TransactionDecision, TransactionState
from engine.clock import ManualClock
from engine.errors import Busy
from engine.message import Durability, Message
from engine.store.pool import InlinePool
from engine.topic.catalog import TopicConfig, TopicType
from tests.engine.long_life import live_long
from tests.simulation.boot import boot
from tests.simulation.disk import Crash, Disk
from tests.simulation.pool import SeededPool

CHECK_MAX = 3


class Story:
    """Producers on a disk that breaks, each sure from the start of what it will say."""

    def __init__(self, seed, durability, default, *, is_pool_slow=False):
        """`durability` is what each send asks for, `default` the broker's, for what it writes."""
        self.chance = random.Random(seed)
        self.disk = Disk(self.chance)
        self.clock = ManualClock()
        self.durability = durability
        self.default = default
        self.is_pool_slow = is_pool_slow
        self.says = {}  # by body: the producer's decision
        self.ids = {}  # by body, of those that the broker said it had accepted
        self.decided = {}  # by body, of those whose verb returned
        self.asked = []
        self.broker = None
        self.number = 0

    def start(self):
        self.pool = SeededPool(self.chance) if self.is_pool_slow else InlinePool()
        self.broker = boot(
            self.disk,
            self.clock,
            self.pool,
            durability=self.default,
            transaction_check_max=CHECK_MAX,
        )
        self.asked = []
        self.broker.transactions.askers.append(self.ask)
        if not self.broker.topics():
            self.broker.create_topic(
                TopicConfig("t", TopicType.TRANSACTION, read_queues=1, write_queues=1)
            )

    def ask(self, check):
        if self.chance.random() < 0.4:
            return False
        self.asked.append(check)
        return True

    def step(self):
        self.chance.choice(
            [self.send, self.send, self.decide, self.decide, self.sleep, self.answer, self.operate]
        )()

    def send(self):
        messages = []
        for _ in range(self.chance.randint(1, 3)):
            body, self.number = str(self.number), self.number + 1
            self.says[body] = self.chance.choice(
                [TransactionDecision.COMMIT, TransactionDecision.ROLLBACK]
            )
            message_id = self.chance.choice(["", f"ID{body}"])
            messages.append(
                Message("t", body.encode(), transaction_group="g", message_id=message_id)
            )
        if self.chance.random() < 0.2:
            messages[-1].message_id = f"ID{body}"
            messages.append(messages[-1])  # sent twice
        sent = self.broker.send(messages, durability=self.durability)
        ids = {message.body.decode(): message.message_id for message in sent.messages}
        if sent.durability is Durability.STORED:
            self.ids |= ids
            return
        self.broker.when_flushed(
            sent.flush_position, lambda error: None if error else self.ids.update(ids)
        )

    def decide(self):
        self.settle()
        if self.ids:
            body, name = self.chance.choice(list(self.ids.items()))
            self.say(body, name, Decider.PRODUCER)

    def say(self, body, name, by):
        decision = self.chance.choice(
            [self.says[body], self.says[body], TransactionDecision.UNKNOWN]
        )
        if decision is TransactionDecision.UNKNOWN:
            with suppress(Busy):
                self.broker.transactions.decide(name, decision)
            return
        try:
            done = self.broker.transactions.decide(name, decision, by=by)
        except Busy:
            assert self.is_pool_slow, "only a move that waits for its flush is a reason"
            return
        is_commit = decision is TransactionDecision.COMMIT
        expected = TransactionState.COMMITTED if is_commit else TransactionState.ROLLED_BACK
        assert done.state is expected
        self.decided[body] = decision

    def answer(self):
        polled = self.broker.transactions.checks("g", self.chance.randint(1, 5))
        for check in [*self.asked, *polled]:
            assert check.message.topic == "t"
            if self.chance.random() < 0.7:
                self.say(check.message.body.decode(), check.transaction_id, Decider.CHECK)
        self.asked.clear()

    def operate(self):
        for item in self.broker.transactions.given_up(count_max=3).items:
            try:
                standing = self.broker.transactions.get(item.transaction_id).state
            except Busy:
                continue
            if standing is not TransactionState.GIVEN_UP:
                continue  # it was sent twice, and one of the two was just dealt with
            if self.chance.random() < 0.5:
                self.broker.transactions.resume(item.transaction_id)
            else:
                self.say(item.message.body.decode(), item.transaction_id, Decider.OPERATOR)

    def sleep(self):
        self.clock.advance(self.chance.choice([0, 0.5, 7, 31, 31]))
        if self.chance.random() < 0.1:
            self.broker._store.journal.compact()
        self.settle()

    def settle(self):
        for _ in range(5):
            self.broker.tick()
            self.clock.advance(0.02)
        if self.is_pool_slow:
            self.pool.run_some(self.chance.randint(0, 6))

    def delivered(self):
        found, offset = Counter(), 0
        while True:
            result = self.broker.pull("t", 0, offset, count_max=160)
            found.update(message.body.decode() for message in result.messages)
            offset = result.next_offset
            if offset >= result.max_offset:
                return found

    def end(self, *, is_power_lost):
        transactions = self.broker.transactions
        if not is_power_lost:  # what was decided is so, without anybody saying it again
            found = self.delivered()
            for body, decision in self.decided.items():
                is_found = body in found
                assert is_found == (decision is TransactionDecision.COMMIT), f"{body} was forgotten"
        for _ in range(3 * CHECK_MAX + 3):
            self.clock.advance(31)
            for _ in range(20):
                self.settle()
            for check in [*self.asked, *transactions.checks("g")]:
                body = check.message.body.decode()
                assert is_power_lost or body not in self.decided, "asked after it was decided"
                with suppress(Busy):
                    transactions.decide(check.transaction_id, self.says[body])
            self.asked.clear()
            for item in transactions.given_up(count_max=200).items:
                body = item.message.body.decode()
                assert is_power_lost or body not in self.decided, "given up after it was decided"
                with suppress(Busy):
                    transactions.decide(item.transaction_id, self.says[body])
            if self.is_pool_slow:
                self.pool.drain()
        found = self.delivered()
        assert max(found.values(), default=1) == 1, "delivered twice"
        rolled_back = {
            body for body, said in self.says.items() if said is TransactionDecision.ROLLBACK
        }
        assert not rolled_back & found.keys(), "delivered though it was rolled back"
        assert self.ids.keys() - rolled_back <= found.keys(), "lost"
        assert (transactions.count, transactions.given_up().count) == (0, 0)
        assert transactions.oldest_position() is None


def live(crash_in, durability, default, *, is_power_lost, is_pool_slow=False):
    """Some of a life, a crash at a chosen operation, some more of it, another crash, the end."""
    story = Story(crash_in % 11, durability, default, is_pool_slow=is_pool_slow)
    for _ in range(2):
        story.disk.crash_in = crash_in
        try:
            story.start()
            for _ in range(40):
                story.step()
        except Crash:
            pass
        if is_power_lost:
            story.disk.lose_power()
        else:
            story.disk.kill()
    story.start()
    story.end(is_power_lost=is_power_lost)


@pytest.mark.parametrize("start", range(0, 400, 50))
def test_a_kill_at_any_write_leaves_every_decision_in_force_once(start):
    for crash_in in range(start + 1, start + 51, 5):
        live(crash_in, Durability.STORED, Durability.STORED, is_power_lost=False)


@pytest.mark.parametrize("default", [Durability.STORED, Durability.FLUSHED])
@pytest.mark.parametrize("start", range(0, 400, 50))
def test_a_power_loss_at_any_write_delivers_each_flushed_one_once(start, default):
    for crash_in in range(start + 1, start + 51, 5):
        live(crash_in, Durability.FLUSHED, default, is_power_lost=True)


@pytest.mark.parametrize("is_power_lost", [False, True])
def test_crashes_while_flushes_are_under_way_change_no_end(is_power_lost):
    for crash_in in range(5, 400, 9):
        durability = Durability.FLUSHED if is_power_lost else Durability.STORED
        live(crash_in, durability, durability, is_power_lost=is_power_lost, is_pool_slow=True)


@pytest.mark.parametrize("seed", range(10))
def test_long_stories_with_kills_and_clean_stops_end_as_decided(seed):
    story = Story(seed, Durability.STORED, Durability.STORED)
    live_long(story)
    story.end(is_power_lost=False)


def cut_off(verb, crash_in, keep):
    """A story of two transactions up to `verb`, which dies at its write number `crash_in`."""
    story = Story(keep, Durability.STORED, Durability.STORED)
    story.start()
    story.chance.random = lambda: 1.0  # every check is asked, and answered by nobody
    messages = [Message("t", body, transaction_group="g") for body in (b"0", b"1")]
    sent = story.broker.send(messages)
    names = [message.message_id for message in sent.messages]
    story.ids = dict(zip("01", names, strict=True))
    story.says = {"0": TransactionDecision.COMMIT, "1": TransactionDecision.COMMIT}
    if verb == "rollback":
        story.says["0"] = TransactionDecision.ROLLBACK
    for _ in range(CHECK_MAX if verb == "give up" else 7 if verb == "resume" else 0):
        story.clock.advance(31)
        story.settle()
    story.disk.crash_in = crash_in
    transactions = story.broker.transactions
    is_dead = True
    try:
        if verb == "half":
            story.says["2"] = TransactionDecision.COMMIT
            story.broker.send([Message("t", b"2", transaction_group="g")])
        elif verb in ("check", "give up"):
            story.clock.advance(31)
            story.broker.transactions.services()[0].tick()
        elif verb == "resume":
            transactions.resume(names[0])
        else:
            transactions.decide(names[0], story.says["0"])
            story.decided["0"] = story.says["0"]
        is_dead = False
    except Crash:
        pass
    story.disk.kill()
    story.start()
    story.end(is_power_lost=False)
    return is_dead


@pytest.mark.parametrize("verb", ["half", "commit", "rollback", "check", "give up", "resume"])
def test_a_kill_at_each_single_write_of_a_verb_changes_no_end(verb):
    """Each write is cut short at several random places; a verb has one to three of them."""
    for keep in range(12):
        crash_in = 1
        while cut_off(verb, crash_in, keep):
            crash_in += 1
        assert crash_in > 1, "the verb wrote nothing"
