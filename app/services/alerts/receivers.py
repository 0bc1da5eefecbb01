"""Receivers of notifications: made, changed, tested and deleted while the server runs.

Those of the setting `alert_webhooks` come first; only who runs the server can change them. Secrets
are stored and sent, but neither shown nor written to the audit trail.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from uuid import uuid4

import msgspec

from app.db.alert_rows import ReceiverRow, StateChanges
from app.db.rows import Actor
from app.db.worker import DatabaseAsker, DatabaseWorker
from app.services.alerts.events import FAILED, Teller
from app.services.alerts.notifier import Notifier
from app.services.alerts.receiver_checks import RECEIVERS_MAX, check_password, checked
from app.services.alerts.webhook import host_of
from app.services.audit import Audit
from app.services.targets import Targets
from app.settings import Settings
from engine.clock import Clock
from engine.errors import Conflict, NotFound, Refused
from kitemq.model.alerts import AlertReceiver, ReceiverKind
from kitemq.model.conversion import convert, encoded

KIND = "alert_receiver"
NOT_CONFIGURED = "the address is no longer among the settings"
DELETED = "the receiver was deleted"


def by_setting(settings: Settings) -> tuple[ReceiverRow, ...]:
    """The receivers of the setting `alert_webhooks`."""
    return tuple(
        ReceiverRow(
            name=host_of(url)[:128],
            kind=ReceiverKind.WEBHOOK,
            url=url,
            signing_secret=settings.alert_webhook_secret,
        )
        for url in dict.fromkeys(settings.alert_webhooks)
    )


class Receivers:
    """The receivers; `turn` orders their changes among those of rules."""

    def __init__(
        self,
        audit: Audit,
        database: DatabaseWorker,
        clock: Clock,
        settings: Settings,
        *,
        targets: Targets,
        turn: asyncio.Lock,
        backoff_s: Sequence[float],
    ) -> None:
        self._audit = audit
        self._ask = DatabaseAsker(database, "the receivers cannot be read or written: {error}")
        self._clock = clock
        self._targets = targets
        self._turn = turn
        self._fixed = by_setting(settings)
        self._rows: dict[int, ReceiverRow] = {}
        self.teller = Teller(self._fixed, settings.environment)
        self.notifier = Notifier(database, clock, self._fixed, targets=targets, backoff_s=backoff_s)
        # The names of rules that name a receiver; set by the owner of the rules.
        self.rules_naming: Callable[[int], list[str]] = lambda _: []

    async def load(self) -> None:
        """Load the stored receivers, and give up deliveries to those that are no more."""
        rows = await self._ask(lambda db: db.alerts.receivers())
        await self._publish({row.id: row for row in rows})
        keys = tuple(each.key for each in self.teller.receivers)
        await self._ask(lambda db: db.alerts.abandon(keys, FAILED, NOT_CONFIGURED))

    def all(self) -> list[ReceiverRow]:
        """Those of the setting, then the others by name."""
        return [*self._fixed, *sorted(self._rows.values(), key=lambda row: row.name)]

    def get(self, receiver_id: int) -> ReceiverRow:
        """A stored receiver; NotFound."""
        if receiver_id not in self._rows:
            raise NotFound(f"there is no receiver {receiver_id}", field="id")
        return self._rows[receiver_id]

    def check_ids(self, receiver_ids: Sequence[int]) -> None:
        """Raise NotFound (`receivers`) for an id that no receiver has."""
        for receiver_id in receiver_ids:
            if receiver_id not in self._rows:
                raise NotFound(
                    f"there is no receiver {receiver_id}",
                    field="receivers",
                    remedy="name receivers of GET /api/v1/alerts/receivers by their ids",
                )

    async def create(self, actor: Actor, receiver: ReceiverRow) -> ReceiverRow:
        """Add a receiver. Raises Invalid, Conflict where its name is taken, Refused beyond 50."""
        now_ms = self._clock.now_ms()
        receiver = checked(receiver, self._targets)
        receiver = replace(receiver, id=0, created_ms=now_ms, changed_ms=now_ms)
        async with self._turn:
            self._check_name(receiver)
            if len(self._rows) >= RECEIVERS_MAX:
                raise Refused(
                    f"there are {RECEIVERS_MAX} receivers already", remedy="delete one first"
                )
            async with self._audit.change(actor, "alert_receiver.create", receiver.name) as change:
                row = await self._ask(lambda db: db.alerts.insert_receiver(receiver))
                change.after = _audited(row)
            await self._publish(self._rows | {row.id: row})
        return row

    async def change(
        self, actor: Actor, receiver: ReceiverRow, *, has_password: bool = False
    ) -> ReceiverRow:
        """Put a receiver in the place of the one with its id; its kind stays.

        `has_password` says that the password was given anew. Raises NotFound, Invalid, Conflict.
        """
        async with self._turn:
            before = self.get(receiver.id)
            receiver = checked(replace(receiver, kind=before.kind), self._targets)
            check_password(before, receiver, is_given=has_password)
            now_ms = self._clock.now_ms()
            row = replace(receiver, created_ms=before.created_ms, changed_ms=now_ms)
            self._check_name(row)
            async with self._audit.change(
                actor, "alert_receiver.change", before.name, before=_audited(before)
            ) as change:
                await self._ask(lambda db: db.alerts.update_receiver(row, now_ms))
                change.after = _audited(row)
            await self._publish(self._rows | {row.id: row})
        return row

    async def delete(self, actor: Actor, receiver_id: int) -> None:
        """Delete a receiver. Raises NotFound, Conflict while a rule names it."""
        async with self._turn:
            row = self.get(receiver_id)
            names = self.rules_naming(receiver_id)
            if names:
                raise Conflict(
                    f"rules name the receiver: {', '.join(names[:5])}",
                    field="id",
                    remedy="let these rules name other receivers first",
                )
            async with self._audit.change(
                actor, "alert_receiver.delete", row.name, before=_audited(row)
            ):
                await self._ask(lambda db: db.alerts.delete_receiver(row, DELETED))
            await self._publish({key: each for key, each in self._rows.items() if key != row.id})

    async def test(self, actor: Actor, receiver_id: int = 0) -> str:
        """Send a test event to a receiver, or to all enabled ones; the event's id.

        Failed deliveries to it are retried at once, since the test waits for its turn behind them.
        """
        one = [self.get(receiver_id)] if receiver_id else None
        event_id, now_ms = uuid4().hex, self._clock.now_ms()
        rows = self.teller.test(event_id, now_ms, one)
        if not rows:
            raise Refused(
                "no receiver is enabled",
                remedy="add one, or set alert_webhooks to an address and restart the server",
            )
        name = one[0].name if one else ""
        async with self._audit.change(actor, "alert.test", name, kind=KIND) as change:
            await self._ask(lambda db: db.alerts.hasten([row.url for row in rows], now_ms))
            await self._ask(lambda db: db.alerts.apply(StateChanges(deliveries=rows)))
            change.after = {"event": event_id}
        self.notifier.wake()
        return event_id

    async def _publish(self, rows: dict[int, ReceiverRow]) -> None:
        self._rows = rows
        self.teller = replace(self.teller, receivers=(*self._fixed, *rows.values()))
        await self.notifier.change(self.teller.receivers)

    def _check_name(self, receiver: ReceiverRow) -> None:
        for each in self.all():
            if each.name == receiver.name and each.id != receiver.id:
                raise Conflict(
                    f"a receiver named {receiver.name!r} exists already",
                    field="name",
                    remedy="choose another name",
                )


def shown(row: ReceiverRow) -> AlertReceiver:
    """A receiver without its secrets."""
    is_mail = row.kind == ReceiverKind.EMAIL
    return convert(
        row,
        AlertReceiver,
        id=row.id or None,
        address=f"{row.smtp_host}:{row.smtp_port}" if is_mail else host_of(row.url),
        has_signing_secret=bool(row.signing_secret),
        has_smtp_password=bool(row.smtp_password),
        enabled=row.is_enabled,
    )


def _audited(row: ReceiverRow) -> object:
    return msgspec.to_builtins(shown(row), enc_hook=encoded)
