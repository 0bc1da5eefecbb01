"""Spark sessions, made the same way everywhere: on this machine, on a cluster, over Connect.

`master` is "local[N]", "spark://host:port" or "sc://host:port" (Spark Connect). On this machine
everything is bound to loopback, the web interface is off, times are UTC, and all temporary files
lie in a folder of the run's own, which goes with it. ANSI SQL stays on, as Spark 4 has it: divide
with `try_divide`.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from analytics.errors import Refused
from analytics.home import package, spark_home
from analytics.java import Java, cache_path, find_java, make_cache, use_cache
from analytics.runs import run_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOPBACK = "127.0.0.1"
END_TIMEOUT_S = 120.0  # for the Java machine to end; it may have a start-up cache to write
MASTERS = ("local", "spark://", "sc://")
LOG_NAME = "spark.log"
# Without Java's second compiler a start costs half the time, and what rows cost is Python's time. A
# short run collects little: threads for that, and small pages, are more than it gives back.
SHORT_RUN = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:+UseTransparentHugePages")
# Workers take and give back hundreds of MiB at a time: kept, and in large pages, they need not be
# made anew by the system each time, which cost a fifth of the time.
KEPT_MEMORY = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
    "MALLOC_MMAP_THRESHOLD_": str(2**25),  # the most it takes
    "MALLOC_TRIM_THRESHOLD_": str(2**32),
}
# WARN and above to a file: what a Java machine prints would be taken for the job's own words.
LOG4J = """rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {path}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{yyyy-MM-dd HH:mm:ss}} %p %c{{1}}: %m%n%ex
"""


@dataclass(frozen=True, kw_only=True)
class SessionOptions:
    """What a session is made of; `folder` is for shims, caches and the folders of runs.

    `log` is the file that Spark's warnings go to (the run's folder, if None). `new_cache`
    is where the start-up cache is written when the session ends. `is_last` of this
    process: on this machine it is ended without ado, a second sooner. `conf` is set last.
    """

    folder: Path
    master: str = "local[2]"
    app_name: str = "kitemq"
    java_home: str = ""
    driver_memory: str = "1g"
    shuffle_partitions: int = 4
    is_adaptive: bool = True
    log: Path | None = None
    new_cache: Path | None = None
    is_last: bool = False
    conf: Mapping[str, str] = field(default_factory=dict)


@contextmanager
def session(options: SessionOptions) -> "Iterator[SparkSession]":
    """A session, stopped afterwards, its temporary files removed.

    One at a time in a process. Raises NotInstalled, Refused.
    """
    check_master(options.master)
    installed = package()
    from pyspark.sql import SparkSession

    if options.master.startswith("sc://"):
        spark = SparkSession.builder.remote(options.master).getOrCreate()
        try:
            yield _configured(spark, options)
        finally:
            spark.stop()
        return
    java = find_java(options.folder, options.java_home)
    home = spark_home(options.folder) if is_local(options.master) else installed
    with run_folder(options.folder / "runs") as folder:
        os.environ.update(environment(java, home, options.master))
        builder = SparkSession.builder.master(options.master).appName(options.app_name)
        for name, value in static_conf(options, java, home, folder).items():
            builder = builder.config(name, value)
        spark = builder.getOrCreate()
        try:
            yield _configured(spark, options)
        finally:
            if options.is_last and is_local(options.master):
                _kill_gateway()
            else:
                spark.stop()
                _end_gateway()


def check_master(master: str) -> None:
    """Refused for what Spark would not understand, or only much later."""
    if not master.startswith(MASTERS):
        raise Refused(
            f"{master!r} is no Spark master",
            "give local[2], spark://host:port or sc://host:port",
            field="master",
        )


def is_local(master: str) -> bool:
    """Whether Spark runs in this process's own Java machine only."""
    return master.startswith("local")


def environment(java: Java, home: Path, master: str) -> dict[str, str]:
    """Variables that Spark's scripts and workers read; `home` is Spark's."""
    variables = {"JAVA_HOME": str(java.home), "SPARK_HOME": str(home), "TZ": "UTC"}
    # Else workers are started with whatever `python3` there is on the PATH.
    variables |= dict.fromkeys(("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"), sys.executable)
    if is_local(master) or LOOPBACK in master or "localhost" in master:
        variables["SPARK_LOCAL_IP"] = LOOPBACK
    if is_local(master):
        variables |= KEPT_MEMORY
    # For the small Java machine that finds out how to start the other one.
    variables["SPARK_LAUNCHER_OPTS"] = " ".join(SHORT_RUN)
    return variables


def static_conf(options: SessionOptions, java: Java, home: Path, folder: Path) -> dict[str, str]:
    """What has to be known before Java starts; `home` is Spark's, `folder` the run's."""
    log = options.log or folder / LOG_NAME
    layout = folder / "log4j2.properties"
    layout.write_text(LOG4J.format(path=log))
    flags = [f"-Dlog4j2.configurationFile=file:{layout}", f"-Djava.io.tmpdir={folder}"]
    flags += ["-XX:-UsePerfData", *SHORT_RUN]
    cache = cache_path(options.folder, java, home)
    if options.new_cache is not None:
        flags.append(make_cache(java, options.new_cache))
    elif cache.exists():
        flags.append(use_cache(java, cache))
    conf = {
        "spark.driver.extraJavaOptions": " ".join(flags),
        "spark.driver.memory": options.driver_memory,
        "spark.driver.maxResultSize": "512m",
        "spark.local.dir": str(folder),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    if is_local(options.master):
        conf |= {"spark.driver.bindAddress": LOOPBACK, "spark.driver.host": LOOPBACK}
        # What is large is compressed already, and none of it leaves the machine.
        conf["spark.shuffle.compress"] = "false"
    return conf


def runtime_conf(options: SessionOptions) -> dict[str, str]:
    """What every session is given, a Connect server's too."""
    return {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(options.shuffle_partitions),
        "spark.sql.adaptive.enabled": str(options.is_adaptive).lower(),
        # Without it a data source that takes filters is an error.
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # It is for few groups, and costs more than it saves where there are many.
        "spark.sql.codegen.aggregate.map.twolevel.enabled": "false",
        # What is kept is read once or twice: compressing it takes longer than making it.
        "spark.sql.inMemoryColumnarStorage.compressed": "false",
        **options.conf,
    }


def _configured(spark: "SparkSession", options: SessionOptions) -> "SparkSession":
    for name, value in runtime_conf(options).items():
        spark.conf.set(name, value)
    return spark


def _kill_gateway() -> None:
    """End the Java machine as it stands: all that it still holds goes with the run's folder."""
    from pyspark import SparkContext

    context, gateway = SparkContext._active_spark_context, SparkContext._gateway
    assert context is not None
    assert gateway is not None
    # It would tell of the connection that ends.
    context._accumulatorServer.handle_error = _say_nothing  # type: ignore[method-assign]
    gateway.proc.kill()
    gateway.proc.wait(timeout=END_TIMEOUT_S)


def _say_nothing(request: object, client_address: object) -> None:
    pass


def _end_gateway() -> None:
    """End the Java machine too, which would otherwise live as long as this process."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    if gateway is None:
        return
    gateway.shutdown()
    process = gateway.proc
    # Its standard input is what it lives by.
    process.stdin.close()
    process.wait(timeout=END_TIMEOUT_S)
    SparkContext._gateway = SparkContext._jvm = None
