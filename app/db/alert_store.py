"""SQL of alerts; each method is one transaction."""

from dataclasses import asdict, replace

from sqlalchemy import Connection, bindparam, delete, insert, or_, select, update

from app.db.alert_rows import (
    DeliveryRow,
    ReceiverRow,
    RuleRow,
    SilenceRow,
    StateChanges,
    StateRow,
    TransitionRow,
)
from app.db.store import (
    TableStore,
    count_rows,
    insert_row,
    newest,
    read,
    read_one,
    trim,
    update_row,
)
from app.db.tables import (
    alert_deliveries,
    alert_receivers,
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

    # -- receivers --------------------------------------------------------------------------------

    def receivers(self) -> list[ReceiverRow]:
        """All receivers by name."""
        return sorted(self._read(select(alert_receivers), ReceiverRow), key=lambda each: each.name)

    def insert_receiver(self, receiver: ReceiverRow) -> ReceiverRow:
        """Insert a receiver; returns it with its id."""
        return self._insert(alert_receivers, receiver)

    def update_receiver(self, receiver: ReceiverRow, now_ms: int) -> None:
        """Update a receiver; what it is held from by quiet hours or grouping is due now."""
        columns = alert_deliveries.c
        held = (columns.url == receiver.key, columns.result == WAITING, columns.attempts == 0)
        with self._transaction() as connection:
            update_row(connection, alert_receivers, receiver)
            connection.execute(
                update(alert_deliveries)
                .where(*held, columns.next_ms > now_ms)
                .values(next_ms=now_ms)
            )

    def delete_receiver(self, receiver: ReceiverRow, error: str) -> None:
        """Delete a receiver; its pending deliveries have failed, for the reason `error`."""
        columns = alert_deliveries.c
        pending = (columns.url == receiver.key, columns.result == WAITING)
        with self._transaction() as connection:
            connection.execute(
                update(alert_deliveries).where(*pending).values(result="failed", error=error)
            )
            connection.execute(delete(alert_receivers).where(alert_receivers.c.id == receiver.id))

    # -- states -----------------------------------------------------------------------------------

    def states(self) -> list[StateRow]:
        """Every state but "ok"."""
        return self._read(select(alert_states), StateRow)

    def apply(self, changes: StateChanges) -> None:
        """Write the changes of an evaluation."""
        with self._transaction() as connection:
            _apply(connection, changes)

    def transitions(
        self, limit: int, rule_id: int = 0, before_id: int | None = None
    ) -> list[TransitionRow]:
        """The newest changes of state, at most 200; of one rule, older than `before_id`."""
        columns = alert_transitions.c
        of_rule = (columns.rule_id == rule_id,) if rule_id else ()
        older = () if before_id is None else (columns.id < before_id,)
        return self._read(newest(alert_transitions, limit, *of_rule, *older), TransitionRow)

    # -- deliveries -------------------------------------------------------------------------------

    def deliveries(
        self, limit: int, before_id: int | None = None, url: str = ""
    ) -> list[DeliveryRow]:
        """The newest deliveries, at most 200, older than `before_id`, for one receiver's key."""
        columns = alert_deliveries.c
        older = () if before_id is None else (columns.id < before_id,)
        to = (columns.url == url,) if url else ()
        return self._read(newest(alert_deliveries, limit, *older, *to), DeliveryRow)

    def deliveries_of(self, event_ids: list[str]) -> list[DeliveryRow]:
        """The deliveries of some events, the oldest first."""
        table = alert_deliveries
        of_events = select(table).where(table.c.event_id.in_(event_ids))
        return self._read(of_events.order_by(table.c.id), DeliveryRow)

    def next_message(self, url: str, now_ms: int) -> list[DeliveryRow]:
        """The deliveries of a receiver's next message, which may be due later.

        What failed before, or is due, comes in order; what is held until later waits behind it. A
        message that is due is marked by `last_ms`, so that no delivery joins it while it is sent.
        """
        table = alert_deliveries
        waiting = select(table).where(table.c.url == url, table.c.result == WAITING)
        due = waiting.where(or_(table.c.attempts > 0, table.c.next_ms <= now_ms))
        with self._transaction() as connection:
            first = read_one(connection, due.order_by(table.c.id).limit(1), DeliveryRow)
            if first is None:
                held = waiting.order_by(table.c.next_ms, table.c.id).limit(1)
                first = read_one(connection, held, DeliveryRow)
            if first is None:
                return []
            same = (table.c.message_id == first.message_id, table.c.url == url)
            if first.next_ms <= now_ms:
                connection.execute(update(table).where(*same).values(last_ms=now_ms))
            message = waiting.where(*same).order_by(table.c.id)
            return read(connection, message, DeliveryRow)

    def settle(self, deliveries: list[DeliveryRow]) -> None:
        """Write the result of an attempt to deliver a message."""
        with self._transaction() as connection:
            for delivery in deliveries:
                update_row(connection, alert_deliveries, delivery)

    def hasten(self, urls: list[str], now_ms: int) -> None:
        """Retry the failed deliveries of some receivers now."""
        columns = alert_deliveries.c
        failed = (columns.url.in_(urls), columns.result == WAITING, columns.attempts > 0)
        self._execute(update(alert_deliveries).where(*failed).values(next_ms=now_ms))

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
        insert_row(
            connection, alert_deliveries, _grouped(connection, _bounded(connection, delivery))
        )
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


def _grouped(connection: Connection, delivery: DeliveryRow) -> DeliveryRow:
    """The delivery, with that of an unsent message of its rule if it asks for no message."""
    if delivery.message_id:
        return delivery
    columns = alert_deliveries.c
    same = (columns.url == delivery.url, columns.rule_id == delivery.rule_id)
    unsent = (columns.result == WAITING, columns.attempts == 0, columns.last_ms.is_(None))
    message = select(alert_deliveries).where(*same, *unsent).order_by(columns.id).limit(1)
    first = read_one(connection, message, DeliveryRow)
    if first is None or delivery.result != WAITING:
        return replace(delivery, message_id=delivery.event_id)
    return replace(delivery, message_id=first.message_id, next_ms=first.next_ms)
