"""Assembles a journey from records, trace rows, client reports and the states of groups."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from engine.message import FAILED_CLIENT, FAILED_ERROR, FAILED_REASON, StoredMessage
from engine.topic.names import DEAD_LETTER_PREFIX, OP_TOPIC
from engine.trace.client_traces import ClientTrace, ContextKind
from engine.trace.deliveries import DeliveryStages, DeliveryStateOf
from engine.trace.finder import ClientReport, JourneyEvidence
from engine.trace.journey import Branch, GroupState, Stage, StageName, StageOutcome, StageSource
from engine.trace.origins import (
    TRANSACTION_TOPICS,
    WAITING_TOPICS,
    Place,
    bound_for,
    group_of,
    is_original,
    job_of,
    place_of,
    places_left,
)
from engine.trace.rows import Row, RowKind

GROUPS_MAX = 100
SENT = "sent"  # of a replayed message's outcomes
DECISIONS = {
    RowKind.RECALLED: StageOutcome.RECALLED,
    RowKind.RESCHEDULED: StageOutcome.RESCHEDULED,
    RowKind.COMMITTED: StageOutcome.COMMITTED,
    RowKind.ROLLED_BACK: StageOutcome.ROLLED_BACK,
    RowKind.CHECK_GIVEN_UP: StageOutcome.GIVEN_UP,
}
CLOCK_AHEAD = "the producer's clock is ahead of the broker's by {} ms"


class JourneyContext(NamedTuple):
    """The parts of the engine that assembling needs."""

    groups_of: Callable[[str], Sequence[str]]  # that consume a topic
    delivery_states: DeliveryStateOf
    now_ms: int


class JourneyAssembler:
    """Makes the stages of one journey, in the order in which they began."""

    def __init__(self, evidence: JourneyEvidence, around: JourneyContext) -> None:
        self._evidence = evidence
        self._around = around
        # Where a message left a place, the record that it went on as.
        self._next: dict[Place, StoredMessage] = {
            place: record for record in evidence.records for place in places_left(record)
        }

    def stages(self) -> list[Stage]:
        """Everything, by time; what happened in the same millisecond in the order of the log."""
        evidence = self._evidence
        stages = [_refused(row) for row in evidence.unplaced if row.kind == RowKind.REFUSED]
        for index, (record, rows) in enumerate(zip(evidence.records, evidence.rows, strict=True)):
            if record.topic == OP_TOPIC:
                continue
            if index == 0:
                stages.append(_produced(record))
            stages += self._of_record(record, rows)
        stages += _request_stages(evidence.correlated, self._around.now_ms)
        stages += _client_stages(evidence.client_reports)
        return sorted(stages, key=lambda stage: stage.at_ms)

    def _of_record(self, record: StoredMessage, rows: Sequence[Row]) -> Iterator[Stage]:
        if record.topic in WAITING_TOPICS or record.topic in TRANSACTION_TOPICS:
            yield self._waited(record, rows)
            yield from _checks(record, rows)
            return
        yield from _arrived(record)
        yield from self._delivered(record, rows)
        has_copy = place_of(record) in self._next
        for row in rows:
            if row.kind != RowKind.REPLAYED:
                continue
            if row.detail != SENT:
                yield _moment(record, StageName.REPLAY, row, StageOutcome.LEFT_OUT)
            elif not has_copy:  # which says so itself
                yield _moment(record, StageName.REPLAY, row, StageOutcome.REPLAYED)

    def _waited(self, record: StoredMessage, rows: Sequence[Row]) -> Stage:
        """A wait for a time or a decision, and what ended it."""
        is_half = record.topic in TRANSACTION_TOPICS
        group = group_of(bound_for(record))
        until_ms, outcome, detail = None, StageOutcome.WAITING, ""
        after = self._next.get(place_of(record))
        if after is not None:
            until_ms = after.stored_ms
            outcome = StageOutcome.COMMITTED if is_half else StageOutcome.RELEASED
        for row in rows:
            if row.kind in DECISIONS:
                until_ms, outcome = row.at_ms, DECISIONS[RowKind(row.kind)]
                detail = f"by {row.detail}" if row.detail else ""
        name = StageName.RETRY_WAIT if group else StageName.DELAY
        return _stage(
            record,
            StageName.TRANSACTION if is_half else name,
            until_ms,
            outcome,
            group=group,
            attempt=record.attempt if group else 0,
            detail=detail,
        )

    def _delivered(self, record: StoredMessage, rows: Sequence[Row]) -> Iterator[Stage]:
        """Every group's deliveries of one record."""
        by_group: dict[str, list[Row]] = {}
        for group in self._around.groups_of(record.topic)[:GROUPS_MAX]:
            by_group[group] = []
        for row in rows:
            if row.group:
                by_group.setdefault(row.group, []).append(row)
        place = place_of(record)
        for group, own in by_group.items():
            standing = self._around.delivery_states(group, *place)
            deliveries = DeliveryStages(
                record, group, standing, goes_on=self._went_on(group, place)
            )
            deliveries.take(own)
            deliveries.close()
            yield from deliveries.stages

    def _went_on(self, group: str, place: Place) -> bool:
        """Whether a failure made another record, whose wait is a stage of its own."""
        return any(
            place in places_left(record) and group_of(bound_for(record)) == group
            for record in self._evidence.records
        )


