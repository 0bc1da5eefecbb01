"""Settings of the reports: whether they run by themselves, where, and how long things are kept.

`complaint` says what cannot be, before the server starts.
"""

from dataclasses import dataclass

from engine.config import setting

MASTERS = ("local", "spark://", "sc://")


@dataclass(frozen=True, kw_only=True)
class ReportSettings:
    """What the reports can be told; their schedules are kept in the database."""

    report_schedules: bool = setting(
        True,
        "Whether reports run by themselves, as their schedules say; run by hand they can always "
        "be. Without Spark none runs.",
    )
    report_master: str = setting(
        "local[2]",
        "Where Spark computes: `local[N]` (N threads on this machine), `spark://HOST:PORT`, or "
        "`sc://HOST:PORT` (Spark Connect). Workers elsewhere need `report_root` on shared storage.",
    )
    report_root: str = setting(
        "", "Folder of the Parquet files that reports read; empty for `analytics` in `data`."
    )
    report_java_home: str = setting(
        "", "JAVA_HOME of the Java that runs Spark; empty looks for one (docs/spark.md)."
    )
    report_driver_memory: str = setting("1g", "Memory of the Java machine that computes reports.")
    report_input_days: int = setting(
        90, "Days that the Parquet files are kept; figures stay longer. 0 keeps all."
    )
    report_keep_days: int = setting(
        3650, "Days that the figures of the reports, by hour, are kept in the database."
    )


def complaint(settings: ReportSettings) -> str:
    """What does not fit; "" where all does."""
    if not settings.report_master.startswith(MASTERS):
        return (
            f"setting 'report_master' is {settings.report_master!r}; expected local[2], "
            "spark://HOST:PORT or sc://HOST:PORT"
        )
    if settings.report_keep_days < 1:
        return f"setting 'report_keep_days' is {settings.report_keep_days}; expected 1 or more"
    return ""
