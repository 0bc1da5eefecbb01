"""Reports as people and programs use them: schedules, runs, run now, cancel, how far it is.

Of all runs over a database one is under way at most. A schedule that comes due meanwhile waits, and
times that were missed are made up for by one run; what failed for a reason that may pass is tried
again twice. Nothing here computes: `runner.py` has processes do it.
"""

import asyncio
import logging
import socket
from dataclasses import dataclass, replace
from importlib.util import find_spec
from uuid import uuid4

from msgspec import UNSET

from app.capabilities import require
from app.db.report_rows import RunFilter, RunRow, ScheduleRow
from app.db.rows import Actor, DatabaseError
from app.db.worker import DatabaseAsker, DatabaseWorker
from app.messaging import Messaging
from app.server_host import ServerHost
from app.services.audit import Audit
from app.services.reports import schedule
from app.services.reports.child import ChildTimeout
from app.services.reports.contract import Progress
from app.services.reports.keeping import Keeping
from app.services.reports.runner import LEASE_MS, RunFailed, Runner
from app.services.reports.standing import (
    GOOD,
    INSTALL,
    NOT_INSTALLED,
    UNAVAILABLE,
    UNREADABLE,
    Figures,
    JobStanding,
    Standing,
    check_job,
    checked_hours,
)
from app.services.reports.start_cache import StartCache
from app.settings import Settings
from app.tasks import end_tasks
from engine.errors import Busy, Conflict, Invalid, NotFound, Refused
from engine.report_tables import JOBS, TRACES_JOB
from kitemq.model.conversion import convert, set_fields
from kitemq.model.reports import ReportEngine, RunState, ScheduleChanges, Trigger
from kitemq.model.server import Capabilities

log = logging.getLogger("kitemq.reports")

TICK_S = 1.0
COURTESY_S = 20  # that the server of the last run has for the next before another takes it
FIRST_S = 5.0  # after the start: the first seconds are for those who wait for the server
BACKOFF_S = (30, 120)
RUN = "report_run"
BY_ITSELF = Actor("schedule", "")
OVER = tuple(state for state in RunState if state is not RunState.RUNNING)
NOTIFY_STATES = (*GOOD, RunState.FAILED, RunState.TIMED_OUT, RunState.LOST)


@dataclass
class _UnderWay:
    """The run of this server, and why it was ended if it was."""

    run: RunRow
    task: asyncio.Task[None]
    ended_by: str = ""

    def end(self, why: str) -> None:
        self.ended_by = why
        self.task.cancel()


