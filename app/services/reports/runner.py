"""One run of a report, from what the engine recorded to the figures in the database.

The log is first confirmed to be on disk and rolled into Parquet; only if hours have changed by that
is anything computed, by Spark where there are many rows. The result is taken over in one
transaction, or not at all.
"""

import asyncio
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from app.db.report_rows import Loaded, NotOurs, ResultFilter, Row, RunRow
from app.db.rows import DatabaseError
from app.db.worker import DatabaseWorker, Work
from app.report_settings import FILE_URL
from app.server_host import ServerHost
from app.services.reports import child, inputs
from app.services.reports.contract import (
    BadResult,
    Progress,
    Request,
    Result,
    read_progress,
    read_result,
    tables_of,
)
from app.services.reports.leftovers import end_marked, mark_of, remove_folders
from app.settings import Settings
from engine import report_hours
from engine.report_tables import LAG_JOB
from kitemq.model.reports import RunState

ROLL_LIMIT_S = 600.0
FLUSH_LIMIT_S = 30.0
RENEW_MS = 10_000
LEASE_MS = 30_000
PREVIOUS_MAX = 200_000  # queues whose last state is handed to the next lag report
PAGE = 5_000
STARTED, LOADED = 5, 95  # percent of a run before and after Spark's part
TEXT_CHARS_MAX = 4_000
ROLL_BUSY, ROLL_FAILED = 4, 1
ROLL_BEHIND = 5  # with a cluster's messages; the samples of lag are in
FROZEN = (
    "the figures of these hours are kept as one with others of the same day or four weeks, "
    "of which not all can be computed anew: they stay as they are"
)
EXIT_WRONG, EXIT_MISSING, EXIT_FINAL = 2, 3, 4


class RunFailed(Exception):
    """A run ended without figures; `is_transient` where another attempt may help."""

    def __init__(self, kind: str, text: str, *, is_transient: bool = False) -> None:
        super().__init__(text)
        self.kind = kind
        self.text = text
        self.is_transient = is_transient


