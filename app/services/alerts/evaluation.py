"""Evaluates one rule against its readings: the new states and the rows to write. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from uuid import uuid4

from app.db.alert_rows import DeliveryRow, RuleRow, StateChanges, StateRow, TransitionRow
from app.services.alerts.events import FIRING, RESOLVED, Teller
from app.services.alerts.machine import Reading, event_of, move
from kitemq.model.alerts import RuleState
from kitemq.model.conversion import convert

SUBJECT_CHARS_MAX = 255
GONE = "no longer there"

# Whether a subject is silenced now.
IsSilent = Callable[[str], bool]


@dataclass(frozen=True)
class Evaluated:
    """`states` by subject, without those that are "ok"; `left_out` subjects found no room."""

    states: Mapping[str, StateRow]
    changes: StateChanges
    checked: int
    left_out: int = 0


@dataclass
class _Draft:
    """Collects the rows to write for one rule."""

    rule: RuleRow
    teller: Teller
    now_ms: int
    is_silent: IsSilent
    states: dict[str, StateRow] = field(default_factory=dict)
    written: list[StateRow] = field(default_factory=list)
    ended: list[tuple[int, str]] = field(default_factory=list)
    transitions: list[TransitionRow] = field(default_factory=list)
    deliveries: list[DeliveryRow] = field(default_factory=list)

    def take(self, before: StateRow | None, reading: Reading) -> None:
        """Move one subject."""
        state = RuleState(before.state) if before else RuleState.OK
        since_ms = before.since_ms if before else self.now_ms
        event = event_of(reading, state, since_ms, self.now_ms, self.rule.for_s)
        after = move(state, event)
        if after is RuleState.OK:
            if before is not None:
                self.end(before, reading.value, reading.detail)
            return
        if before is not None and after is state:
            row = replace(before, value=reading.value, detail=reading.detail)
        else:
            row = self._enter(before, after, reading)
        row_after = self._tell(row)
        self.states[row.subject] = row_after
        if before is None or after is not state or row_after.is_told is not row.is_told:
            self.written.append(row_after)

    def end(self, before: StateRow, value: int | None, detail: str) -> None:
        """A subject is "ok" again, or no longer there."""
        event_id = uuid4().hex
        ended = replace(before, value=value, detail=detail, event_id=event_id)
        self.ended.append((before.rule_id, before.subject))
        self._note(before.state, RuleState.OK, ended)
        if before.is_told:
            self._notify(RESOLVED, ended, self.now_ms)

    def finished(self) -> StateChanges:
        return StateChanges(
            tuple(self.written), tuple(self.ended), tuple(self.transitions), tuple(self.deliveries)
        )

    def _enter(self, before: StateRow | None, after: RuleState, reading: Reading) -> StateRow:
        row = StateRow(
            rule_id=self.rule.id,
            subject=reading.subject,
            state=after,
            since_ms=self.now_ms,
            value=reading.value,
            detail=reading.detail,
            event_id=uuid4().hex,
        )
        self._note(before.state if before else RuleState.OK, after, row)
        return row

    def _tell(self, row: StateRow) -> StateRow:
        """Mark a firing alert for notification, unless it is silenced or was notified before."""
        if row.state != RuleState.FIRING or row.is_told or self.is_silent(row.subject):
            return row
        return replace(row, is_told=self._notify(FIRING, row, row.since_ms))

    def _notify(self, event: str, row: StateRow, at_ms: int) -> bool:
        """Add a delivery for each receiver of the rule; whether there is one."""
        rows = self.teller.event(
            event, row.event_id, self.rule, row, at_ms=at_ms, now_ms=self.now_ms
        )
        self.deliveries.extend(rows)
        return bool(rows)

    def _note(self, before: str, after: str, row: StateRow) -> None:
        self.transitions.append(
            convert(
                row,
                TransitionRow,
                at_ms=self.now_ms,
                rule_name=self.rule.name,
                severity=self.rule.severity,
                before=before,
                after=after,
            )
        )


def evaluate(
    rule: RuleRow,
    readings: Sequence[Reading],
    states: Mapping[str, StateRow],
    *,
    now_ms: int,
    is_silent: IsSilent,
    teller: Teller,
    room: int,
) -> Evaluated:
    """Evaluate `readings` against the previous `states`, of which `room` may be kept."""
    draft = _Draft(rule, teller, now_ms, is_silent)
    standing = [each for each in readings if each.is_over is not False or each.subject in states]
    chosen = _chosen(standing, states, room)
    for reading in chosen:
        draft.take(states.get(reading.subject), reading)
    read = {reading.subject for reading in readings}
    for subject, before in states.items():
        if subject not in read:
            draft.end(before, None, GONE)
    return Evaluated(draft.states, draft.finished(), len(readings), len(standing) - len(chosen))


def ended(
    rule: RuleRow, states: Mapping[str, StateRow], *, now_ms: int, detail: str, teller: Teller
) -> StateChanges:
    """The rows to write when a rule ends."""
    draft = _Draft(rule, teller, now_ms, lambda _: False)
    for before in states.values():
        draft.end(before, None, detail)
    return draft.finished()


def _chosen(
    readings: Sequence[Reading], states: Mapping[str, StateRow], room: int
) -> Sequence[Reading]:
    """All of them; of too many those that have a state, then those over the threshold."""
    if len(readings) <= room:
        return readings
    ranked = sorted(readings, key=lambda r: (r.subject not in states, not r.is_over, r.subject))
    return ranked[: max(0, room)]
