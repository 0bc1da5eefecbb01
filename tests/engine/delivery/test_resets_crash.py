"""A process that dies at any write of a reset or of an undo: all queues have moved, or none."""

import random

import pytest

from engine.broker import GroupConfig, ResetTarget, ResetTo, TopicConfig
from engine.clock import ManualClock
from engine.message import Message
from tests.simulation.boot import boot
from tests.simulation.disk import Crash, Disk

QUEUES = 4
LATEST = ResetTarget(ResetTo.LATEST)


class Life:
    """A broker on a disk that breaks; a group that is moved to the end and back."""

    def __init__(self, seed: int) -> None:
        self.disk = Disk(random.Random(seed))
        self.clock = ManualClock()

    def start(self) -> None:
        self.broker = boot(self.disk, self.clock)

    def prepare(self) -> None:
        """Every queue of two topics has messages, of which the group has done the first."""
        self.broker.create_group(GroupConfig("g"))
        for topic in ("one", "two"):
            self.broker.create_topic(TopicConfig(topic, read_queues=QUEUES, write_queues=QUEUES))
            for queue in range(QUEUES):
                self.broker.send([Message(topic, b"%d" % n, queue=queue) for n in range(3)])
            while given := self.broker.receive("g", {topic: "*"}, count_max=64):
                firsts = [each.receipt for each in given if not each.receipt.offset]
                self.broker.ack("g", firsts)

    def move(self) -> None:
        plan = self.broker.resets.plan("g", ["one", "two"], LATEST)
        self.broker.resets.apply(plan, precondition=plan.preview().precondition)

    def undo(self) -> None:
        number = self.broker.resets.history("g")[0].number
        self.broker.resets.apply(self.broker.resets.plan_undo("g", number))

    def offsets(self) -> set[int | None]:
        return {
            self.broker.committed_offset("g", topic, queue)
            for topic in ("one", "two")
            for queue in range(QUEUES)
        }

    def settle(self) -> None:
        """Some time passes: flushes, checkpoints, a snapshot of the journal."""
        self.broker._store.journal.compact()
        for _ in range(3):
            self.clock.advance(1)
            self.broker.tick()


def at_step(step: int, *, is_undone: bool, is_power_lost: bool) -> tuple[bool, Life]:
    """Move (and undo), dying at an operation of it; whether it died, and what came to life."""
    life = Life(step)
    life.start()
    life.prepare()
    if is_undone:
        life.move()
    life.settle()
    assert life.offsets() == ({3} if is_undone else {1})
    life.disk.crash_in = step
    try:
        life.undo() if is_undone else life.move()
        life.settle()
        has_died = False
    except Crash:
        has_died = True
    life.disk.lose_power() if is_power_lost else life.disk.kill()
    life.start()
    return has_died, life


@pytest.mark.parametrize("is_power_lost", [False, True], ids=["kill", "power"])
@pytest.mark.parametrize("is_undone", [False, True], ids=["reset", "undo"])
def test_a_death_at_any_write_leaves_all_queues_moved_or_none_and_the_history_agrees(
    is_undone: bool, is_power_lost: bool
) -> None:
    met = set()
    step = 0
    has_died = True
    while has_died:
        step += 1
        has_died, life = at_step(step, is_undone=is_undone, is_power_lost=is_power_lost)
        offsets, history = life.offsets(), life.broker.resets.history("g")
        met.add(len(history))
        moved = len(history) > is_undone
        assert offsets == ({3} if moved != is_undone else {1}), step
        if is_undone:
            assert history[-1].undone_by == (2 if moved else 0)
        if moved and not is_power_lost:
            assert life.broker.commit_offset("g", "one", 0, 2) is False
        undone = (
            life.broker.resets.apply(
                life.broker.resets.plan_undo("g", history[0].number), force=True
            )
            if history
            else None
        )
        assert undone is None or undone.number == len(history) + 1
    assert step > 5
    assert met == {is_undone, is_undone + 1}, "some died before it, some after"