def branches(stages: Iterable[Stage]) -> list[Branch]:
    """The final state of each group, by name; `stages` in order of time."""
    last: dict[str, Stage] = {}
    counts: dict[str, int] = {}
    for stage in stages:
        if not stage.group or stage.source is StageSource.CLIENT or stage.name in NO_BRANCH:
            continue
        last[stage.group] = stage
        is_delivery = stage.name is StageName.DELIVERY
        counts[stage.group] = counts.get(stage.group, 0) + is_delivery
    return [
        Branch(group, _state(stage), counts[group], stage.until_ms or stage.at_ms)
        for group, stage in sorted(last.items())
    ]


NO_BRANCH = frozenset({StageName.TRANSACTION, StageName.CHECK, StageName.REPLAY})
STATES = {
    StageOutcome.INFLIGHT: GroupState.INFLIGHT,
    StageOutcome.ACKED: GroupState.DONE,
    StageOutcome.DEAD: GroupState.DEAD,
    StageOutcome.PULLED: GroupState.PULLED,
    StageOutcome.PASSED: GroupState.PASSED,
}


def _state(stage: Stage) -> GroupState:
    if stage.name is StageName.DEAD_LETTER:
        return GroupState.DEAD
    if stage.name is StageName.RETRY_WAIT:
        return GroupState.RETRY_WAITING
    if stage.name is StageName.WAIT and stage.outcome is StageOutcome.WAITING:
        return GroupState.WAITING
    return STATES.get(stage.outcome, GroupState.UNKNOWN)


def _produced(record: StoredMessage) -> Stage:
    """From the producer's clock to the log: what is left of that where the first record is gone."""
    ahead_ms = record.born_ms - record.stored_ms
    return Stage(
        name=StageName.PRODUCE,
        at_ms=min(record.born_ms, record.stored_ms),
        until_ms=record.stored_ms if is_original(record) else None,
        outcome=StageOutcome.STORED,
        source=StageSource.LOG,
        client=record.born_host,
        detail=CLOCK_AHEAD.format(ahead_ms) if ahead_ms > 0 else "",
        topic=record.origin_topic if not is_original(record) else bound_for(record),
    )


def _refused(row: Row) -> Stage:
    return Stage(
        name=StageName.REFUSED,
        at_ms=row.at_ms,
        until_ms=row.at_ms,
        outcome=StageOutcome.REFUSED,
        source=StageSource.TRACE,
        client=row.client,
        detail=row.detail,
        topic=row.topic,
    )


def _request_stages(rows: Sequence[Row], now_ms: int) -> Iterator[Stage]:
    """A request's wait for its reply, and what came; `rows` are those of its correlation id."""
    for row in rows:
        if row.kind == RowKind.REQUESTED:
            ends = (each for each in rows if each.kind in ENDS_OF_REQUEST)
            end = next(ends, None)
            outcome = StageOutcome.WAITING if end is None else ENDS_OF_REQUEST[RowKind(end.kind)]
            if end is None and now_ms > row.at_ms + row.wait_ms + REQUEST_GRACE_MS:
                outcome = StageOutcome.UNKNOWN  # the requester went away, which nothing records
            until_ms = None if end is None else end.at_ms
            yield _of_request(row, StageName.REQUEST, until_ms, outcome)
        elif row.kind in (RowKind.REPLIED, RowKind.REPLIED_LATE):
            outcome = StageOutcome.REPLIED if row.kind == RowKind.REPLIED else StageOutcome.LATE
            yield _of_request(row, StageName.REPLY, row.at_ms, outcome)


REQUEST_GRACE_MS = 1000
ENDS_OF_REQUEST = {
    RowKind.REPLIED: StageOutcome.REPLIED,
    RowKind.REQUEST_EXPIRED: StageOutcome.EXPIRED,
}


def _of_request(row: Row, name: StageName, until_ms: int | None, outcome: StageOutcome) -> Stage:
    return Stage(
        name=name,
        at_ms=row.at_ms,
        until_ms=until_ms,
        outcome=outcome,
        source=StageSource.TRACE,
        client=row.client,
        detail=row.detail,
        topic=row.topic,
    )


