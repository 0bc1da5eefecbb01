"""SQL of alerts; each method is one transaction."""

from dataclasses import asdict, replace

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from app.db.alert_rows import (
    DeliveryRow,
    RuleRow,
    SilenceRow,
    StateChanges,
    StateRow,
    TransitionRow,
)
from app.db.store import TableStore, count_rows, insert_row, newest, read, trim, update_row
from app.db.tables import (
    alert_deliveries,
    alert_rules,
    alert_silences,
    alert_states,
    alert_transitions,
)

HISTORY_MAX = 10_000  # transitions, and deliveries, that are kept
WAITING_MAX = 1_000  # deliveries that wait for one address
WAITING = "waiting"
DROPPED = "dropped"


class AlertStore(TableStore):
    """The part of the database that holds alerts."""

    # -- rules ------------------------------------------------------------------------------------

    def rules(self) -> list[RuleRow]:
        """All rules by name."""
        # Sorted here: databases differ over capitals.
        return sorted(self._read(select(alert_rules), RuleRow), key=lambda rule: rule.name)

    def insert_rule(self, rule: RuleRow) -> RuleRow:
        """Insert a rule; returns it with its id."""
        return self._insert(alert_rules, rule)

    def update_rule(self, rule: RuleRow) -> None:
        """Update a rule."""
        with self._transaction() as connection:
            update_row(connection, alert_rules, rule)

    def delete_rule(self, rule_id: int, changes: StateChanges) -> None:
        """Delete a rule with its silences; `changes` end its states."""
        with self._transaction() as connection:
            _apply(connection, changes)
            for table in (alert_states, alert_silences):
                connection.execute(delete(table).where(table.c.rule_id == rule_id))
            connection.execute(delete(alert_rules).where(alert_rules.c.id == rule_id))

    # -- states -----------------------------------------------------------------------------------

    def states(self) -> list[StateRow]:
        """Every state but "ok"."""
        return self._read(select(alert_states), StateRow)

    def apply(self, changes: StateChanges) -> None:
        """Write the changes of an evaluation."""
        with self._transaction() as connection:
            _apply(connection, changes)

    def transitions(self, limit: int) -> list[TransitionRow]:
        """The newest changes of state, at most 200."""
        return self._read(newest(alert_transitions, limit), TransitionRow)

    # -- deliveries -------------------------------------------------------------------------------

    def deliveries(self, limit: int, before_id: int | None = None) -> list[DeliveryRow]:
        """The newest deliveries, at most 200, older than `before_id`."""
        older = () if before_id is None else (alert_deliveries.c.id < before_id,)
        return self._read(newest(alert_deliveries, limit, *older), DeliveryRow)

    def next_waiting(self, url: str) -> DeliveryRow | None:
        """The oldest pending delivery of an address."""
        table = alert_deliveries
        waiting = select(table).where(table.c.url == url, table.c.result == WAITING)
        return self._read_one(waiting.order_by(table.c.id).limit(1), DeliveryRow)

    def settle(self, delivery: DeliveryRow) -> None:
        """Write the result of a delivery attempt."""
        with self._transaction() as connection:
            update_row(connection, alert_deliveries, delivery)

    def abandon(self, urls: tuple[str, ...], result: str, error: str) -> None:
        """Drop pending deliveries of addresses other than these."""
        columns = alert_deliveries.c
        others = (columns.result == WAITING, columns.url.not_in(urls))
        self._execute(update(alert_deliveries).where(*others).values(result=result, error=error))

    # -- silences ---------------------------------------------------------------------------------

    def silences(self, now_ms: int) -> list[SilenceRow]:
        """Active silences; expired ones are deleted."""
        table = alert_silences
        with self._transaction() as connection:
            connection.execute(delete(table).where(table.c.until_ms <= now_ms))
            return read(connection, select(table).order_by(table.c.until_ms), SilenceRow)

    def insert_silence(self, silence: SilenceRow) -> SilenceRow:
        """Insert a silence; returns it with its id."""
        return self._insert(alert_silences, silence)

    def delete_silence(self, silence_id: int) -> None:
        """End a silence."""
        self._execute(delete(alert_silences).where(alert_silences.c.id == silence_id))


def _apply(connection: Connection, changes: StateChanges) -> None:
    states = alert_states
    gone = [*changes.ended, *((state.rule_id, state.subject) for state in changes.states)]
    if gone:
        connection.execute(
            delete(states).where(
                states.c.rule_id == bindparam("rule"), states.c.subject == bindparam("of")
            ),
            [{"rule": rule_id, "of": subject} for rule_id, subject in gone],
        )
    if changes.states:
        connection.execute(insert(states), [asdict(state) for state in changes.states])
    for transition in changes.transitions:
        insert_row(connection, alert_transitions, transition)
    for delivery in changes.deliveries:
        insert_row(connection, alert_deliveries, _bounded(connection, delivery))
    if changes.transitions:
        trim(connection, alert_transitions.c.id, HISTORY_MAX)
    if changes.deliveries:
        trim(connection, alert_deliveries.c.id, HISTORY_MAX)


def _bounded(connection: Connection, delivery: DeliveryRow) -> DeliveryRow:
    """The delivery, dropped at once if too many wait for its address."""
    columns = alert_deliveries.c
    same = (columns.url == delivery.url, columns.result == WAITING)
    if count_rows(connection, alert_deliveries, *same) < WAITING_MAX:
        return delivery
    return replace(delivery, result=DROPPED, error=f"{WAITING_MAX} deliveries waited already")
