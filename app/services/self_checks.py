"""The server's self-checks, each with its result, duration and time.

Checks run on demand, and not again within `FRESH_MS`; each has a time limit, and a failure or
timeout is a result like any other. What the engine behind the server cannot tell is unknown.
"""

import asyncio
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from app.administration import Administration, Check, CheckResult
from app.capabilities import NOT_SUPPORTED, lacking
from app.db.rows import DatabaseError
from app.db.worker import DatabaseWorker
from app.server_host import ServerHost
from engine.errors import EngineError
from kitemq.model.server import CheckOutcome, SelfCheck

FRESH_MS = 10_000
GLANCE_S = 0.5
LIMIT_S = 5.0
LOOP_LATE_S = 0.1
CLOCK_STEP_S = 5.0
PROBE = "self_check.part"
PROBE_BYTES = b"written to see whether it can be\n"


class SelfChecks:
    """Runs the checks; `loop_late_s` is how late the event loop was at most in the last minute."""

    def __init__(
        self,
        host: ServerHost,
        administration: Administration,
        database: DatabaseWorker,
        data: Path,
        *,
        loop_late_s: Callable[[], float],
        is_exposed: Callable[[], bool],
        connections: Callable[[], tuple[bool, str]],
        plain_ports: Sequence[str] = (),
    ) -> None:
        """`connections` says whether there is room for more, and how many there are.

        `plain_ports` are those that a network reaches and that serve without TLS.
        """
        self._host = host
        self._administration = administration
        self._database = database
        self._data = data
        self._loop_late_s = loop_late_s
        self._is_exposed = is_exposed
        self._connections = connections
        self._plain_ports = tuple(plain_ports)
        self._running = asyncio.Lock()
        self._results: list[SelfCheck] = []
        self._run: asyncio.Task[list[SelfCheck]] | None = None
        self._probe: asyncio.Future[None] | None = None
        clock = host.clock
        self._begin_ms, self._begin_s = clock.now_ms(), clock.monotonic_s()

    async def run(self) -> list[SelfCheck]:
        """Every check in its order; those of a moment ago where they are fresh."""
        async with self._running:
            now_ms = self._host.clock.now_ms()
            if not self._results or not 0 <= now_ms - self._results[0].at_ms < FRESH_MS:
                self._results = [await self._one(code, work) for code, work in self._checks()]
            return self._results

    async def glance(self) -> list[SelfCheck]:
        """The results, fresh if that takes but a moment, else those of the last run.

        Empty while the first checks are still running.
        """
        if self._run is None or self._run.done():
            self._run = asyncio.create_task(self.run())
        await asyncio.wait({self._run}, timeout=GLANCE_S)
        return self._results

    async def close(self) -> None:
        """Let go of checks that are being made."""
        if self._run is not None:
            self._run.cancel()
            await asyncio.wait({self._run})

    def _checks(self) -> tuple[tuple[str, Check], ...]:
        return (
            ("engine", self._engine),
            *self._administration.checks().items(),
            ("recovery", self._recovery),
            ("disk", self._disk),
            ("data_directory", self._directory),
            ("database", self._schema),
            ("event_loop", self._loop),
            ("clock", self._clock),
            ("traces", self._traces),
            ("lag_history", self._lag),
            ("connections", self._network),
            ("exposure", self._exposure),
        )

    async def _one(self, code: str, work: Check) -> SelfCheck:
        loop = asyncio.get_running_loop()
        begin_s = loop.time()
        try:
            async with asyncio.timeout(LIMIT_S):
                outcome, detail = await work()
        except TimeoutError:
            outcome, detail = CheckOutcome.FAILED, f"no result within {LIMIT_S:g} s"
        except EngineError as error:
            is_absent = error.code == NOT_SUPPORTED
            outcome = CheckOutcome.UNKNOWN if is_absent else CheckOutcome.FAILED
            detail = error.detail
        except (DatabaseError, OSError) as error:
            outcome, detail = CheckOutcome.FAILED, str(error)
        took_ms = round((loop.time() - begin_s) * 1000, 1)
        return SelfCheck(code, outcome, detail, took_ms, self._host.clock.now_ms())

    async def _engine(self) -> CheckResult:
        health = await self._administration.health()
        faults = ((CheckOutcome.FAILED, health.failures), (CheckOutcome.WARNING, health.warnings))
        for outcome, texts in faults:
            if texts:
                return outcome, "; ".join(f"{name}: {why}" for name, why in texts.items())
        return CheckOutcome.OK, "every service runs"

    async def _recovery(self) -> CheckResult:
        health = await self._administration.health()
        if health.log_bytes is None:
            raise lacking("log_figures", field="recovery")
        damages = health.damages
        if damages:
            first = damages[0]
            copy_note = f"; a copy is in {first.copy}" if first.copy else ""
            return CheckOutcome.WARNING, (
                f"{len(damages)} damaged stretches were found at the start, the first in"
                f" {first.file} from byte {first.start} on: {first.detail}{copy_note}"
            )
        return CheckOutcome.OK, "no damage was found at the start"

    async def _disk(self) -> CheckResult:
        room = await self._host.disk_room()
        if room.refusal:
            return CheckOutcome.FAILED, room.refusal
        if room.free_bytes is None:
            return CheckOutcome.UNKNOWN, "the operating system did not tell how full the disk is"
        return CheckOutcome.OK, f"{room.free_bytes:,} bytes are free{room.note}"

    async def _directory(self) -> CheckResult:
        if self._probe is None or self._probe.done():
            loop = asyncio.get_running_loop()
            self._probe = loop.run_in_executor(None, self._write_probe)
        # A disk that hangs keeps its one thread; each look would take another one.
        await asyncio.shield(self._probe)
        return CheckOutcome.OK, "a file was written, flushed and taken away"

    def _write_probe(self) -> None:
        path = self._data / PROBE
        try:
            with path.open("wb") as file:
                file.write(PROBE_BYTES)
                file.flush()
                os.fsync(file.fileno())
        finally:
            path.unlink(missing_ok=True)

    async def _schema(self) -> CheckResult:
        revision, expected = await self._database.run(lambda database: database.revision())
        if revision != expected:
            return (
                CheckOutcome.WARNING,
                f"its revision is {revision or 'none'}, expected {expected}",
            )
        return CheckOutcome.OK, f"it answers, and its revision is {revision}"

    async def _loop(self) -> CheckResult:
        late_s = self._loop_late_s()
        detail = f"at most {late_s * 1000:.1f} ms late in the last minute"
        return (CheckOutcome.WARNING if late_s > LOOP_LATE_S else CheckOutcome.OK), detail

    async def _clock(self) -> CheckResult:
        clock = self._host.clock
        passed_s = clock.monotonic_s() - self._begin_s
        step_s = (clock.now_ms() - self._begin_ms) / 1000 - passed_s
        if abs(step_s) > CLOCK_STEP_S:
            return CheckOutcome.WARNING, f"the clock was set by {step_s:+.0f} s since the start"
        return CheckOutcome.OK, "the clock was not set since the start"

    async def _traces(self) -> CheckResult:
        status = self._host.broker.traces.status()
        if status.refusal:
            return CheckOutcome.FAILED, status.refusal
        if status.dropped:
            return CheckOutcome.WARNING, f"{status.dropped:,} were lost for want of room"
        return CheckOutcome.OK, f"{status.recorded:,} recorded, none lost"

    async def _lag(self) -> CheckResult:
        keeping = self._host.lags.lag_keeping()
        if keeping.failure:
            return CheckOutcome.FAILED, keeping.failure
        if not keeping.interval_s:
            return CheckOutcome.UNKNOWN, "it is switched off by the setting lag_sample_s"
        return CheckOutcome.OK, f"{keeping.rows:,} queues of groups are kept"

    async def _network(self) -> CheckResult:
        has_room, detail = self._connections()
        return (CheckOutcome.OK if has_room else CheckOutcome.WARNING), detail

    async def _exposure(self) -> CheckResult:
        if self._is_exposed():
            return CheckOutcome.WARNING, "there are no users, and the server listens on a network"
        if self._plain_ports:
            named = " and ".join(self._plain_ports)
            return CheckOutcome.WARNING, f"a network reaches {named} without TLS"
        return CheckOutcome.OK, "only this machine, or only logged-in callers, can connect"
