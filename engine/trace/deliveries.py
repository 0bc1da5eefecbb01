"""Deliveries of one record to one group, as stages: trace rows in order, then how it stands now."""

from collections.abc import Callable, Iterable
from typing import Protocol

from engine.message import StoredMessage
from engine.trace.journey import Stage, StageName, StageOutcome, StageSource
from engine.trace.rows import Row, RowKind


class DeliveryStateLike(Protocol):
    """How a message stands with a group; `engine.delivery.delivery_state` has it."""

    @property
    def place(self) -> str: ...

    @property
    def client(self) -> str: ...

    @property
    def until_ms(self) -> int: ...


DeliveryStateOf = Callable[[str, str, int, int], DeliveryStateLike]  # group, topic, queue, offset

AHEAD, READY, INFLIGHT, WAITING, DONE = "ahead", "ready", "inflight", "waiting", "done"
ENDS = {
    RowKind.ACKED: StageOutcome.ACKED,
    RowKind.FAILED: StageOutcome.FAILED,
    RowKind.EXPIRED: StageOutcome.EXPIRED,
    RowKind.DEAD: StageOutcome.DEAD,
    RowKind.RETURNED: StageOutcome.RETURNED,
}
UNSEEN = "its hand-out was not recorded"
PASSED = (
    "the group is past it and no hand-out is recorded: its filter left it out, its place was set "
    "past it, or it was handed out while nothing was traced"
)


class DeliveryStages:
    """Takes the rows of one group in order; `stages` are its result."""

    def __init__(
        self, record: StoredMessage, group: str, state: DeliveryStateLike, *, goes_on: bool
    ) -> None:
        """`goes_on` says that a failed delivery went on as another record, which has the wait."""
        self._record = record
        self._group = group
        self._state = state
        self._goes_on = goes_on
        self._open: Row | None = None
        self._is_pulled = False
        self._free_ms = record.stored_ms  # since when it waits to be delivered
        self.stages: list[Stage] = []

    def take(self, rows: Iterable[Row]) -> None:
        """All rows of the group about the record."""
        for row in rows:
            if row.kind == RowKind.DELIVERED:
                self._begin(row)
            elif row.kind == RowKind.PULLED:
                self._is_pulled = True
                self._add(row, row.at_ms, row.at_ms, StageOutcome.PULLED)
            elif row.kind in ENDS:
                self._end(row)

    def close(self) -> None:
        """No more rows: what is open is as the group's progress says."""
        place = self._state.place
        if self._open is not None:
            is_held = place == INFLIGHT
            outcome = StageOutcome.INFLIGHT if is_held else StageOutcome.UNKNOWN
            self._add(self._open, self._open.at_ms, None, outcome)
        elif place == INFLIGHT:
            self._say(StageName.DELIVERY, StageOutcome.INFLIGHT, self._state.client, UNSEEN)
        elif place in (AHEAD, READY) and not self._is_pulled:
            self._say(StageName.WAIT, StageOutcome.WAITING)
        elif place == DONE and not self.stages:
            self._say(StageName.WAIT, StageOutcome.PASSED, detail=PASSED)

    def _begin(self, row: Row) -> None:
        if self._open is not None:  # its end was not recorded
            self._add(self._open, self._open.at_ms, row.at_ms, StageOutcome.UNKNOWN)
        elif row.at_ms >= self._free_ms:
            self._wait(StageName.WAIT, self._free_ms, row.at_ms, StageOutcome.DELIVERED)
        self._open = row

    def _end(self, row: Row) -> None:
        begin, self._open = self._open, None
        outcome = ENDS[RowKind(row.kind)]
        if begin is None:
            self._add(row, row.at_ms, row.at_ms, outcome, row.detail or UNSEEN)
        else:
            self._add(begin, begin.at_ms, row.at_ms, outcome, row.detail)
        self._free_ms = row.at_ms
        if row.kind in (RowKind.FAILED, RowKind.EXPIRED) and not self._goes_on:
            self._free_ms = row.at_ms + row.wait_ms
            if row.wait_ms:
                is_over = self._state.place != WAITING
                outcome = StageOutcome.RELEASED if is_over else StageOutcome.WAITING
                self._wait(StageName.RETRY_WAIT, row.at_ms, self._free_ms, outcome, row.attempt + 1)

    def _wait(
        self, name: StageName, at_ms: int, until_ms: int, outcome: StageOutcome, attempt: int = 0
    ) -> None:
        self.stages.append(
            self._stage(name, at_ms, until_ms, outcome, StageSource.TRACE, attempt=attempt)
        )

    def _say(
        self, name: StageName, outcome: StageOutcome, client: str = "", detail: str = ""
    ) -> None:
        """What the group's progress says and no row does."""
        at_ms = self._free_ms
        self.stages.append(
            self._stage(
                name, at_ms, None, outcome, StageSource.PROGRESS, client=client, detail=detail
            )
        )

    def _add(
        self, row: Row, at_ms: int, until_ms: int | None, outcome: StageOutcome, detail: str = ""
    ) -> None:
        self.stages.append(
            self._stage(
                StageName.DELIVERY,
                at_ms,
                until_ms,
                outcome,
                StageSource.TRACE,
                client=row.client,
                attempt=row.attempt,
                detail=detail,
            )
        )

    def _stage(
        self,
        name: StageName,
        at_ms: int,
        until_ms: int | None,
        outcome: StageOutcome,
        source: StageSource,
        *,
        client: str = "",
        attempt: int = 0,
        detail: str = "",
    ) -> Stage:
        record = self._record
        return Stage(
            name=name,
            at_ms=at_ms,
            until_ms=until_ms,
            outcome=outcome,
            source=source,
            group=self._group,
            client=client,
            attempt=attempt,
            detail=detail,
            topic=record.topic,
            queue=record.queue,
            offset=record.offset,
        )
