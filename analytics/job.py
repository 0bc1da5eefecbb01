"""Runs one job: `python -m analytics.job --request FILE`, a process of its own.

The request is a JSON object:

| field | meaning | default |
|---|---|---|
| job | `traces` or `lag` | |
| hours | UTC hours to compute anew, as `["2026-11-21T03"]`; at most 1,000 | |
| root | folder of the Parquet, a path or a URL that Spark reads; object stores want a jar | |
| is_shared | whether the workers of a cluster see the same path | `false` |
| output | folder for the results; made if it is missing, else empty but for `progress.json` | |
| folder | DATA/spark: shims, start-up caches, folders of runs | |
| master | `local[2]`, `spark://host:port` or `sc://host:port` | `local[2]` |
| java_home | which Java | found |
| driver_memory | of the Java machine | `1g` |
| spark_rows | rows from which on Spark computes; what reads fewer is computed by this process \
alone, without Java. 0: Spark computes all, as it does where `root` is an object store's URL | 0 |
| params | of the job (`analytics.jobs.definitions.Params`), all optional | `{}` |
| previous | of `lag`: JSON lines, rows of `lag_now` of the hour before the first | none |
| log | file for Spark's warnings | in the run's folder |

`hours` need not exist: one without rows has empty results. The driver reads `root`'s
`manifest.json`; with an object store it is read through Spark.

The folder `output` then has, while it runs, `progress.json` (replaced about twice a second):

    {"stage": "starting" | "computing" | … | "done", "percent": 0-100, "at_ms": …,
     "tasks_done": n, "tasks": n}

and when everything is done `<table>.ndjson` of each table (engine/report_tables.py: one JSON object
a line, keys are its columns, 64-bit numbers as numbers, JSON columns as text), and last of all
`result.json`. Where that is missing nothing else may be used. It is written on failures too, then
without `tables`:

    {"format": 1, "job": "traces", "state": "ok" | "failed", "error_class": "", "error": "",
     "is_transient": false, "hours": […], "fingerprints": {hour: "16 hex digits"},
     "input": {"frame": {"hours": […], "rows": n, "late_rows": n}}, "rows_in": n, "rows_out": n,
     "input_position": n, "input_at_ms": n (everything stored before is in), "lag_ms": n,
     "counters": {"duplicates": n, "late": n, "skewed": n, "unmatched_acks": n, "estimated": n},
     "spark": "4.3.0", "java": "25.0.2", "master": "local[2]" (without Spark all three are ""),
     "began_ms": …, "seconds": 9.1,
     "peak_kib": n (of all its processes, each at its most; null where that cannot be seen),
     "tables": {"latency": {"rows": n, "file": "latency.ndjson", "replaces": "hours" | "all",
                            "key": […], "columns": [{"name": …, "kind": …}]}}}

A table whose `replaces` is "all" is left out where the run did not include the newest hour.
`fingerprints` were taken before anything was read.

Exit codes: 0 done, 1 failed and a retry may help (`is_transient`), 2 the request or its data is
wrong, 3 Spark or Java is missing, 4 failed and a retry will not help, 143 ended by SIGTERM.
Standard output stays empty; standard error has the reason. The process runs in the idle scheduling
class; SIGTERM ends it with its Java machine and its temporary files.
"""

import argparse
import calendar
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from analytics.errors import AnalyticsError, NotInstalled, Refused, StoreUnreadable
from analytics.home import package
from analytics.quiet import become_idle
from analytics.usage import Usage
from engine.report_hours import FORM, INPUTS, hours_before
from engine.report_tables import FORMAT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from analytics.jobs.definitions import Params
    from analytics.jobs.progress import JobProgress
    from analytics.jobs.run import RunWork

EXIT_RETRY, EXIT_REFUSED, EXIT_MISSING, EXIT_FAILED, EXIT_TERMINATED = 1, 2, 3, 4, 143
HOURS_MAX = 1_000
ERROR_CHARS_MAX = 2_000
CONNECT = "sc://"
HOUR_S = 3_600
# By the scheme of a URL the jar through which Spark reads such a store.
JARS = {
    "s3a": "hadoop-aws",
    "gs": "gcs-connector",
    "abfs": "hadoop-azure",
    "abfss": "hadoop-azure",
}
SUBMIT_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"
AHEAD = ("pandas", "pyspark.testing", "analytics.jobs.run")  # two for PySpark, one for the job
OWN_PARAMS = ("hours", "at_ms", "is_traced_by_clients")  # not the caller's
# Names of Spark's and Python's errors (or of what they are made from) that may pass by themselves:
# a Java machine or a server that went away, a task that failed, a disk that is full.
TRANSIENT = (
    "Py4JError",
    "PySparkRuntimeError",
    "SparkConnectGrpcException",
    "ConnectionError",
    "OSError",
)
# What Python writes of this error where a worker raised it; the rest of the line is its text.
UNREADABLE = f"{StoreUnreadable.__module__}.{StoreUnreadable.__qualname__}: "
# What systems say of a disk without room, to Java and to Python.
FULL = ("No space left on device", "Disk quota exceeded", "File too large")


