"""A rule and where it stands: what is remembered of it, and what others are shown. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from app.db.alert_rows import RuleRow, StateRow
from kitemq.model.alerts import RuleState

ORDER = (RuleState.FIRING, RuleState.PENDING, RuleState.NO_DATA, RuleState.OK)


@dataclass(frozen=True)
class Standing:
    """A rule and where it stands; `at_ms` is its last evaluation, 0 before the first."""

    rule: RuleRow
    state: RuleState
    states: tuple[StateRow, ...] = ()
    checked: int = 0
    left_out: int = 0
    at_ms: int = 0


@dataclass
class Kept:
    """What is remembered of one rule."""

    rule: RuleRow
    states: Mapping[str, StateRow] = field(default_factory=dict)
    checked: int = 0
    left_out: int = 0
    at_ms: int = 0

    def standing(self) -> Standing:
        states = sorted(
            self.states.values(), key=lambda s: (ORDER.index(RuleState(s.state)), s.subject)
        )
        worst = RuleState(states[0].state) if states else RuleState.OK
        return Standing(self.rule, worst, tuple(states), self.checked, self.left_out, self.at_ms)
