"""One round of lag samples: every queue of every group at nearly one moment, as flat numbers."""

from array import array
from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum

from engine.statistics.values import GroupLagLike, LagName


class LagColumn(IntEnum):
    """The numbers of one sample, in the order in which they are kept."""

    PRESENT = 0  # 1, or 0 where a block has no sample of this row at this time
    MIN_OFFSET = 1
    MAX_OFFSET = 2
    COMMITTED = 3
    CURSOR = 4
    COUNT = 5
    OLDEST_MS = 6  # when the oldest message that is not done was stored; 0 for none
    INFLIGHT = 7  # this and the next, MEMBERS and EXPIRED are NOT_SAMPLED where not known
    RETRY_WAITING = 8  # this and the next two are the whole group's
    DEAD = 9
    MEMBERS = 10
    IS_MATCHING = 11  # 1 where COUNT leaves out what the group's filter does, 0 where it may not
    ACTIVE_MS = 12  # last delivery, pull, acknowledgement or failure since the start; 0 for none
    EXPIRED = 13  # ever taken by retention or a purge before the group was done with them
    RESETS = 14  # number of the group's last reset by a person, 0 for none


WIDTH = len(LagColumn)
WIDTH_1 = 12  # of samples that were taken before the last three were
NOT_SAMPLED = -1  # stands for these there, and for what the engine behind the server does not know


class LagRound:
    """`values` holds `WIDTH` numbers for each of `names`, one row behind the other."""

    __slots__ = ("at_ms", "names", "values")

    def __init__(self, at_ms: int, names: tuple[LagName, ...], values: "array[int]") -> None:
        assert len(values) == WIDTH * len(names)
        self.at_ms = at_ms
        self.names = names
        self.values = values

    def row(self, index: int) -> Sequence[int]:
        return self.values[index * WIDTH : (index + 1) * WIDTH]


class RoundBuilder:
    """Gathers a round, group after group."""

    def __init__(self, at_ms: int) -> None:
        self.at_ms = at_ms
        self._names: list[LagName] = []
        self._values = array("q")

    def __len__(self) -> int:
        return len(self._names)

    def add(
        self,
        group: str,
        lag: GroupLagLike,
        members: int | None,
        resets: int,
        active_ms: Callable[[str, str, int], int],
    ) -> int:
        """Take over a group's lag; how many rows that made.

        `active_ms` tells of a group, topic and queue when the group last did something there.
        """
        last = (_known(lag.retry_waiting), lag.dead, _known(members))
        before = len(self._names)
        for queue in lag.queues:
            self._names.append(LagName(group, queue.topic, queue.queue))
            self._values.extend(
                (
                    1,
                    queue.min_offset,
                    queue.max_offset,
                    queue.committed,
                    queue.cursor,
                    queue.count,
                    queue.oldest_ms or 0,
                    _known(queue.inflight),
                    *last,
                    queue.counts == "matching",
                    active_ms(group, queue.topic, queue.queue),
                    _known(queue.expired),
                    resets,
                )
            )
        return len(self._names) - before

    def finish(self, before: LagRound | None) -> LagRound:
        """The round; names are shared with the round `before` where they are the same."""
        names = tuple(self._names)
        if before is not None and before.names == names:
            names = before.names
        return LagRound(self.at_ms, names, self._values)


def _known(number: int | None) -> int:
    return NOT_SAMPLED if number is None else number


def names_of(rounds: Iterable[LagRound]) -> list[LagName]:
    """Every row of some rounds once, in the order of its first sample."""
    names: dict[LagName, None] = {}
    last: tuple[LagName, ...] | None = None
    for one in rounds:
        if one.names is not last:
            names.update(dict.fromkeys(one.names))
            last = one.names
    return list(names)