def _arrived(record: StoredMessage) -> Iterator[Stage]:
    """What its coming into a topic means: stored, a dead letter, replayed; a retry was a wait."""
    properties = record.properties
    job = job_of(record)
    if job:
        (topic, queue, offset), *_ = places_left(record) or [("", -1, -1)]
        detail = f"from {topic}, queue {queue}, offset {offset}"
        yield _stage(
            record, StageName.REPLAY, None, StageOutcome.REPLAYED, client=job, detail=detail
        )
    elif record.topic.startswith(DEAD_LETTER_PREFIX):
        reason, error = properties.get(FAILED_REASON, ""), properties.get(FAILED_ERROR, "")
        yield _stage(
            record,
            StageName.DEAD_LETTER,
            None,
            StageOutcome.DEAD,
            group=group_of(record.topic),
            client=properties.get(FAILED_CLIENT, ""),
            attempt=record.attempt - 1,
            detail=": ".join(filter(None, (reason, error))),
        )
    elif not group_of(record.topic):
        yield _stage(record, StageName.STORE, record.stored_ms, StageOutcome.STORED)


def _checks(record: StoredMessage, rows: Sequence[Row]) -> Iterator[Stage]:
    for row in rows:
        if row.kind == RowKind.CHECKED:
            is_asked = row.detail == "asked"
            outcome = StageOutcome.ASKED if is_asked else StageOutcome.NOBODY_TO_ASK
            yield _moment(record, StageName.CHECK, row, outcome)


def _moment(record: StoredMessage, name: StageName, row: Row, outcome: StageOutcome) -> Stage:
    stage = _stage(record, name, row.at_ms, outcome, group=row.group, client=row.client)
    changes = {"at_ms": row.at_ms, "source": StageSource.TRACE, "attempt": row.attempt}
    return msgspec.structs.replace(stage, detail=row.detail, **changes)


def _stage(
    record: StoredMessage,
    name: StageName,
    until_ms: int | None,
    outcome: StageOutcome,
    *,
    group: str = "",
    client: str = "",
    attempt: int = 0,
    detail: str = "",
) -> Stage:
    """A stage that begins with the record."""
    return Stage(
        name=name,
        at_ms=record.stored_ms,
        until_ms=until_ms,
        outcome=outcome,
        source=StageSource.LOG,
        group=group,
        client=client,
        attempt=attempt,
        detail=detail,
        topic=record.topic,
        queue=record.queue,
        offset=record.offset,
    )


# -- client reports ------------------------------------------------------------------------------

CLIENT_STAGES = {
    ContextKind.PUB: StageName.CLIENT_SEND,
    ContextKind.END_TRANSACTION: StageName.CLIENT_TRANSACTION,
    ContextKind.RECALL: StageName.CLIENT_RECALL,
}


def _client_stages(reports: Sequence[ClientReport]) -> Iterator[Stage]:
    """A stage for each context; a consumer's reports before and after are one."""
    afters = {
        each.trace.request_id: each for each in reports if each.trace.kind is ContextKind.SUB_AFTER
    }
    begun = {each.trace.request_id for each in reports if each.trace.kind is ContextKind.SUB_BEFORE}
    for each in reports:
        trace = each.trace
        if trace.kind is ContextKind.SUB_BEFORE:
            yield _consumed(trace, afters.get(trace.request_id), each.at_ms)
        elif trace.kind is not ContextKind.SUB_AFTER:
            outcome = StageOutcome.SUCCESS if trace.is_success else StageOutcome.FAILED
            detail = trace.state or trace.code
            name = CLIENT_STAGES[trace.kind]
            yield _by_client(trace, name, trace.at_ms or each.at_ms, outcome, detail)
        elif trace.request_id not in begun:
            yield _consumed(trace, each, each.at_ms)


def _consumed(begin: ClientTrace, after: ClientReport | None, told_ms: int) -> Stage:
    """`begin` is the context before, or the one after where that is all there is."""
    end = None if after is None else after.trace
    at_ms = begin.at_ms or told_ms
    if end is not None and begin is end and end.duration_ms > 0:
        at_ms -= end.duration_ms
    outcome = StageOutcome.UNKNOWN
    if end is not None:
        outcome = StageOutcome.SUCCESS if end.is_success else StageOutcome.FAILED
    merged = msgspec.structs.replace(
        begin,
        duration_ms=-1 if end is None else end.duration_ms,
        group=begin.group or ("" if end is None else end.group),
    )
    code = "" if end is None else end.code
    return _by_client(merged, StageName.CLIENT_CONSUME, at_ms, outcome, code)


def _by_client(
    trace: ClientTrace, name: StageName, at_ms: int, outcome: StageOutcome, detail: str
) -> Stage:
    is_consume = name is StageName.CLIENT_CONSUME
    return Stage(
        name=name,
        at_ms=at_ms,
        until_ms=at_ms + trace.duration_ms if trace.duration_ms >= 0 else None,
        outcome=outcome,
        source=StageSource.CLIENT,
        group=trace.group,
        client=trace.client,
        attempt=trace.retry_times + 1 if is_consume else 0,
        detail=detail,
        topic=trace.topic,
    )
