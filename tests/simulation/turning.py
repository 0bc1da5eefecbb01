"""What a life does to turn things back: offset resets, dead letters sent again, purges.

Part of the broker world. What a reset to the beginning, or a replay job, brings back must come;
how often, and with which attempt, is then open, as
retries of earlier deliveries may still be under way.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from engine.broker import NewReplay, ReplayState, ReplayTo, ResetTarget, ResetTo
from engine.errors import Refused
from engine.topic.names import dead_letter_topic
from tests.simulation.shares import Share

if TYPE_CHECKING:
    from tests.simulation.broker_world import BrokerWorld

PLAIN = "orders"  # the topic that is turned back and purged


class Turning:
    """Its verbs are chosen by chance like the world's own."""

    def __init__(self, world: "BrokerWorld") -> None:
        self.world = world
        self.groups: set[str] = set()  # that were moved, perhaps over messages nobody knew

    def actions(self) -> tuple[tuple[Callable[[], None], int], ...]:
        return ((self.reset, 1), (self.redrive, 2), (self.purge, 1))

    def reset(self) -> None:
        """Move a group to one end of a topic, and mostly leave it there."""
        world = self.world
        group = world.chance.choice([group for group in world.groups if PLAIN in group.topics])
        is_back = world.chance.random() < 0.7
        shares = list(self.shares(group.name))
        resets = world.broker.resets
        target = ResetTarget(ResetTo.EARLIEST if is_back else ResetTo.LATEST)
        world.doing = lambda: self.turned(shares, comes=False)
        self.groups.add(group.name)
        try:
            done = resets.apply(resets.plan(group.name, [PLAIN], target), force=True)
        except Refused:
            return  # it is there already
        self.turned(shares, comes=is_back)
        if world.chance.random() < 0.3:
            resets.apply(resets.plan_undo(group.name, done.number), force=True)
            self.turned(shares, comes=False)

    def redrive(self) -> None:
        """Send all dead letters of a group to it once more."""
        world = self.world
        group = world.chance.choice(world.groups)
        dead = [share for share in self.shares(group.name, topic="") if share.is_dead]
        source = dead_letter_topic(group.name)
        if not dead or not world.has_topic(source):
            return
        world.doing = lambda: self.turned(self.shares(group.name, topic=""), comes=False)
        try:
            world.broker.replays.create(NewReplay(source=source, to=ReplayTo.GROUP, rate=0))
        except Refused:
            return  # none of them can be read yet
        self.turned(self.shares(group.name, topic=""), comes=False)

    def purge(self) -> None:
        """Take a topic's messages away for good; what is in somebody's hands stays there."""
        shares = [share for group in self.world.groups for share in self.shares(group.name)]

        def is_maybe_gone() -> None:
            for share in shares:
                share.sent.may_be_purged = True
            self.turned(shares, comes=False)

        self.world.doing = is_maybe_gone
        self.groups.update(group.name for group in self.world.groups)
        self.world.broker.retention.purge(PLAIN, everything=True)
        is_maybe_gone()

    def shares(self, group: str, *, topic: str = PLAIN) -> Iterator[Share]:
        for (name, _), share in self.world.shares.items():
            if name == group and share.sent.topic == (topic or share.sent.topic):
                yield share

    def turned(self, shares: Iterable[Share], *, comes: bool) -> None:
        for share in shares:
            share.turn(comes=comes and share.sent.is_sure and not share.sent.may_be_purged)

    def count(self) -> None:
        """Every job came to its end, and each of its messages to one outcome."""
        for job in self.world.broker.replays.list(count_max=200):
            assert job.state is ReplayState.FINISHED, f"{job} is not finished"
            assert sum(job.totals.values()) == job.selected, job
