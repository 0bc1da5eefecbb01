"""Computes the highest lag of many groups over time in one pass, for sparklines in lists."""

from collections.abc import Iterable, Mapping, Sequence
from operator import mul

import msgspec

from engine.errors import Invalid
from engine.statistics.lag_block import Block
from engine.statistics.lag_round import LagColumn, LagRound
from engine.statistics.values import LagName

GROUPS_MAX = 500
POINTS_MAX = 2_000


class PeakQuery(msgspec.Struct, frozen=True):
    """Of which groups, and how far apart; times are ms, `to_ms` is past the end."""

    groups: frozenset[str]
    from_ms: int
    to_ms: int
    step_ms: int


def peak_query(groups: Iterable[str], from_ms: int, to_ms: int, step_ms: int) -> PeakQuery:
    """The query; Invalid names what is wrong with it."""
    query = PeakQuery(frozenset(groups), from_ms, to_ms, step_ms)
    if len(query.groups) > GROUPS_MAX:
        raise Invalid(
            f"{len(query.groups)} groups at once",
            field="groups",
            remedy=f"at most {GROUPS_MAX} groups",
        )
    if not 0 <= from_ms < to_ms or step_ms < 1 or to_ms - from_ms > POINTS_MAX * step_ms:
        raise Invalid(
            f"from {from_ms} to {to_ms} ms in steps of {step_ms}",
            field="step_ms",
            remedy=f"a later to_ms, and steps that make at most {POINTS_MAX} points",
        )
    return query


class Peaks:
    """Collects samples, in any order; of a group, the highest sum over its queues of each step."""

    def __init__(self, query: PeakQuery) -> None:
        self._query = query
        self._count = -(-(query.to_ms - query.from_ms) // query.step_ms)
        self._peaks: dict[str, list[int | None]] = {}

    def add_block(self, block: Block) -> None:
        """What the query wants of a block; only two columns of it are unpacked."""
        rows_by_group = self._rows(block.names)
        if not rows_by_group:
            return
        columns = block.columns((LagColumn.PRESENT, LagColumn.COUNT))
        for group, rows in rows_by_group.items():
            there = [block.row(columns[LagColumn.PRESENT], row) for row in rows]
            counts = [block.row(columns[LagColumn.COUNT], row) for row in rows]
            # A sample that is missing counts as zero.
            parts = [map(mul, *pair) for pair in zip(counts, there, strict=True)]
            sums = map(sum, zip(*parts, strict=True))
            is_there = map(any, zip(*there, strict=True))
            for at_ms, known, count in zip(block.times_ms, is_there, sums, strict=True):
                if known:
                    self._add(group, at_ms, count)

    def add_round(self, one: LagRound) -> None:
        """The same of a round that is in memory."""
        for group, rows in self._rows(one.names).items():
            self._add(group, one.at_ms, sum(one.row(row)[LagColumn.COUNT] for row in rows))

    def peaks(self) -> Mapping[str, Sequence[int | None]]:
        """For each group a value of every step; None where nothing was sampled."""
        nothing: list[int | None] = [None] * self._count
        return {group: self._peaks.get(group, nothing) for group in self._query.groups}

    def _rows(self, names: Sequence[LagName]) -> dict[str, list[int]]:
        groups = self._query.groups
        rows: dict[str, list[int]] = {}
        for row, name in enumerate(names):
            if name.group in groups:
                rows.setdefault(name.group, []).append(row)
        return rows

    def _add(self, group: str, at_ms: int, count: int) -> None:
        query = self._query
        if query.from_ms <= at_ms < query.to_ms:
            values = self._peaks.get(group)
            if values is None:
                values = self._peaks[group] = [None] * self._count
            step = (at_ms - query.from_ms) // query.step_ms
            values[step] = max(count, values[step] or 0)
