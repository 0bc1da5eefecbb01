"""Schedules and runs of the reports in SQL.

A unique index allows one running run at most; a lease tells whether its server is still alive.
"""

from collections.abc import Iterable
from dataclasses import asdict, replace

from sqlalchemy import Connection, func, insert, select, update

from app.db.report_rows import Coverage, RunFilter, RunRow, ScheduleRow
from app.db.report_tables import report_partitions, report_runs, report_schedules
from app.db.store import Condition, TableStore, insert_row, matching, newest, read, trim, values_of
from kitemq.model.reports import RunState

RUNS_MAX = 5_000  # that are kept


class ReportStore(TableStore):
    """The part of the database that holds schedules and runs."""

    # -- schedules --------------------------------------------------------------------------------

    def schedules(
        self, defaults: Iterable[ScheduleRow], *, keeps: bool = False
    ) -> list[ScheduleRow]:
        """All schedules by job, with those of `defaults` whose job has none.

        Those are written only with `keeps`: who merely looks writes nothing.
        """
        table = report_schedules
        with self._transaction() as connection:
            stored = read(connection, select(table), ScheduleRow)
            schedules = {schedule.job: schedule for schedule in stored}
            for schedule in defaults:
                if schedule.job not in schedules:
                    if keeps:
                        connection.execute(insert(table).values(**asdict(schedule)))
                    schedules[schedule.job] = schedule
        return sorted(schedules.values(), key=lambda schedule: schedule.job)

    def write_schedule(self, schedule: ScheduleRow) -> None:
        """Write a schedule."""
        same = report_schedules.c.job == schedule.job
        self._execute(update(report_schedules).where(same).values(**asdict(schedule)))

    # -- runs -------------------------------------------------------------------------------------

    def begin(self, run: RunRow) -> RunRow | None:
        """Insert a new run; returns its id, or None if one is running.

        Where two servers share the database and begin at once, the index lets one of them, and the
        other gets a DatabaseError.
        """
        running = select(report_runs.c.id).where(report_runs.c.state == RunState.RUNNING)
        with self._transaction() as connection:
            if connection.execute(running).first() is not None:
                return None
            new = insert_row(connection, report_runs, run)
            is_over = report_runs.c.state != RunState.RUNNING
            trim(connection, report_runs.c.id, RUNS_MAX, is_over)
            return new

    def renew(self, run_id: int, owner: str, lease_ms: int) -> bool:
        """Extend the lease of a run; False if it has ended or another owner has it."""
        own = _running_of(run_id, owner)
        return bool(self._execute(update(report_runs).where(own).values(lease_ms=lease_ms)))

    def finish(self, run: RunRow) -> bool:
        """Write a run's end; False if it was taken over."""
        with self._transaction() as connection:
            return finish(connection, run)

    def take_over(self, store: str, now_ms: int) -> list[RunRow]:
        """Mark runs of dead servers as lost: those of the same data, or without a valid lease.

        `store` is what the owner of all runs over these data begins with.
        """
        table = report_runs
        with self._transaction() as connection:
            running = select(table).where(table.c.state == RunState.RUNNING)
            lost = [
                replace(
                    run,
                    state=RunState.LOST,
                    ended_ms=now_ms,
                    error_class="ServerGone",
                    error="the server that ran it ended; what it had not written is as it was",
                )
                for run in read(connection, running, RunRow)
                if run.owner.startswith(store) or run.lease_ms < now_ms
            ]
            return [run for run in lost if finish(connection, run)]

    def runs(self, filter: RunFilter, limit: int) -> list[RunRow]:
        """The newest runs, at most 200."""
        return self._read(newest(report_runs, limit, *matching(report_runs, filter)), RunRow)

    def run(self, run_id: int) -> RunRow | None:
        """One run."""
        return self._read_one(select(report_runs).where(report_runs.c.id == run_id), RunRow)

    def newest(self, job: str, states: Iterable[str]) -> RunRow | None:
        """The newest run of a job that ended in one of these states."""
        conditions = (report_runs.c.job == job, report_runs.c.state.in_(list(states)))
        return self._read_one(newest(report_runs, 1, *conditions), RunRow)

    # -- hours ------------------------------------------------------------------------------------

    def done(self, job: str) -> dict[str, str]:
        """The sources of the results, by hour."""
        table = report_partitions
        statement = select(table.c.hour, table.c.fingerprint).where(table.c.job == job)
        with self._transaction() as connection:
            return {str(hour): str(source) for hour, source in connection.execute(statement)}

    def coverage(self, job: str) -> Coverage:
        """The hours with results."""
        column = report_partitions.c.hour
        statement = select(func.count(column), func.min(column), func.max(column)).where(
            report_partitions.c.job == job
        )
        with self._transaction() as connection:
            count, first, last = connection.execute(statement).one()
            return Coverage(hours=int(count), first=str(first or ""), last=str(last or ""))


def finish(connection: Connection, run: RunRow) -> bool:
    """Write a run's end within a transaction; False if another owner has taken it over."""
    values = values_of(run)
    for column in ("job", "cause", "owner", "began_ms", "actor"):
        del values[column]
    own = _running_of(run.id, run.owner)
    return bool(connection.execute(update(report_runs).where(own).values(**values)).rowcount)


def _running_of(run_id: int, owner: str) -> Condition:
    columns = report_runs.c
    is_running = columns.state == RunState.RUNNING
    return (columns.id == run_id) & (columns.owner == owner) & is_running