class Reports:
    """Between `start` and `stop` it runs what is due; `tick` looks once."""

    def __init__(
        self,
        host: ServerHost,
        messaging: Messaging,
        audit: Audit,
        database: DatabaseWorker,
        settings: Settings,
    ) -> None:
        self._host = host
        self._messaging = messaging
        self._audit = audit
        self._ask = DatabaseAsker(database, UNREADABLE, code=UNAVAILABLE)
        self._settings = settings
        self._runner = Runner(host, database, settings)
        self._store = f"{socket.gethostname()}:{settings.data.resolve()}#"[:470]
        self._owner = self._store + uuid4().hex
        self._under_way: _UnderWay | None = None
        self._retries: dict[str, tuple[int, int]] = {}  # by job: attempt, due ms
        self._turn = asyncio.Lock()
        self._is_ready = False
        self._is_compaction_due = False
        self._keeping = Keeping(database, settings)
        self._start_cache = StartCache(settings)
        self._loop: asyncio.Task[None] | None = None
        self.figures = {job: Figures({}) for job in JOBS}

    # -- life -------------------------------------------------------------------------------------

    def start(self) -> None:
        """Remove the leftovers of a killed server, then run due jobs."""
        self._loop = asyncio.create_task(self._run_loop())

    async def stop(self) -> None:
        """End the run under way; it is due again after the next start."""
        await end_tasks(self._loop)
        await self._start_cache.drop()
        if self._under_way is not None:
            self._under_way.end("the server stopped")
            await asyncio.wait({self._under_way.task})

    async def _run_loop(self) -> None:
        await asyncio.to_thread(self._runner.clean)
        await asyncio.sleep(FIRST_S)
        while True:
            try:
                await self.tick()
                await self._compact()
            except Busy as error:
                log.warning("%s", error.detail)
            except Exception:
                log.exception("the schedules of the reports could not be looked at")
            await asyncio.sleep(TICK_S)

    async def tick(self) -> None:
        """Start a due job, unless one is running."""
        await self._ready()
        if self._under_way is not None or not self._settings.report_schedules:
            return
        if await asyncio.to_thread(self.missing):  # looks for files
            return
        now_ms = self._host.clock.now_ms()
        for job, (attempt, due_ms) in sorted(self._retries.items(), key=lambda item: item[1][1]):
            if due_ms <= now_ms:
                cause = Trigger.RETRY if attempt > 1 else Trigger.SCHEDULE
                if await self._begin(job, cause, attempt, BY_ITSELF, None) is not None:
                    del self._retries[job]
                return
        due = [each for each in await self.schedules(keeps=True) if each.is_enabled]
        due.sort(key=lambda each: each.next_ms)
        if due and due[0].next_ms <= now_ms:
            if not await self._is_next(due[0], now_ms):
                return
            await self._begin_scheduled(due[0], now_ms)
        elif not (self.job_under_way or self._turn.locked()):  # none began meanwhile
            self._start_cache.begin()

    async def _compact(self) -> None:
        """Compact figures after a run that made some, beside later runs."""
        if self._is_compaction_due:
            self._is_compaction_due = False
            await self._keeping.look(self._host.clock.now_ms())

    async def _is_next(self, row: ScheduleRow, now_ms: int) -> bool:
        """Whether to begin: of servers that share a database the one of the last run goes first.

        It has read the input up to then, which others would have to read again.
        """
        last = await self._newest(row.job, OVER)
        is_ours = last is None or last.owner.startswith(self._store)
        return is_ours or now_ms >= row.next_ms + COURTESY_S * 1000

    async def _begin_scheduled(self, row: ScheduleRow, now_ms: int) -> None:
        """Whatever was missed until now is this one run."""
        if await self._begin(row.job, Trigger.SCHEDULE, 1, BY_ITSELF, None) is None:
            return
        self._retries.pop(row.job, None)
        following = replace(row, next_ms=schedule.next_ms(row.cron, now_ms))
        await self._ask(lambda db: db.reports.write_schedule(following))

    @property
    def capabilities(self) -> Capabilities:
        """What the engine tells."""
        return self._messaging.capabilities

    @property
    def jobs(self) -> tuple[str, ...]:
        """Those that the engine records something for."""
        has_traces = self.capabilities.trace_reports
        return tuple(job for job in JOBS if has_traces or job != TRACES_JOB)

    @property
    def job_under_way(self) -> str:
        """The job that runs here now; "" if none."""
        return "" if self._under_way is None else self._under_way.run.job

    # -- looking ----------------------------------------------------------------------------------

    def missing(self) -> str:
        """Why reports cannot run here; "" if they can. A missing Java shows only in a run."""
        is_there = all(find_spec(name) is not None for name in ("pyspark", "pyarrow"))
        return "" if is_there else NOT_INSTALLED

    async def standing(self) -> Standing:
        """Everything at a glance. Raises Busy, as all that follow, where the database fails."""
        await self._ready()
        jobs = [await self._job_standing(each) for each in await self.schedules()]
        missing = self.missing()
        running = await self._ask(lambda db: db.reports.runs(RunFilter(state=RunState.RUNNING), 1))
        return Standing(
            missing,
            INSTALL if missing else "",
            tuple(jobs),
            running[0] if running else None,
            self._runner.progress,
        )

    async def fresh_ms(self, job: str) -> int | None:
        """A job's figures have everything that was stored before; None without any."""
        await self._ready()
        return self.figures[job].fresh_ms

    async def schedules(self, *, keeps: bool = False) -> list[ScheduleRow]:
        """The schedule of each job by name; `keeps` stores the defaults of those without one.

        From then on their next time is fixed.
        """
        now_ms = self._host.clock.now_ms()
        jobs = self.jobs
        defaults = [schedule.default(job, now_ms) for job in jobs]
        rows = await self._ask(lambda db: db.reports.schedules(defaults, keeps=keeps))
        return [row for row in rows if row.job in jobs]

    async def runs(self, criteria: RunFilter, limit: int) -> list[RunRow]:
        """The newest runs, at most 200; the newest 5,000 are kept."""
        check_job(criteria.job, is_needed=False)
        if criteria.state and criteria.state not in set(RunState):
            raise Invalid(
                f"{criteria.state[:40]!r} is no state of a run",
                field="state",
                remedy="one of " + ", ".join(RunState),
            )
        await self._ready()
        return await self._ask(lambda db: db.reports.runs(criteria, limit))

    async def get(self, run_id: int) -> RunRow:
        """One run; its log as it is now where it is under way. NotFound."""
        await self._ready()
        run = await self._ask(lambda db: db.reports.run(run_id))
        if run is None:
            raise NotFound(f"there is no run {run_id}", field="id", remedy="list the runs")
        if run.state == RunState.RUNNING:
            tail = await asyncio.to_thread(self._runner.log_tail, run_id)
            return replace(run, log_tail=tail)
        return run

    def progress(self, run_id: int) -> Progress | None:
        """The progress of a run of this server; None if it is over or another server's."""
        mine = self._under_way
        return self._runner.progress if mine is not None and mine.run.id == run_id else None

    # -- changing ---------------------------------------------------------------------------------

    async def change_schedule(
        self, actor: Actor, job: str, changes: ScheduleChanges
    ) -> ScheduleRow:
        """Change when a job runs; the change counts from now on. Invalid names the field."""
        self._check_job(job)
        before = next(each for each in await self.schedules(keeps=True) if each.job == job)
        now_ms = self._host.clock.now_ms()
        after = convert(
            before,
            ScheduleRow,
            **set_fields(changes),
            is_enabled=before.is_enabled if changes.enabled is UNSET else changes.enabled,
            changed_ms=now_ms,
            changed_by=actor.name,
        )
        cron, limit_s = " ".join(after.cron.split()), schedule.check_limit(after.limit_s)
        after = replace(after, cron=cron, limit_s=limit_s, next_ms=schedule.next_ms(cron, now_ms))
        async with self._audit.change(
            actor, "report.schedule", job, kind="report_schedule", before=before
        ) as change:
            await self._ask(lambda db: db.reports.write_schedule(after))
            change.after = after
        return after

    async def run(self, actor: Actor, job: str, first: str = "", last: str = "") -> RunRow:
        """Begin a run now: of what is due, or of the hours `first` to `last`, both in.

        Raises Refused for a job that is none of `jobs` and (`analytics_missing`) without Spark,
        Conflict (`report_running`) while another run is under way, Invalid.
        """
        self._check_job(job)
        hours = checked_hours(first, last, self._host.clock.now_ms())
        if self.missing():
            raise Refused(NOT_INSTALLED, remedy=INSTALL, code="analytics_missing")
        await self._ready()
        cause = Trigger.BACKFILL if hours else Trigger.MANUAL
        before = {"first": first, "last": last} if hours else None
        async with self._audit.change(actor, "report.run", job, kind=RUN, before=before) as change:
            run = await self._begin(job, cause, 1, actor, hours)
            if run is None:
                raise Conflict(
                    "another run is under way",
                    remedy="wait until it is over, or cancel it",
                    code="report_running",
                )
            change.after = {"id": run.id, "job": job}
        return run

    async def cancel(self, actor: Actor, run_id: int) -> RunRow:
        """End a run of this server; the run as it ended. Refused where it is over."""
        run = await self.get(run_id)
        mine = self._under_way
        is_over = run.state != RunState.RUNNING
        if is_over or mine is None or mine.run.id != run_id:
            detail = f"run {run_id} is over" if is_over else f"run {run_id} is another server's"
            raise Refused(detail, remedy="look at the list of runs", code="report_not_running")
        name = f"{run.job} {run_id}"
        async with self._audit.change(actor, "report.cancel", name, kind=RUN) as change:
            mine.end(f"cancelled by {actor.name}")
            await asyncio.wait({mine.task})
            ended = await self.get(run_id)
            change.after = {"state": ended.state}
        return ended

    # -- runs -------------------------------------------------------------------------------------

    async def _begin(
        self, job: str, cause: str, attempt: int, actor: Actor, hours: list[str] | None
    ) -> RunRow | None:
        """Begin a run beside everything else; None where one is under way."""
        async with self._turn:
            if not await self._is_free():
                return None
            now_ms = self._host.clock.now_ms()
            new = RunRow(
                job=job, cause=cause, state=RunState.RUNNING, attempt=attempt, actor=actor.name,
                began_ms=now_ms, owner=self._owner, lease_ms=now_ms + LEASE_MS,
                master=self._settings.report_master[:255],
            )  # fmt: skip
            # Only a run of ours whose end could not be written can stand there.
            await self._ask(lambda db: db.reports.take_over(self._owner, now_ms))
            run = await self._ask(lambda db: db.reports.begin(new))
            if run is None:
                return None
            await self._start_cache.drop()
            limits = {each.job: each.limit_s for each in await self.schedules()}
            task = asyncio.create_task(self._do(run, hours, limits[job]))
            self._under_way = _UnderWay(run, task)
            return run

    async def _is_free(self) -> bool:
        """False while a run is under way; one that is written as over has only its files left."""
        mine = self._under_way
        if mine is None:
            return True
        run = await self._ask(lambda db: db.reports.run(mine.run.id))
        if run is None or run.state == RunState.RUNNING:
            return False
        await asyncio.wait({mine.task})
        return True

    async def _do(self, run: RunRow, hours: list[str] | None, limit_s: int) -> None:
        """One run to its end, whatever that is."""
        try:
            ended = await self._attempt(run, hours, limit_s)
            self.figures[ended.job].take(ended)
            if ended.state not in (*GOOD, RunState.CANCELLED):
                log.warning("report run %d %s: %s", ended.id, ended.state, ended.error)
            if ended.state == RunState.OK:
                self._is_compaction_due = True
                if ended.engine is ReportEngine.SPARK:
                    self._start_cache.take()
        except Exception:
            log.exception("the end of report run %d could not be written", run.id)
        finally:
            self._under_way = None

    async def _attempt(self, run: RunRow, hours: list[str] | None, limit_s: int) -> RunRow:
        try:
            done = await self._runner.run(run, hours, limit_s)
        except asyncio.CancelledError:
            why = self._under_way.ended_by if self._under_way else ""
            return await self._ended(run, RunState.CANCELLED, "Cancelled", why)
        except ChildTimeout:
            text = f"it took longer than {limit_s:,} s"
            self._plan_retry(run)
            return await self._ended(run, RunState.TIMED_OUT, "TimedOut", text)
        except RunFailed as error:
            if error.is_transient:
                self._plan_retry(run)
            return await self._ended(run, RunState.FAILED, error.kind, error.text)
        except DatabaseError as error:
            self._plan_retry(run)
            return await self._ended(run, RunState.FAILED, "DatabaseError", str(error))
        except Exception as error:
            log.exception("report run %d failed", run.id)
            return await self._ended(run, RunState.FAILED, type(error).__name__, str(error))
        if self._runner.hours_remaining:  # more is due than one run does
            self._retries[run.job] = (1, self._host.clock.now_ms())
        return done

    async def _ended(self, run: RunRow, state: RunState, kind: str, text: str) -> RunRow:
        ended = replace(
            run,
            state=state,
            ended_ms=self._host.clock.now_ms(),
            hours=self._runner.hours,
            error_class=kind[:128],
            error=text[:4000].replace("\0", "\ufffd"),
            log_tail=self._runner.last_tail,
        )
        await self._ask(lambda db: db.reports.finish(ended))
        return ended

    def _plan_retry(self, run: RunRow) -> None:
        """Try again what ran by itself, after a while that grows; not what a person began."""
        by_itself = run.cause in (Trigger.SCHEDULE, Trigger.RETRY)
        if by_itself and run.attempt <= len(BACKOFF_S):
            due_ms = self._host.clock.now_ms() + BACKOFF_S[run.attempt - 1] * 1000
            self._retries[run.job] = (run.attempt + 1, due_ms)

    # -- helpers ----------------------------------------------------------------------------------

    def _check_job(self, job: str) -> None:
        """Raise Invalid for an unknown report, Refused for one that is none of `jobs`."""
        check_job(job)
        if job not in self.jobs:
            require(self.capabilities, "trace_reports", field="job")

    async def _ready(self) -> None:
        """Once: mark as lost what a killed server ran, and remember how the jobs stand."""
        if self._is_ready:
            return
        async with self._turn:
            if self._is_ready:
                return
            now_ms = self._host.clock.now_ms()
            for run in await self._ask(lambda db: db.reports.take_over(self._store, now_ms)):
                log.warning("report run %d was lost with the server that ran it", run.id)
            for job in JOBS:
                good = await self._newest(job, GOOD)
                last = await self._newest(job, NOTIFY_STATES)
                figures = self.figures[job]
                figures.fresh_ms = good.input_at_ms if good else None
                if last is not None and last.state not in GOOD:
                    figures.failures, figures.last_error = 1, last.error
            self._is_ready = True

    async def _job_standing(self, row: ScheduleRow) -> JobStanding:
        last = await self._newest(row.job, OVER)
        good = await self._newest(row.job, GOOD)
        last_ok = await self._newest(row.job, (RunState.OK,))
        coverage = await self._ask(lambda db: db.reports.coverage(row.job))
        return JobStanding(row, last, last_ok, good.input_at_ms if good else None, coverage)

    async def _newest(self, job: str, states: tuple[RunState, ...]) -> RunRow | None:
        return await self._ask(lambda db: db.reports.newest(job, states))
