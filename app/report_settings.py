"""Settings of the reports: whether they run by themselves, where, and how long things are kept.

`complaint` says what cannot be, before the server starts.
"""

from dataclasses import dataclass

from engine.config import setting

MASTERS = ("local", "spark://", "sc://")
FILE_URL = "file://"


@dataclass(frozen=True, kw_only=True)
class ReportSettings:
    """What the reports can be told; their schedules are kept in the database."""

    report_schedules: bool = setting(
        True,
        "Whether reports run by themselves, as their schedules say; run by hand they can always "
        "be. Without Spark none runs. After the first one Spark's start-up cache is made.",
    )
    report_master: str = setting(
        "local[2]",
        "Where Spark computes: `local[N]` (N threads on this machine), `spark://HOST:PORT`, or "
        "`sc://HOST:PORT` (Spark Connect). Workers elsewhere need `report_root` on shared storage.",
    )
    report_spark_rows: int = setting(
        3_000_000,
        "Rows from which on Spark computes a report. What reads fewer is computed by one Python "
        "process, without Java: the same figures, seconds sooner. 0: Spark computes all.",
    )
    report_root: str = setting(
        "",
        "Folder of the Parquet files that the server writes and reports read, a path or a `file:` "
        "URL; empty for `analytics` in `data`.",
    )
    report_root_is_shared: bool = setting(
        False,
        "Whether the workers of `report_master` see `report_root` under the same path: a shared "
        "file system. Without it a path is only taken where Spark computes on this machine.",
    )
    report_java_home: str = setting(
        "", "JAVA_HOME of the Java that runs Spark; empty looks for one (docs/spark.md)."
    )
    report_driver_memory: str = setting("1g", "Memory of the Java machine that computes reports.")
    report_processors: int = setting(
        0, "Processors that a report uses at most (Linux); 0 leaves one of them to the server."
    )
    report_input_days: int = setting(
        90, "Days that the Parquet files are kept; figures stay longer. 0 keeps all."
    )
    report_input_bytes: int = setting(
        20 * 1024**3,
        "Bytes of Parquet with messages and traces; the oldest hours go first. 0 sets no limit.",
    )
    report_hourly_days: int = setting(
        7, "Days that figures are kept by the hour; older ones are put together by the day (UTC)."
    )
    report_daily_days: int = setting(
        91, "Days that figures are kept by the hour or day; older ones are by four weeks."
    )
    report_keep_days: int = setting(
        3650, "Days that the figures of the reports are kept in the database at all."
    )


def complaint(settings: ReportSettings) -> str:
    """What does not fit; "" where all does."""
    if not settings.report_master.startswith(MASTERS):
        return (
            f"setting 'report_master' is {settings.report_master!r}; expected local[2], "
            "spark://HOST:PORT or sc://HOST:PORT"
        )
    if "://" in settings.report_root and not settings.report_root.startswith(FILE_URL):
        return (
            f"setting 'report_root' is {settings.report_root!r}; expected a path or a file: URL: "
            "the server writes files there, mount the store or copy them to it (docs/spark.md)"
        )
    least, name = 1, ""
    for field in ("report_hourly_days", "report_daily_days", "report_keep_days"):
        days = getattr(settings, field)
        if days < least:
            than = f" ({name} days)" if name else ""
            return f"setting '{field}' is {days}; expected {least} or more{than}"
        least, name = days, field
    return ""
