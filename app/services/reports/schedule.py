"""Computes when a job is due: five fields of cron, in UTC."""

from datetime import UTC, datetime

from app.db.report_rows import ScheduleRow
from engine.errors import Invalid
from engine.report_tables import LAG_JOB, TRACES_JOB

CHARS_MAX = 128
LIMIT_MIN_S, LIMIT_MAX_S = 30, 24 * 3600
REMEDY = "five fields: minute hour day month weekday, in UTC, as in */5 * * * *"
# Traces a minute after every tenth, so that an hour that has just ended is done as a whole.
DEFAULTS = {LAG_JOB: ("*/5 * * * *", 300), TRACES_JOB: ("1-59/10 * * * *", 600)}


def default(job: str, now_ms: int) -> ScheduleRow:
    """A job's default schedule."""
    cron, limit_s = DEFAULTS[job]
    return ScheduleRow(
        job=job,
        cron=cron,
        is_enabled=True,
        limit_s=limit_s,
        next_ms=next_ms(cron, now_ms),
        changed_ms=now_ms,
        changed_by="",
    )


def next_ms(cron: str, after_ms: int) -> int:
    """The first time after that one; Invalid where `cron` cannot be understood or never comes."""
    from cronsim import CronSim, CronSimError  # only where there is something to find out

    fields = cron.split()
    if len(fields) != 5 or len(cron) > CHARS_MAX or not cron.isascii():
        raise Invalid(f"{cron[:40]!r} is no schedule", field="cron", remedy=REMEDY)
    try:
        moment = next(CronSim(" ".join(fields), datetime.fromtimestamp(after_ms / 1000, UTC)))
    except CronSimError as error:
        raise Invalid(f"{cron!r} is no schedule: {error}", field="cron", remedy=REMEDY) from None
    except StopIteration:
        raise Invalid(f"{cron!r} never comes", field="cron", remedy=REMEDY) from None
    return int(moment.timestamp()) * 1000


def check_limit(limit_s: int) -> int:
    """Invalid for a time limit that makes no sense."""
    if not LIMIT_MIN_S <= limit_s <= LIMIT_MAX_S:
        raise Invalid(
            f"limit_s is {limit_s:,}",
            field="limit_s",
            remedy=f"choose {LIMIT_MIN_S} to {LIMIT_MAX_S:,} s",
        )
    return limit_s
