"""Alert rules, their states and silences, for pages and programs; receivers.py has the receivers.

Rules are evaluated every ten seconds, in small steps beside the traffic. A change of state is
written in one transaction with its notifications, and becomes visible only then: a crash neither
loses a change nor notifies twice.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from app.administration import Administration
from app.db.alert_rows import (
    DeliveryRow,
    ReceiverRow,
    RuleRow,
    SilenceRow,
    StateChanges,
    StateRow,
    TransitionRow,
)
from app.db.rows import Actor
from app.db.worker import DatabaseAsker, DatabaseWorker
from app.services.alerts import evaluation
from app.services.alerts.duty import AlertDuty
from app.services.alerts.machine import Reading
from app.services.alerts.notifier import BACKOFF_S
from app.services.alerts.readings import Readings
from app.services.alerts.receivers import Receivers
from app.services.alerts.rules import RULES_MAX, checked
from app.services.alerts.standing import ORDER, RuleStatus
from app.services.audit import Audit
from app.services.reports.reports import Reports
from app.services.targets import Targets
from app.settings import Settings
from app.tasks import end_tasks
from engine.broker import GroupLag
from engine.clock import Clock
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


class Alerts:
    """Between `start` and `stop` it evaluates by itself; `evaluate` does so at once."""

    def __init__(
        self,
        administration: Administration,
        audit: Audit,
        database: DatabaseWorker,
        reports: Reports,
        settings: Settings,
        *,
        targets: Targets,
        clock: Clock,
        backoff_s: Sequence[float] = BACKOFF_S,
    ) -> None:
        """Evaluates rules and notifies receivers; `targets` checks their addresses."""
        self._clock = clock
        self._audit = audit
        self._ask = DatabaseAsker(database, "the alerts cannot be read or written: {error}")
        self._duty = AlertDuty(self._ask, clock, settings.data)
        # Evaluations and changes follow one another, so that none works with what another changes.
        self._turn = asyncio.Lock()
        self.receivers = Receivers(
            audit,
            database,
            clock,
            settings,
            targets=targets,
            turn=self._turn,
            backoff_s=backoff_s,
        )
        self.receivers.rules_naming = self._rules_naming
        self._readings = Readings(administration, settings.data, reports, clock)
        self._statuses: dict[int, RuleStatus] = {}
        self._silences: list[SilenceRow] = []
        self._is_loaded = False
        self._task: asyncio.Task[None] | None = None
        self.failure = ""  # why the last evaluation could not be kept; empty when it was

    # -- life -------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start evaluating rules and sending pending notifications."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Stop; pending notifications are sent by another server, or after the next start."""
        await end_tasks(self._task)
        await self.receivers.notifier.stop()
        with contextlib.suppress(Busy):
            await self._duty.release()

    async def _run(self) -> None:
        await asyncio.sleep(FIRST_S)
        while True:
            began_s = time.monotonic()
            try:
                if await self._take_duty():
                    await self.evaluate()
            except Exception:
                log.exception("the alert rules could not be evaluated")
            took_s = time.monotonic() - began_s
            await asyncio.sleep(max(INTERVAL_S, took_s / SHARE_MAX))

    async def _take_duty(self) -> bool:
        """Whether this server is to evaluate; one that is not follows what another finds."""
        was_ours = self._duty.is_ours
        try:
            await self._duty.take()
            async with self._turn:
                self._is_loaded = self._is_loaded and not self._duty.is_changed
                if not self._duty.is_ours:
                    await self._load()
        except Busy as error:
            self._fail(error)
            return was_ours
        if self._duty.is_ours and not was_ours:
            self.receivers.notifier.start()
        elif was_ours and not self._duty.is_ours:
            await self.receivers.notifier.stop()
        return self._duty.is_ours

    def _fail(self, error: Busy) -> None:
        if not self.failure:
            log.error("alerts: %s", error.detail)
        self.failure = error.detail

    # -- looking ----------------------------------------------------------------------------------

    async def loaded_receivers(self) -> Receivers:
        """The receivers, the stored ones among them."""
        await self._loaded()
        return self.receivers

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

    async def deliveries(
        self, limit: int, before_id: int | None = None, receiver: ReceiverRow | None = None
    ) -> list[DeliveryRow]:
        """The sent and pending notifications, of one receiver or of all, newest first."""
        key = receiver.key if receiver else ""
        return await self._ask(lambda db: db.alerts.deliveries(limit, before_id, key))

    async def history(
        self, rule_id: int, limit: int, before_id: int | None = None
    ) -> list[tuple[TransitionRow, list[DeliveryRow]]]:
        """The changes of a rule's states with the deliveries that tell them, newest first."""
        changes = await self._ask(lambda db: db.alerts.transitions(limit, rule_id, before_id))
        event_ids = [change.event_id for change in changes]
        rows = await self._ask(lambda db: db.alerts.deliveries_of(event_ids))
        by_event: dict[str, list[DeliveryRow]] = {}
        for row in rows:
            by_event.setdefault(row.event_id, []).append(row)
        return [(change, by_event.get(change.event_id, [])) for change in changes]

    def is_silent(self, rule_id: int, subject: str) -> bool:
        """Whether notifications of a rule and a subject are silenced now."""
        now_ms = self._clock.now_ms()
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
                if self._duty.is_ours:
                    await self._duty.note(self._statuses)
            except Busy as error:
                self._fail(error)
            else:
                self.failure = ""

    async def _evaluate(self) -> None:
        lags: dict[str, GroupLag | None] = {}
        for status in list(self._statuses.values()):
            if not status.rule.is_enabled:
                await self._switch_off(status)
                continue
            try:
                readings = await self._readings.read(status.rule, lags)
            except Busy as error:  # a cluster is away: nothing is known, and nothing resolved
                subjects = status.by_subject or ("",)
                readings = [Reading(each, None, None, error.detail) for each in subjects]
            now_ms = self._clock.now_ms()
            states = sum(len(each.by_subject) for each in self._statuses.values())
            # On a thread, since thousands of groups may fire at once; the lock keeps changes out.
            evaluated = await asyncio.to_thread(
                evaluation.evaluate,
                status.rule,
                readings,
                status.by_subject,
                now_ms=now_ms,
                is_silent=partial(self.is_silent, status.rule.id),
                teller=self.receivers.teller,
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
            self.receivers.notifier.wake()

    async def preview(self, rule: RuleRow) -> list[Reading]:
        """Evaluate a rule without storing anything. Raises Invalid."""
        rule = replace(checked(rule), id=0, created_ms=self._clock.now_ms())
        return await self._readings.read(rule, {})

    # -- changing ---------------------------------------------------------------------------------

    async def create(self, actor: Actor, rule: RuleRow) -> RuleRow:
        """Add a rule. Raises Invalid, Conflict where its name is taken, Refused beyond 200."""
        now_ms = self._clock.now_ms()
        rule = replace(checked(rule), id=0, created_ms=now_ms, changed_ms=now_ms)
        async with self._turn:
            await self._load()
            self._check_name(rule)
            self.receivers.check_ids(rule.receivers)
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
            before, now_ms = status.rule, self._clock.now_ms()
            rule = replace(checked(rule), created_ms=before.created_ms, changed_ms=now_ms)
            self._check_name(rule)
            self.receivers.check_ids(rule.receivers)
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
        self.receivers.notifier.wake()

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
                row = replace(before, acked_by=actor.name, acked_ms=self._clock.now_ms())
                await self._apply(StateChanges(states=(row,)))
                change.after = row
            status.by_subject = {**status.by_subject, subject: row}
        return row

    async def silence(
        self, actor: Actor, rule_id: int, subject: str, until_ms: int, note: str
    ) -> SilenceRow:
        """Tell nothing of a rule (0: of any), or of one subject, until a time."""
        now_ms = self._clock.now_ms()
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

    # -- inside -----------------------------------------------------------------------------------

    def _in_force(self) -> list[SilenceRow]:
        now_ms = self._clock.now_ms()
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
        now_ms = self._clock.now_ms()
        rules = await self._ask(lambda db: db.alerts.rules())
        states = await self._ask(lambda db: db.alerts.states())
        self._silences = await self._ask(lambda db: db.alerts.silences(now_ms))
        await self.receivers.load()
        by_rule: dict[int, dict[str, StateRow]] = {}
        for state in states:
            by_rule.setdefault(state.rule_id, {})[state.subject] = state
        self._statuses = {
            rule.id: RuleStatus(
                rule, by_rule.get(rule.id, {}), *self._duty.checks.get(rule.id, (0, 0, 0))
            )
            for rule in rules
        }
        self._is_loaded = True

    def _find(self, rule_id: int) -> RuleStatus:
        if rule_id not in self._statuses:
            raise NotFound(f"there is no alert rule {rule_id}", field="id")
        return self._statuses[rule_id]

    def _rules_naming(self, receiver_id: int) -> list[str]:
        rules = [status.rule for status in self._statuses.values()]
        return sorted(rule.name for rule in rules if receiver_id in rule.receivers)

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
        now_ms = self._clock.now_ms()
        return evaluation.ended(
            status.rule,
            status.by_subject,
            now_ms=now_ms,
            detail=detail,
            teller=self.receivers.teller,
        )
