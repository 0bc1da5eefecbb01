"""A rule and where it stands."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from app.db.alert_rows import RuleRow, StateRow
from kitemq.model.alerts import RuleState

ORDER = (RuleState.FIRING, RuleState.PENDING, RuleState.NO_DATA, RuleState.OK)


@dataclass
class RuleStatus:
    """A rule and where it stands; `at_ms` is its last evaluation, 0 before the first."""

    rule: RuleRow
    by_subject: Mapping[str, StateRow] = field(default_factory=dict)  # but for those at "ok"
    checked: int = 0
    left_out: int = 0
    at_ms: int = 0

    @property
    def states(self) -> list[StateRow]:
        """Its subjects, the worst first."""
        return sorted(
            self.by_subject.values(), key=lambda s: (ORDER.index(RuleState(s.state)), s.subject)
        )

    @property
    def state(self) -> RuleState:
        """That of its worst subject."""
        states = {row.state for row in self.by_subject.values()}
        return next((state for state in ORDER if state in states), RuleState.OK)
