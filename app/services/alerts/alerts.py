"""Alert rules, their states, silences and notifications, for pages and programs.

Rules are evaluated every ten seconds, in small steps beside the traffic. A change of state is
written in one transaction with its notifications, and becomes visible only then: a crash neither
loses a change nor notifies twice.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from uuid import uuid4

from app.db.alert_rows import (
    DeliveryRow,
    RuleRow,
    SilenceRow,
    StateChanges,
    StateRow,
    TransitionRow,
)
from app.db.rows import Actor
from app.db.worker import DatabaseAsker, DatabaseWorker
from app.host import EngineHost
from app.services.alerts import evaluation
from app.services.alerts.events import FAILED, Teller
from app.services.alerts.machine import Reading
from app.services.alerts.readings import Readings
from app.services.alerts.rules import RULES_MAX, checked
from app.services.alerts.standing import ORDER, RuleStatus
from app.services.alerts.webhook import BACKOFF_S, Webhooks
from app.services.audit import Audit
from app.services.reports.reports import Reports
from app.services.targets import Targets
from app.settings import Settings
from app.tasks import end_tasks
from engine.broker import GroupLag
from engine.errors import Busy, Conflict, Invalid, NotFound, Refused
from kitemq.model.alerts import RuleState

log = logging.getLogger("kitemq.alerts")

INTERVAL_S = 10.0
FIRST_S = 2.0
SHARE_MAX = 0.1  # of the loop's time, however many rules and groups there are
# States of all rules together may take 32 MiB: one takes less than 1 KiB. "ok" takes none.
STATES_MAX = (32 << 20) // (1 << 10)
SILENCES_MAX = 500
SILENCE_MAX_MS = 366 * 24 * 3600 * 1000
NOTE_CHARS_MAX = 512
KIND = "alert_rule"
NOT_CONFIGURED = "the address is no longer among the settings"


class Alerts:
    """Between `start` and `stop` it evaluates by itself; `evaluate` does so at once."""

    def __init__(
        self,
        host: EngineHost,
        audit: Audit,
        database: DatabaseWorker,
        reports: Reports,
        settings: Settings,
        *,
        targets: Targets,
        backoff_s: Sequence[float] = BACKOFF_S,
    ) -> None:
        """Evaluates rules and notifies webhooks; `targets` checks their addresses."""
        self._host = host
        self._audit = audit
        self._ask = DatabaseAsker(database, "the alerts cannot be read or written: {error}")
        self._teller = Teller(tuple(settings.alert_webhooks), settings.environment)
        self._webhooks = Webhooks(
            database,
            host.clock,
            urls=settings.alert_webhooks,
            secret=settings.alert_webhook_secret,
            targets=targets,
            backoff_s=backoff_s,
        )
        self._readings = Readings(host, host.config.data, reports)
        self._statuses: dict[int, RuleStatus] = {}
        self._silences: list[SilenceRow] = []
        self._is_loaded = False
        # Evaluations and changes follow one another, so that none works with what another changes.
        self._turn = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self.failure = ""  # why the last evaluation could not be kept; empty when it was

    # -- life -------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start evaluating rules and posting pending notifications."""
        self._task = asyncio.create_task(self._run())
        self._webhooks.start()

    async def stop(self) -> None:
        """Stop; pending notifications are posted after the next start."""
        await end_tasks(self._task)
        await self._webhooks.stop()

    async def _run(self) -> None:
        await asyncio.sleep(FIRST_S)
        while True:
            began_s = time.monotonic()
            try:
                await self.evaluate()
            except Exception:
                log.exception("the alert rules could not be evaluated")
            took_s = time.monotonic() - began_s
            await asyncio.sleep(max(INTERVAL_S, took_s / SHARE_MAX))

    # -- looking ----------------------------------------------------------------------------------

    @property
    def webhooks(self) -> tuple[str, ...]:
        """The webhooks' addresses."""
        return self._teller.urls

    async def standings(self) -> list[RuleStatus]:
        """Every rule and where it stands: what fires first, then by name."""
        await self._loaded()
        return sorted(self._statuses.values(), key=lambda s: (ORDER.index(s.state), s.rule.name))

    def firing(self) -> list[RuleStatus]:
        """Rules that fire now, without waiting for the database."""
        return [each for each in self._statuses.values() if each.state is RuleState.FIRING]

    @property
    def left_out(self) -> int:
        """The number of objects that are not watched, for lack of memory."""
        return sum(each.left_out for each in self._statuses.values())

    async def standing(self, rule_id: int) -> RuleStatus:
        """One rule; NotFound."""
        await self._loaded()
        return self._find(rule_id)

    async def silences(self) -> list[SilenceRow]:
        """Those in force, the one that ends first at the top."""
        await self._loaded()
        return self._in_force()

    async def transitions(self, limit: int) -> list[TransitionRow]:
        """The newest changes of state."""
        return await self._ask(lambda db: db.alerts.transitions(limit))

    async def deliveries(self, limit: int, before_id: int | None = None) -> list[DeliveryRow]:
        """The sent and pending notifications, newest first."""
        return await self._ask(lambda db: db.alerts.deliveries(limit, before_id))

    def is_silent(self, rule_id: int, subject: str) -> bool:
        """Whether notifications of a rule and a subject are silenced now."""
        now_ms = self._host.clock.now_ms()
        return any(
            silence.rule_id in (0, rule_id)
            and silence.subject in ("", subject)
            and silence.until_ms > now_ms
            for silence in self._silences
        )

    # -- evaluating -------------------------------------------------------------------------------

    async def evaluate(self) -> None:
        """Evaluate every enabled rule now; failed writes are retried next time."""
        async with self._turn:
            try:
                await self._load()
                await self._evaluate()
            except Busy as error:
                if not self.failure:
                    log.error("alerts: %s", error.detail)
                self.failure = error.detail
            else:
                self.failure = ""

    async def _evaluate(self) -> None:
        lags: dict[str, GroupLag | None] = {}
        for status in list(self._statuses.values()):
            if not status.rule.is_enabled:
                await self._switch_off(status)
                continue
            readings = await self._readings.read(status.rule, lags)
            now_ms = self._host.clock.now_ms()
            states = sum(len(each.by_subject) for each in self._statuses.values())
            # On a thread, since thousands of groups may fire at once; the lock keeps changes out.
            evaluated = await asyncio.to_thread(
                evaluation.evaluate,
                status.rule,
                readings,
                status.by_subject,
                now_ms=now_ms,
                is_silent=partial(self.is_silent, status.rule.id),
                teller=self._teller,
                room=STATES_MAX - states + len(status.by_subject),
            )
            if evaluated.left_out and not status.left_out:
                log.warning(
                    "the alert rule %r does not watch %d objects: the states of all rules would "
                    "take more than 32 MiB; narrow its patterns",
                    status.rule.name,
                    evaluated.left_out,
                )
            await self._apply(evaluated.changes)
            status.by_subject = evaluated.states
            status.checked, status.left_out, status.at_ms = (
                evaluated.checked,
                evaluated.left_out,
                now_ms,
            )

    async def _apply(self, changes: StateChanges) -> None:
        if changes.is_empty:
            return
        await self._ask(lambda db: db.alerts.apply(changes))
        if changes.deliveries:
            self._webhooks.wake()

    async def preview(self, rule: RuleRow) -> list[Reading]:
        """Evaluate a rule without storing anything. Raises Invalid."""
        rule = replace(checked(rule), id=0, created_ms=self._host.clock.now_ms())
        return await self._readings.read(rule, {})

    # -- changing ---------------------------------------------------------------------------------

    async def create(self, actor: Actor, rule: RuleRow) -> RuleRow:
        """Add a rule. Raises Invalid, Conflict where its name is taken, Refused beyond 200."""
        now_ms = self._host.clock.now_ms()
        rule = replace(checked(rule), id=0, created_ms=now_ms, changed_ms=now_ms)
        async with self._turn:
            await self._load()
            self._check_name(rule)
            if len(self._statuses) >= RULES_MAX:
                raise Refused(f"there are {RULES_MAX} rules already", remedy="delete one first")
            async with self._audit.change(actor, "alert_rule.create", rule.name) as change:
                change.after = rule = await self._ask(lambda db: db.alerts.insert_rule(rule))
            self._statuses[rule.id] = RuleStatus(rule)
        return rule

    async def change(self, actor: Actor, rule: RuleRow) -> RuleRow:
        """Put a rule in the place of the one with its id. Raises NotFound, Invalid, Conflict."""
        async with self._turn:
            await self._load()
            status = self._find(rule.id)
            before, now_ms = status.rule, self._host.clock.now_ms()
            rule = replace(checked(rule), created_ms=before.created_ms, changed_ms=now_ms)
            self._check_name(rule)
            async with self._audit.change(
                actor, "alert_rule.change", before.name, before=before
            ) as change:
                await self._ask(lambda db: db.alerts.update_rule(rule))
                change.after = status.rule = rule
                if not rule.is_enabled:
                    await self._switch_off(status)
        return rule

    async def delete(self, actor: Actor, rule_id: int) -> None:
        """Delete a rule with its silences; its firing alerts are notified as resolved."""
        async with self._turn:
            await self._load()
            status = self._find(rule_id)
            name = status.rule.name
            async with self._audit.change(actor, "alert_rule.delete", name, before=status.rule):
                changes = self._ended(status, "the rule was deleted")
                await self._ask(lambda db: db.alerts.delete_rule(rule_id, changes))
            del self._statuses[rule_id]
            self._silences = [s for s in self._silences if s.rule_id != rule_id]
        self._webhooks.wake()

    async def acknowledge(self, actor: Actor, rule_id: int, subject: str) -> StateRow:
        """Acknowledge a firing alert until it ends.

        The first acknowledgement stays. Raises NotFound, Conflict if it does not fire.
        """
        async with self._turn:
            await self._load()
            status = self._find(rule_id)
            before = status.by_subject.get(subject)
            if before is None or before.state != RuleState.FIRING:
                about = f" for {subject!r}" if subject else ""
                raise Conflict(
                    f"the rule {status.rule.name!r} does not fire{about}",
                    field="subject",
                    remedy="look at the alerts again",
                )
            if before.acked_by:
                return before
            async with self._audit.change(
                actor, "alert.acknowledge", status.rule.name, kind=KIND, before=before
            ) as change:
                row = replace(before, acked_by=actor.name, acked_ms=self._host.clock.now_ms())
                await self._apply(StateChanges(states=(row,)))
                change.after = row
            status.by_subject = {**status.by_subject, subject: row}
        return row

    async def silence(
        self, actor: Actor, rule_id: int, subject: str, until_ms: int, note: str
    ) -> SilenceRow:
        """Tell nothing of a rule (0: of any), or of one subject, until a time."""
        now_ms = self._host.clock.now_ms()
        if not now_ms < until_ms <= now_ms + SILENCE_MAX_MS:
            raise Invalid(
                "a silence ends in the future, within a year",
                field="until_ms",
                remedy="give a later time",
            )
        if len(note) > NOTE_CHARS_MAX or len(subject) > evaluation.SUBJECT_CHARS_MAX:
            raise Invalid("the note or the subject is too long", field="note", remedy="shorten it")
        silence = SilenceRow(
            rule_id=rule_id,
            subject=subject,
            until_ms=until_ms,
            note=note,
            actor=actor.name,
            at_ms=now_ms,
        )
        async with self._turn:
            await self._load()
            name = self._find(rule_id).rule.name if rule_id else "every rule"
            self._silences = self._in_force()
            if len(self._silences) >= SILENCES_MAX:
                raise Refused(f"there are {SILENCES_MAX} silences", remedy="end one first")
            async with self._audit.change(actor, "alert.silence", name, kind=KIND) as change:
                change.after = row = await self._ask(lambda db: db.alerts.insert_silence(silence))
            self._silences.append(row)
        return row

    async def end_silence(self, actor: Actor, silence_id: int) -> None:
        """End a silence; alerts that still fire are notified at the next evaluation."""
        async with self._turn:
            await self._load()
            silence = next((s for s in self._silences if s.id == silence_id), None)
            if silence is None:
                raise NotFound(f"there is no silence {silence_id}", field="id")
            name = str(silence.rule_id)
            async with self._audit.change(
                actor, "alert.end_silence", name, kind=KIND, before=silence
            ):
                await self._ask(lambda db: db.alerts.delete_silence(silence_id))
            self._silences.remove(silence)

    async def test(self, actor: Actor) -> str:
        """Send every address an event that says it is a test; the event's id."""
        if not self._teller.urls:
            raise Refused(
                "no webhook is configured",
                remedy="set alert_webhooks to an address and restart the server",
            )
        event_id = uuid4().hex
        rows = self._teller.test(event_id, self._host.clock.now_ms())
        async with self._audit.change(actor, "alert.test", "", kind="alert_webhook") as change:
            await self._apply(StateChanges(deliveries=rows))
            change.after = {"event": event_id}
        return event_id

    # -- inside -----------------------------------------------------------------------------------

    def _in_force(self) -> list[SilenceRow]:
        now_ms = self._host.clock.now_ms()
        silences = (silence for silence in self._silences if silence.until_ms > now_ms)
        return sorted(silences, key=lambda silence: silence.until_ms)

    async def _loaded(self) -> None:
        """Readers of the state need not wait for an evaluation."""
        if not self._is_loaded:
            async with self._turn:
                await self._load()

    async def _load(self) -> None:
        """Load the stored state once; the caller holds the lock."""
        if self._is_loaded:
            return
        now_ms = self._host.clock.now_ms()
        rules = await self._ask(lambda db: db.alerts.rules())
        states = await self._ask(lambda db: db.alerts.states())
        self._silences = await self._ask(lambda db: db.alerts.silences(now_ms))
        await self._ask(lambda db: db.alerts.abandon(self._teller.urls, FAILED, NOT_CONFIGURED))
        self._statuses = {rule.id: RuleStatus(rule) for rule in rules}
        for state in states:
            status = self._statuses.get(state.rule_id)
            if status is not None:
                status.by_subject = {**status.by_subject, state.subject: state}
        self._is_loaded = True

    def _find(self, rule_id: int) -> RuleStatus:
        if rule_id not in self._statuses:
            raise NotFound(f"there is no alert rule {rule_id}", field="id")
        return self._statuses[rule_id]

    def _check_name(self, rule: RuleRow) -> None:
        for status in self._statuses.values():
            if status.rule.name == rule.name and status.rule.id != rule.id:
                raise Conflict(
                    f"a rule named {rule.name!r} exists already",
                    field="name",
                    remedy="choose another name",
                )

    async def _switch_off(self, status: RuleStatus) -> None:
        await self._apply(self._ended(status, "the rule was switched off"))
        status.by_subject = {}

    def _ended(self, status: RuleStatus, detail: str) -> StateChanges:
        now_ms = self._host.clock.now_ms()
        return evaluation.ended(
            status.rule, status.by_subject, now_ms=now_ms, detail=detail, teller=self._teller
        )
