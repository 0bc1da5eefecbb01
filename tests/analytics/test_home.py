"""The Spark that this machine starts: all of PySpark's jars but one, and PySpark as installed."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from analytics import home
from analytics.errors import NotInstalled
from analytics.home import package, spark_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_all_jars_are_there_but_the_one_that_no_report_uses(tmp_path: Path) -> None:
    made = spark_home(tmp_path)
    jars = {each.name for each in (package() / "jars").glob("*.jar")}
    linked = {each.name for each in (made / "jars").iterdir()}
    (left_out,) = jars - linked
    assert linked < jars
    assert left_out.startswith("spark-mllib_")
    assert all((made / "jars" / name).resolve().is_file() for name in linked)
    assert (made / "bin" / "spark-submit").is_file()
    assert {*tmp_path.iterdir()} == {made, tmp_path / "runs"}
    assert list((tmp_path / "runs").iterdir()) == []


def test_it_is_made_once_and_anew_for_other_jars(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = tmp_path / "pyspark"
    (installed / "jars").mkdir(parents=True)
    (installed / "jars" / "one.jar").touch()
    monkeypatch.setattr(home, "package", lambda: installed)
    folder = tmp_path / "spark"
    first = spark_home(folder)
    (first / "mark").touch()
    assert spark_home(folder) == first
    assert (first / "mark").exists()
    (installed / "jars" / "two.jar").touch()
    second = spark_home(folder)
    assert second != first
    assert {each.name for each in (second / "jars").iterdir()} == {"one.jar", "two.jar"}


def test_of_two_that_make_it_at_once_the_first_one_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = Path.rename

    def late(self: Path, target: Path) -> Path:
        target.mkdir()
        (target / "mark").touch()
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", late)
    made = spark_home(tmp_path)
    assert (made / "mark").exists()
    assert {*tmp_path.iterdir()} == {made, tmp_path / "runs"}
    assert list((tmp_path / "runs").iterdir()) == []


def test_without_pyspark_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(home, "find_spec", lambda name: None)
    with pytest.raises(NotInstalled, match=r"kitemq-server\[analytics\]"):
        package()


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_workers_take_the_installed_pyspark_and_not_the_packed_one(spark: "SparkSession") -> None:
    def where(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        import pyspark

        for _ in batches:
            yield pa.RecordBatch.from_pydict({"file": [pyspark.__file__]})

    (row,) = spark.range(1).mapInArrow(where, "file STRING").collect()
    assert Path(row["file"]).parent == package()