class JobRequest(msgspec.Struct, forbid_unknown_fields=True):
    """What to do, see above."""

    job: str
    hours: list[str]
    root: str
    output: str
    folder: str
    is_shared: bool = False
    master: str = "local[2]"
    java_home: str = ""
    driver_memory: str = "1g"
    params: dict[str, Any] = {}
    previous: str = ""
    log: str = ""
    spark_rows: Annotated[int, Meta(ge=0)] = 0


class Terminated(BaseException):
    """SIGTERM came."""


def read_request(path: Path) -> JobRequest:
    """The request in a file; Refused for what it may not say."""
    try:
        request = msgspec.json.decode(path.read_bytes(), type=JobRequest)
    except (OSError, ValueError) as error:  # also of bytes that are no UTF-8
        raise Refused(f"the request cannot be read: {error}", "", field="request") from None
    if request.job not in INPUTS:
        raise Refused(
            f"there is no job {request.job!r}", f"one of {', '.join(INPUTS)}", field="job"
        )
    if not 0 < len(request.hours) <= HOURS_MAX:
        raise Refused(f"{len(request.hours)} hours", f"give 1 to {HOURS_MAX:,}", field="hours")
    request.hours = sorted(set(request.hours))
    for hour in request.hours:
        _number(hour)
    params_of(request)
    return request


def params_of(request: JobRequest) -> "Params":
    """The job's parameters; Refused with the name of one that is wrong."""
    from analytics.jobs.definitions import Params

    known = {each.name for each in fields(Params)} - set(OWN_PARAMS)
    for name, value in request.params.items():
        if name not in known:
            names = ", ".join(sorted(known))
            raise Refused(f"there is no parameter {name}", f"one of {names}", field="params")
        if isinstance(value, int | float) and value < 0:
            raise Refused(f"{name} is {value}", "give 0 or more", field=f"params.{name}")
    hours = [_number(hour) for hour in request.hours]
    try:
        params = msgspec.convert({**request.params, "hours": hours}, Params)
    except msgspec.ValidationError as error:
        raise Refused(f"params: {error}", "", field="params") from None
    if not (params.step_s > 0 and HOUR_S % params.step_s == 0 and 0 < params.window_s <= HOUR_S):
        raise Refused(
            f"step_s {params.step_s}, window_s {params.window_s}",
            "a step divides an hour, a window is 1 to 3,600",
            field="params.step_s",
        )
    return params


def _number(hour: str) -> int:
    try:
        hours_before(hour, 0)
        return calendar.timegm(time.strptime(hour, FORM)) // HOUR_S
    except ValueError:
        raise Refused(f"{hour!r} is no hour", "as 2026-11-21T03", field="hours") from None


def perform(request: JobRequest) -> dict[str, Any]:
    """Compute and write every table; what the work itself tells. Raises what went wrong."""
    from analytics.jobs import inputs
    from analytics.jobs.progress import JobProgress, stages_of
    from analytics.session import is_local

    is_ours = is_local(request.master)
    inputs.check_root(request.root, is_local=is_ours, is_shared=request.is_shared)
    progress = JobProgress(Path(request.output) / "progress.json", stages_of(request.job))
    progress.enter("starting")
    result = _plain(request, progress) if is_small(request) else _by_spark(request, progress)
    progress.enter("done")
    return result


def is_small(request: JobRequest) -> bool:
    """Whether so few rows are read that Java would take longer to start than they take."""
    from analytics.jobs import inputs

    if not request.spark_rows or not inputs.is_local_path(request.root):
        return False
    frames = inputs.input_hours(inputs.load_local(request.root), request.job, request.hours)
    return sum(each.rows for each in frames.values()) < request.spark_rows


def _plain(request: JobRequest, progress: "JobProgress") -> dict[str, Any]:
    """Compute in this process."""
    from analytics.jobs import run
    from analytics.jobs.engines import PlainEngine

    with _readable():
        result = run.run(PlainEngine(), _work(request), progress)
    return result | {"spark": "", "java": "", "master": ""}


def _work(request: JobRequest) -> "RunWork":
    from analytics.jobs.run import RunWork

    previous = Path(request.previous) if request.previous else None
    output, params = Path(request.output), params_of(request)
    return RunWork(request.job, request.hours, request.root, output, params, previous)


def _by_spark(request: JobRequest, progress: "JobProgress") -> dict[str, Any]:
    """Compute in a session of its own."""
    from analytics.session import SessionOptions, session

    check_jars(request)
    options = SessionOptions(
        folder=Path(request.folder),
        master=request.master,
        app_name=f"kitemq {request.job}",
        java_home=request.java_home,
        driver_memory=request.driver_memory,
        log=Path(request.log) if request.log else None,
        is_last=True,
    )
    package()
    # Whole, before a second thread loads modules that import it: its own import each other.
    import_module("pyspark.sql")
    threading.Thread(target=_load_ahead, daemon=True).start()
    with session(options) as spark:
        from analytics.jobs import run  # which was loaded meanwhile
        from analytics.jobs.engines import SparkEngine

        is_connect = request.master.startswith(CONNECT)
        java = "" if is_connect else _java_version(spark)
        with progress.watch(spark, is_connect=is_connect), _readable():
            result = run.run(SparkEngine(spark), _work(request), progress)
        return result | {"spark": spark.version, "java": java}