class Runner:
    """Does the runs of a server, one at a time; `progress` is of the one under way."""

    def __init__(self, host: ServerHost, database: DatabaseWorker, settings: Settings) -> None:
        self._host = host
        self._database = database
        self._settings = settings
        root = settings.report_root.removeprefix(FILE_URL)
        self._root = Path(root or settings.data / "analytics").absolute()
        self._spark = (settings.data / "spark").absolute()
        self._reports = self._spark / "reports"
        self._mark = mark_of(settings.data)
        self._renewed_ms = 0
        self.progress: Progress | None = None
        self.hours: tuple[str, ...] = ()  # of the run under way, or of the last
        self.last_tail = ""  # the ends of the last run's logs
        self.hours_remaining = 0  # hours that were due and are not done by the last run

    def clean(self) -> None:
        """Take away what earlier runs left behind, processes and folders; waits."""
        end_marked(self._mark)
        remove_folders(self._spark / "runs", self._reports)

    async def run(self, run: RunRow, hours: Sequence[str] | None, limit_s: float) -> RunRow:
        """Do a run and write how it ended; `hours`, or those that are due if None.

        Raises RunFailed, ChildTimeout, DatabaseError, or what cancels it; then nothing was written
        and the figures are as they were.
        """
        folder = self._reports / f"run-{run.id}"
        self.hours_remaining, self.hours, self._renewed_ms = 0, (), self._host.clock.now_ms()
        self._say("log", 0)
        try:
            await asyncio.to_thread(_make, folder)
            return await self._steps(run, hours, limit_s, folder)
        except OSError as error:
            raise RunFailed("OSError", f"the disk says: {error}", is_transient=True) from error
        except (BadResult, ValueError, msgspec.DecodeError) as error:
            raise RunFailed(type(error).__name__, str(error)) from error
        except NotOurs:
            raise RunFailed("LeaseLost", "another server has taken the run over") from None
        finally:
            self.progress = None
            await asyncio.shield(asyncio.to_thread(self._remove, folder))

    def log_tail(self, run_id: int) -> str:
        """The ends of a run's logs, while it runs; waits for the disk."""
        folder = self._reports / f"run-{run_id}"
        return child.tail_of(folder / "stderr.log", folder / "spark.log")

    # -- the steps --------------------------------------------------------------------------------

    async def _steps(
        self, run: RunRow, selection: Sequence[str] | None, limit_s: float, folder: Path
    ) -> RunRow:
        await self._roll(run, folder)
        current_inputs = await asyncio.to_thread(inputs.load, self._root)
        done = await self._database.run(lambda db: db.reports.done(run.job))
        coarse = await self._database.run(lambda db: db.results.coarse_periods(run.job))
        periods = inputs.Periods(run.job, current_inputs, done, coarse)
        if selection is None:
            due = inputs.due(
                run.job, current_inputs, done, self._settings.report_input_days, periods
            )
            hours, remaining = due.hours, due.left
            nothing = "nothing was recorded since the figures were made"
        else:
            available = inputs.chosen(run.job, current_inputs, selection)
            hours, remaining = periods.whole(available), 0
            nothing = FROZEN if available else "nothing is kept of these hours to compute from"
        if not hours:
            return await self._finish_skipped(run, current_inputs.at_ms, nothing)
        self.hours, run = hours, replace(run, hours=hours)
        result = await self._compute(run, limit_s, folder)
        self._say("loading", LOADED)
        tail = await asyncio.to_thread(self.log_tail, run.id)
        finished = replace(self._finished(run, result), log_tail=tail)
        tables = await asyncio.to_thread(tables_of, result, folder / "output")
        loaded = Loaded(finished, result.fingerprints, tables)
        await self._database.run(lambda db: db.results.replace(loaded))
        self.hours_remaining = remaining
        return finished

    async def _roll(self, run: RunRow, folder: Path) -> None:
        """Write the records so far as Parquet."""
        at_ms = self._host.clock.now_ms()
        try:
            async with asyncio.timeout(FLUSH_LIMIT_S):
                source = await self._host.roll_source()
        except TimeoutError:
            text = f"the log was not flushed within {FLUSH_LIMIT_S:.0f} s"
            raise RunFailed("FlushTimeout", text, is_transient=True) from None
        self._say("roll", 1)
        settings = self._settings
        words = ["analytics.roll", "--data", str(settings.data.absolute())]
        words += ["--root", str(self._root), "--at-ms", str(at_ms)]
        words += ["--keep-days", str(settings.report_input_days)]
        words += ["--keep-bytes", str(settings.report_input_bytes), *source.words]
        code = await self._child(run, words, ROLL_LIMIT_S, folder, source.environment)
        if code and (code != ROLL_BEHIND or run.job != LAG_JOB):
            text = await asyncio.to_thread(child.tail_of, folder / "stderr.log")
            is_transient = code in (ROLL_BUSY, ROLL_FAILED, ROLL_BEHIND) or code < 0
            raise RunFailed("RollFailed", _last_line(text, code), is_transient=is_transient)

    async def _compute(self, run: RunRow, limit_s: float, folder: Path) -> Result:
        """Have a process compute; its result."""
        self._say("starting", STARTED)
        await self._write_request(run, folder)
        words = ["analytics.job", "--request", str(folder / "request.json")]
        code = await self._child(run, words, limit_s, folder)
        result = await asyncio.to_thread(read_result, folder / "output")
        if code == 0 and result is not None and result.state == "ok" and result.job == run.job:
            return result
        if result is not None and result.error_class:
            raise RunFailed(result.error_class, result.error, is_transient=result.is_transient)
        text = await asyncio.to_thread(child.tail_of, folder / "stderr.log")
        kinds = {EXIT_WRONG: "Refused", EXIT_MISSING: "NotInstalled", EXIT_FINAL: "JobFailed"}
        kind = kinds.get(code, "Killed" if code < 0 else "JobFailed")
        is_transient = code not in (EXIT_WRONG, EXIT_MISSING, EXIT_FINAL)
        raise RunFailed(kind, _last_line(text, code), is_transient=is_transient)

    async def _write_request(self, run: RunRow, folder: Path) -> None:
        settings = self._settings
        request = Request(
            job=run.job,
            hours=run.hours,
            root=str(self._root),
            is_shared=settings.report_root_is_shared,
            output=str(folder / "output"),
            folder=str(self._spark),
            master=settings.report_master,
            java_home=settings.report_java_home,
            driver_memory=settings.report_driver_memory,
            log=str(folder / "spark.log"),
            spark_rows=settings.report_spark_rows,
        )
        if run.job == LAG_JOB:
            previous = folder / "previous.ndjson"
            rows = await self._previous(report_hours.moved(run.hours[0], -1))
            await asyncio.to_thread(previous.write_bytes, msgspec.json.Encoder().encode_lines(rows))
            request.previous = str(previous)
        data = msgspec.json.encode(request)
        await asyncio.to_thread((folder / "request.json").write_bytes, data)

    async def _previous(self, hour: str) -> list[Row]:
        """Each queue's state as it was published at the end of an hour, if it was the last."""
        names = ("group", "topic", "queue", "state", "raw_state")
        criteria, previous = ResultFilter(first=hour, last=hour), list[Row]()
        after: tuple[object, ...] = ()
        while len(previous) < PREVIOUS_MAX:
            rows = await self._database.run(_states(criteria, after))
            previous += [{name: row[name] for name in names} for row in rows]
            if len(rows) < PAGE:
                break
            after = tuple(rows[-1][name] for name in names[:3])
        return previous

    # -- ends -------------------------------------------------------------------------------------

    async def _finish_skipped(self, run: RunRow, at_ms: int, reason: str) -> RunRow:
        done = replace(
            run,
            state=RunState.SKIPPED,
            ended_ms=self._host.clock.now_ms(),
            input_at_ms=at_ms or None,
            error=reason,
        )
        await self._database.run(lambda db: db.reports.finish(done))
        return done

    def _finished(self, run: RunRow, result: Result) -> RunRow:
        return replace(
            run,
            state=RunState.OK,
            ended_ms=self._host.clock.now_ms(),
            rows_in=result.rows_in,
            rows_out=result.rows_out,
            input_at_ms=result.input_at_ms or None,
            inputs_json=msgspec.json.encode(result.input).decode(),
            counters_json=msgspec.json.encode(result.counters).decode(),
            spark=result.spark[:64],
            java=result.java[:64],
            master=result.master[:255],
            peak_kib=result.peak_kib,
        )

    # -- helpers ----------------------------------------------------------------------------------

    async def _child(
        self,
        run: RunRow,
        words: list[str],
        limit_s: float,
        folder: Path,
        environment: Mapping[str, str] = {},
    ) -> int:
        async def beat() -> None:
            await self._beat(run, folder)

        return await child.run(
            words,
            mark=self._mark,
            output=folder / "stdout.log",
            log=folder / "stderr.log",
            limit_s=limit_s,
            beat=beat,
            processors=self._settings.report_processors,
            environment=environment,
        )

    async def _beat(self, run: RunRow, folder: Path) -> None:
        """Look how far it is, and keep the lease."""
        progress = await asyncio.to_thread(read_progress, folder / "output")
        if progress is not None:
            share = STARTED + (LOADED - STARTED) * progress.percent // 100
            self.progress = msgspec.structs.replace(progress, percent=share)
        now_ms = self._host.clock.now_ms()
        if now_ms - self._renewed_ms < RENEW_MS:
            return
        self._renewed_ms = now_ms
        try:
            is_ours = await self._database.run(
                lambda db: db.reports.renew(run.id, run.owner, now_ms + LEASE_MS)
            )
        except DatabaseError:
            return  # the figures cannot be written without it either: the end will tell
        if not is_ours:
            raise NotOurs

    def _say(self, stage: str, percent: int) -> None:
        self.progress = Progress(stage, percent, self._host.clock.now_ms())

    def _remove(self, folder: Path) -> None:
        self.last_tail = child.tail_of(folder / "stderr.log", folder / "spark.log")
        shutil.rmtree(folder, ignore_errors=True)
        remove_folders(self._spark / "runs", self._reports)


def _states(criteria: ResultFilter, after: tuple[object, ...]) -> Work[list[Row]]:
    return lambda db: db.results.page("lag_now", criteria, PAGE, after)


def _make(folder: Path) -> None:
    (folder / "output").mkdir(parents=True)


def _last_line(text: str, code: int) -> str:
    """The last output of the process for users; its stack frames (indented) are for the log."""
    lines = [line for line in text.splitlines() if line[:1].strip()]
    how = f"ended by signal {-code}" if code < 0 else f"ended with code {code}"
    return f"{lines[-1][:TEXT_CHARS_MAX]} ({how})" if lines else how
