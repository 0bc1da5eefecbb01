"""Long polling: receives and pulls that wait for messages, and the choice of which ones wake.

A waiting receive competes with the others of its group: as many wake as messages became available,
oldest first. A waiting pull reads for itself: every pull that a new message may match wakes. Each
wakes once, and no wake is lost: a woken receive that is cancelled passes it on. The endpoint
decides how long to wait; nothing here looks at a clock.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Protocol

from engine.delivery.filter import Filter, parse_filter
from engine.delivery.receive_targets import ReceiveTarget, topics_of
from engine.errors import Busy
from engine.store.store import Store

Wake = Callable[[], None]
RETRY_AFTER_S = 1.0


class MessageAvailability(Protocol):
    """Tells whether a receive would find anything to look at; `receive.py` implements it."""

    def has_work(self, target: ReceiveTarget) -> bool: ...


class LongPoll(Protocol):
    """A receive or a pull that waits."""

    @property
    def is_woken(self) -> bool: ...

    def cancel(self) -> None:
        """Stop waiting; may be called twice, and after the wake."""


class WaitingReceive:
    """One waiting receive; woken at most once."""

    __slots__ = (
        "_long_polling", "_wake", "group", "is_over", "is_woken", "queue", "targets", "topics",
    )  # fmt: skip

    def __init__(
        self,
        long_polling: "LongPolling",
        group: str,
        targets: Sequence[ReceiveTarget],
        wake: Wake,
        queue: int | None,
    ) -> None:
        self.queue = queue  # of each topic; None for all
        self._long_polling = long_polling
        self._wake = wake
        self.group = group
        self.targets = targets
        self.topics = topics_of(targets)
        self.is_woken = False
        self.is_over = False

    def fire(self) -> None:
        self.is_woken = True
        self._wake()

    def cancel(self) -> None:
        if not self.is_over:
            self.is_over = True
            self._long_polling.leave_receive(self)


class WaitingPull:
    """One waiting pull; woken at most once."""

    __slots__ = ("_long_polling", "_wake", "filter", "is_woken", "key", "offset")

    def __init__(
        self,
        long_polling: "LongPolling",
        key: tuple[str, int],
        offset: int,
        match: Filter,
        wake: Wake,
    ) -> None:
        self._long_polling = long_polling
        self._wake = wake
        self.key = key
        self.offset = offset
        self.filter = match
        self.is_woken = False

    def fire(self) -> None:
        self.is_woken = True
        self._wake()

    def cancel(self) -> None:
        self._long_polling.leave_pull(self)


WaitingReceives = dict[WaitingReceive, None]  # in the order they came


class LongPolling:
    """At most `total_max` wait at once, `per_key_max` of one group or on one queue."""

    def __init__(
        self, store: Store, work: MessageAvailability, *, total_max: int, per_key_max: int
    ) -> None:
        self._store = store
        self._work = work
        self._total_max = total_max
        self._per_key_max = per_key_max
        self._receives: dict[
            str, dict[str, dict[Filter, WaitingReceives]]
        ] = {}  # topic, group, filter
        self._group_counts: dict[str, int] = {}
        self._paused: dict[
            str, WaitingReceives
        ] = {}  # by group: those that wait for the end of its pause
        self._pulls: dict[tuple[str, int], dict[WaitingPull, None]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    # -- receives --------------------------------------------------------------------------------

    def wait_to_receive(
        self,
        group: str,
        targets: Sequence[ReceiveTarget],
        wake: Wake,
        queue: int | None = None,
    ) -> WaitingReceive:
        """Wait until there may be something in `targets`; raises Busy when too many wait.

        `queue` is set where they are that queue of each topic alone. Where there is something at
        once, `wake` is called before this returns. Without `targets` the group is paused: `wake`
        comes when it is changed.
        """
        poll = WaitingReceive(self, group, targets, wake, queue)
        if any(map(self._work.has_work, targets)):
            poll.fire()
            return poll
        self._check_room(self._group_counts.get(group, 0), f"of group {group!r}")
        for topic, match in poll.topics.items():
            by_filter = self._receives.setdefault(topic, {}).setdefault(group, {})
            by_filter.setdefault(match, {})[poll] = None
        if not poll.topics:
            self._paused.setdefault(group, {})[poll] = None
        self._group_counts[group] = self._group_counts.get(group, 0) + 1
        self._count += 1
        return poll

    def leave_receive(self, poll: WaitingReceive) -> None:
        """Take one out; if it was woken while there is still work, wake the next in its place."""
        if not poll.is_woken:
            self._unlist(poll)
        elif self._count and any(map(self._work.has_work, poll.targets)):
            for topic in poll.topics:
                if self.ready(poll.group, topic, 1):
                    return

    def ready(self, group: str, topic: str, count: int) -> int:
        """`count` messages of a topic became available to a group; returns how many it woke.

        Those that wait for single queues wake besides, as it is not known in which ones they are.
        """
        by_filter = self._receives.get(topic, {}).get(group)
        if not by_filter:
            return 0
        waiting = [poll for polls in by_filter.values() for poll in polls]
        polls = [poll for poll in waiting if poll.queue is None][:count]
        polls += [poll for poll in waiting if poll.queue is not None]
        for poll in polls:
            self._wake(poll)
        return len(polls)

    # -- pulls -----------------------------------------------------------------------------------

    def wait_to_pull(
        self, topic: str, queue: int, offset: int, expression: str, wake: Wake
    ) -> WaitingPull:
        """Wait for a message at or past `offset` that may match; raises Busy, Invalid.

        Where there are messages at once, `wake` is called before this returns.
        """
        key = (topic, queue)
        poll = WaitingPull(self, key, offset, parse_filter(expression), wake)
        if self._store.bounds(topic, queue)[1] > offset:
            poll.fire()
            return poll
        self._check_room(len(self._pulls.get(key, ())), f"on queue {queue} of {topic!r}")
        self._pulls.setdefault(key, {})[poll] = None
        self._count += 1
        return poll

    def leave_pull(self, poll: WaitingPull) -> None:
        """Take one out, if it is still there."""
        polls = self._pulls.get(poll.key)
        if polls is not None and poll in polls:
            del polls[poll]
            self._count -= 1
            if not polls:
                del self._pulls[poll.key]

    # -- arrivals --------------------------------------------------------------------------------

    def arrived(self, topic: str, queue: int, first_offset: int, tag_codes: list[int]) -> None:
        """Wake the waiting calls that new messages concern. For the store's `on_visible`."""
        by_group = self._receives.get(topic)
        if by_group:
            for by_filter in list(by_group.values()):
                _wake_matching(self._wake, by_filter, queue, tag_codes)
        pulls = self._pulls.get((topic, queue))
        if pulls:
            for poll in list(pulls):
                since = max(0, poll.offset - first_offset)
                if any(map(poll.filter.may_match, tag_codes[since:])):
                    self.leave_pull(poll)
                    poll.fire()

    def topic_deleted(self, topic: str) -> None:
        """Wake all that wait on a deleted topic: their next call reports it."""
        for group in list(self._receives.get(topic, ())):
            self.ready(group, topic, self._total_max)
        for key in [key for key in self._pulls if key[0] == topic]:
            for poll in list(self._pulls[key]):
                self.leave_pull(poll)
                poll.fire()

    def queue_reset(self, topic: str, queue: int) -> None:
        """Wake every pull on a queue in which a group was moved: one of them may be of it."""
        for poll in list(self._pulls.get((topic, queue), ())):
            self.leave_pull(poll)
            poll.fire()

    def groups_changed(self, names: Iterable[str]) -> None:
        """Wake all of groups that were changed or deleted, for the same reason."""
        changed = {name for name in names if name in self._group_counts}
        if not changed:
            return
        for topic, groups in list(self._receives.items()):
            for name in changed & groups.keys():
                self.ready(name, topic, self._total_max)
        for name in changed:
            for poll in list(self._paused.get(name, ())):
                self._wake(poll)

    # -- inside ----------------------------------------------------------------------------------

    def _check_room(self, count: int, where: str) -> None:
        if count < self._per_key_max and self._count < self._total_max:
            return
        raise Busy(
            f"{count} requests wait already {where}, {self._count} in all",
            retry_after_s=RETRY_AFTER_S,
            remedy="ask again later, or wait with fewer clients",
        )

    def _wake(self, poll: WaitingReceive) -> None:
        if not poll.is_woken and not poll.is_over:
            self._unlist(poll)
            poll.fire()

    def _unlist(self, poll: WaitingReceive) -> None:
        paused = self._paused.get(poll.group)
        if paused is not None and poll in paused:
            del paused[poll]
            if not paused:
                del self._paused[poll.group]
        for topic, match in poll.topics.items():
            by_group = self._receives[topic]
            by_filter = by_group[poll.group]
            del by_filter[match][poll]
            if not by_filter[match]:
                del by_filter[match]
            if not by_filter:
                del by_group[poll.group]
            if not by_group:
                del self._receives[topic]
        self._count -= 1
        remaining = self._group_counts[poll.group] - 1
        if remaining:
            self._group_counts[poll.group] = remaining
        else:
            del self._group_counts[poll.group]


def _wake_matching(
    wake: Callable[[WaitingReceive], None],
    by_filter: dict[Filter, WaitingReceives],
    queue: int,
    tag_codes: list[int],
) -> None:
    """Wake as many as there are messages for, per filter."""
    for match, polls in list(by_filter.items()):
        count = len(tag_codes) if match.is_all else sum(map(match.may_match, tag_codes))
        takers = (poll for poll in polls if poll.queue in (None, queue))
        for poll in list(islice(takers, count)):
            wake(poll)