def _load_ahead() -> None:
    """Load what is wanted when Java is there, while it starts."""
    with suppress(ImportError):  # optional
        for name in AHEAD:
            import_module(name)


def check_jars(request: JobRequest) -> None:
    """Refused for an object store whose jar is not there; a Connect server has its own jars."""
    jar = JARS.get(request.root.partition("://")[0])
    if jar is None or request.master.startswith(CONNECT):
        return
    is_there = any((package() / "jars").glob(f"{jar}-*.jar"))
    if not is_there and jar not in os.environ.get(SUBMIT_ARGUMENTS, ""):
        raise Refused(
            f"{request.root} needs the jar {jar}, which PySpark's package does not bring",
            f"name it in {SUBMIT_ARGUMENTS} with --packages, or put it with what it needs into "
            "PySpark's folder jars",
            field="root",
        )


def _java_version(spark: "SparkSession") -> str:
    machine = spark._jvm
    assert machine is not None
    return str(machine.System.getProperty("java.version"))


class Failed(AnalyticsError):
    """Something that Spark or the system raised, read while Spark could still tell its text."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.name = type(error).__name__
        self.names = {each.__name__ for each in type(error).__mro__}


@contextmanager
def _readable() -> Iterator[None]:
    try:
        yield
    except AnalyticsError:
        raise
    except Exception as error:
        _, is_there, detail = str(error).rpartition(UNREADABLE)
        if is_there:
            raise StoreUnreadable(detail.partition("\n")[0]) from None
        raise Failed(error) from None


def exit_code(error: BaseException) -> int:
    """What the caller may do about it, see above."""
    if isinstance(error, Terminated):
        return EXIT_TERMINATED
    if isinstance(error, NotInstalled):
        return EXIT_MISSING
    if isinstance(error, Refused | StoreUnreadable):
        return EXIT_REFUSED
    if not isinstance(error, Failed):
        error = Failed(error) if isinstance(error, Exception) else Failed(RuntimeError(str(error)))
    is_transient = error.names.intersection(TRANSIENT) or disk_full(error.detail)
    return EXIT_RETRY if is_transient else EXIT_FAILED


def disk_full(text: str) -> str:
    """What an error says of a disk without room; "" where it says nothing of it."""
    return next((words for words in FULL if words in text), "")


def _error_text(error: BaseException) -> str:
    """What goes into the result: of a full disk few words, which find room on it."""
    words = disk_full(str(error))
    return f"the disk is full: {words}" if words else str(error)[:ERROR_CHARS_MAX]


def _tell(text: str) -> None:
    """For the log, if its disk has room."""
    with suppress(OSError):
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the request that a file holds; exit codes are named above."""
    parser = argparse.ArgumentParser(prog="python -m analytics.job", description="Run one job.")
    parser.add_argument("--request", type=Path, required=True, help="file with the request as JSON")
    options = parser.parse_args(arguments)
    # What Java prints is no result of ours.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    become_idle()
    signal.signal(signal.SIGTERM, _terminate)
    try:
        request = read_request(options.request)
        output = Path(request.output)
        output.mkdir(parents=True, exist_ok=True)
    except (Refused, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return EXIT_REFUSED
    return _run(request, output)


def _run(request: JobRequest, output: Path) -> int:
    from analytics.jobs.outputs import replace

    began_s = time.time()
    result: dict[str, Any] = {
        "format": FORMAT,
        "job": request.job,
        "state": "failed",
        "error_class": "",
        "error": "",
        "is_transient": False,
        "hours": request.hours,
        "master": request.master,
        "began_ms": int(began_s * 1000),
    }
    code = 0
    usage = Usage(os.getpid())
    try:
        with usage.watched():
            result |= perform(request) | {"state": "ok"}
    except (Exception, Terminated) as raised:
        # Stopping a session whose Java machine is gone raises errors of its own.
        was_told = signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
        error = Terminated("ended by SIGTERM") if was_told else raised
        code = exit_code(error)
        _tell(f"{type(error).__name__}: {error}")
        result |= {
            "error_class": error.name if isinstance(error, Failed) else type(error).__name__,
            "error": _error_text(error),
            "is_transient": code == EXIT_RETRY,
        }
    peak_kib = round(usage.total().memory_mib * 1024) or None
    result |= {"seconds": round(time.time() - began_s, 3), "peak_kib": peak_kib}
    try:
        replace(output / "result.json", json.dumps(result, ensure_ascii=False))
    except OSError as error:
        _tell(f"the result cannot be written: {error}")
        return EXIT_RETRY
    return code


def _terminate(number: int, frame: FrameType | None) -> None:
    """End the Java machine first: what waits for its answer would not hear of anything else."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    context = sys.modules.get("pyspark.core.context")
    gateway = context.SparkContext._gateway if context else None
    if gateway is not None:
        gateway.proc.kill()
    raise Terminated("ended by SIGTERM")


if __name__ == "__main__":
    sys.exit(main())
