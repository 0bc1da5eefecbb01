"""The history of lag: rounds in memory until they are sealed, blocks on the disk, bounds on both.

Every job with files goes to the pool, one at a time and in order, so that nothing here waits. What
the disk refuses is lost, counted and reported; it never disturbs messages.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from engine.statistics.lag_files import LagFiles, SealedBlock
from engine.statistics.lag_peaks import PeakQuery, Peaks
from engine.statistics.lag_points import LagQuery, Points
from engine.statistics.lag_round import LagRound
from engine.statistics.values import LagHistoryPage
from engine.statistics.windows import DAY_MS, MINUTE_MS
from engine.store.damage import DamageLog
from engine.store.files import Files
from engine.store.pool import Pool

SEAL_MS = 10 * MINUTE_MS
ROUNDS_MAX = 240  # not sealed yet; more means that the disk refuses
JOBS_MAX = 64

Job = Callable[[], Any]
JobDone = Callable[[Any, Exception | None], None]


class LagHistoryStore:
    """At most `days` and `bytes_max`, whatever is reached first."""

    def __init__(
        self,
        files: Files,
        directory: Path,
        pool: Pool,
        *,
        days: int,
        bytes_max: int,
        damage_log: DamageLog | None = None,
    ) -> None:
        self._files = LagFiles(files, directory, bytes_max, damage_log)
        self._pool = pool
        self._days = days
        self.bytes_max = bytes_max
        self._sealed: list[SealedBlock] = []
        self._rounds: list[LagRound] = []
        self._jobs: deque[tuple[Job, JobDone]] = deque()
        self._is_busy = False
        self._is_sealing = False
        self.lost = 0
        self.failure = ""
        self._is_open = False

    # -- what is there -----------------------------------------------------------------------------

    @property
    def size_bytes(self) -> int:
        """Bytes of sealed blocks."""
        return sum(block.size_bytes for block in self._sealed)

    @property
    def samples(self) -> int:
        """How many rows times rounds are kept."""
        sealed = sum(block.rounds * block.rows for block in self._sealed)
        return sealed + sum(len(one.names) for one in self._rounds)

    @property
    def oldest_ms(self) -> int | None:
        """When the first sample that is kept was taken."""
        if self._sealed:
            return self._sealed[0].first_ms
        return self._rounds[0].at_ms if self._rounds else None

    @property
    def newest(self) -> LagRound | None:
        """The last round, until it is sealed."""
        return self._rounds[-1] if self._rounds else None

    # -- life --------------------------------------------------------------------------------------

    def load(self) -> None:
        """Open the files and find what they hold; before anything else, and it may wait.

        Where the disk refuses that, messages flow all the same, and there is no history.
        """
        try:
            self._sealed, self._rounds = self._files.load()
        except OSError as error:
            self.failure = f"the history of lag cannot be opened: {error}"
        else:
            self._is_open = True

    def close(self) -> None:
        """Let go of the files; the pool is idle by now."""
        self._is_open = False
        self._jobs.clear()
        self._files.close()

    def append(self, one: LagRound) -> None:
        """Keep a round; not younger than the last one (the calendar was set back): left out."""
        newest_ms = self._rounds[-1].at_ms if self._rounds else self._sealed_until_ms()
        if not self._is_open or one.at_ms <= newest_ms:
            self.lost += 1
            return
        if len(self._rounds) >= ROUNDS_MAX:
            del self._rounds[0]
            self.lost += 1
        self._rounds.append(one)
        self._append(one)
        if one.at_ms - self._rounds[0].at_ms >= SEAL_MS and not self._is_sealing:
            self._seal(one.at_ms)

    def read(self, query: LagQuery, done: Callable[[LagHistoryPage], None]) -> None:
        """The points of a query; `done` is called on this thread once they were read."""
        sealed = self._between(query.from_ms, query.to_ms)
        rounds = list(self._rounds)

        def work() -> LagHistoryPage:
            points, damaged = Points(query), 0
            for each in sealed:
                block = self._files.read_block(each)
                if block is None:
                    damaged += 1
                else:
                    points.add_block(block)
            for one in rounds:
                points.add_round(one)
            return LagHistoryPage(
                query.from_ms, query.to_ms, query.step_ms, points.points(), damaged
            )

        def finished(page: LagHistoryPage | None, error: Exception | None) -> None:
            if page is None:
                page = LagHistoryPage(query.from_ms, query.to_ms, query.step_ms, [], len(sealed))
            done(page)

        self._pool.submit(work, finished)

    def read_peaks(
        self, query: PeakQuery, done: Callable[[Mapping[str, Sequence[int | None]]], None]
    ) -> None:
        """The highest lag of many groups in one pass; `done` is called on this thread."""
        sealed = self._between(query.from_ms, query.to_ms)
        rounds = list(self._rounds)

        def work() -> Peaks:
            peaks = Peaks(query)
            for each in sealed:
                block = self._files.read_block(each)
                if block is not None:
                    peaks.add_block(block)
            for one in rounds:
                peaks.add_round(one)
            return peaks

        def finished(peaks: Peaks | None, error: Exception | None) -> None:
            done((peaks or Peaks(query)).peaks())

        self._pool.submit(work, finished)

    def _between(self, from_ms: int, to_ms: int) -> list[SealedBlock]:
        return [
            block for block in self._sealed if block.last_ms >= from_ms and block.first_ms < to_ms
        ]

    # -- jobs --------------------------------------------------------------------------------------

    def _do(self, job: Job, done: JobDone) -> None:
        if len(self._jobs) >= JOBS_MAX:
            self.lost += 1
            self.failure = "the disk is too slow for the history of lag"
            return
        self._jobs.append((job, done))
        self._next()

    def _next(self) -> None:
        if self._is_busy or not self._jobs:
            return
        job, done = self._jobs.popleft()
        self._is_busy = True

        def finished(result: Any, error: Exception | None) -> None:
            self._is_busy = False
            self.failure = "" if error is None else f"lag history not written: {error}"
            done(result, error)
            self._next()

        self._pool.submit(job, finished)

    def _append(self, one: LagRound) -> None:
        # A round that the open file refuses is still in memory, and sealed with the others.
        self._do(lambda: self._files.append(one), lambda _, __: None)

    def _seal(self, now_ms: int) -> None:
        """Pack the rounds of the same day as the first; the rest waits for the next time."""
        _, of_day = next(groupby(self._rounds, key=lambda one: one.at_ms // DAY_MS))
        rounds = list(of_day)
        self._is_sealing = True

        def sealed(block: SealedBlock | None, error: Exception | None) -> None:
            self._is_sealing = False
            if block is None:
                return
            self._sealed.append(block)
            self._rounds = [one for one in self._rounds if one.at_ms > block.last_ms]
            self._expire(now_ms)

        are_all = len(rounds) == len(self._rounds)
        self._do(lambda: self._files.seal(rounds, are_all=are_all), sealed)

    def _expire(self, now_ms: int) -> None:
        """Drop whole files that are too old, or too many; never the newest."""
        begin_ms = now_ms - self._days * DAY_MS
        size_bytes = self.size_bytes
        by_path = [(path, list(part)) for path, part in groupby(self._sealed, lambda b: b.path)]
        paths: list[Path] = []
        for path, blocks in by_path[:-1]:
            if blocks[-1].last_ms >= begin_ms and size_bytes <= self.bytes_max:
                break
            size_bytes -= sum(block.size_bytes for block in blocks)
            paths.append(path)
        if paths:
            self._sealed = [block for block in self._sealed if block.path not in paths]
            self._do(lambda: self._files.remove(paths), lambda _, __: None)

    def _sealed_until_ms(self) -> int:
        return self._sealed[-1].last_ms if self._sealed else -1
