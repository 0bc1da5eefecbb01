"""Rows that are there twice are looked for without Spark where the roll's order tells of them."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from analytics.jobs import inputs
from analytics.manifest import Manifest, load
from analytics.schemas import LAG, MESSAGES, TRACE
from bench.report_data import write

HOUR = 490_000


@pytest.fixture
def known(tmp_path: Path) -> tuple[Path, Manifest]:
    write(tmp_path / "root", 3_000, HOUR)
    return tmp_path / "root", load(tmp_path / "root")


def changed(root: Path, known: Manifest, frame: str, rows: list[int]) -> bool:
    """Whether the frame is still in order when its only file has these of its rows."""
    path = root / known.paths(frame)[0]
    table = pq.ParquetFile(path).read()
    pq.write_table(table.take(pa.array(rows)), path, row_group_size=1_000)
    found = inputs.is_in_order(str(root), known, frame, list(known.partitions(frame)))
    pq.write_table(table, path)
    return found


def test_what_the_roll_wrote_is_in_order(known: tuple[Path, Manifest]) -> None:
    root, manifest = known
    for frame in (TRACE, MESSAGES):
        hours = list(manifest.partitions(frame))
        assert inputs.is_in_order(str(root), manifest, frame, hours)
        assert inputs.is_in_order(f"file://{root}", manifest, frame, hours)
        count = manifest.row_count(frame, hours)
        assert count > 600
        # Also when it lies in several row groups; a missing row doubles none.
        assert changed(root, manifest, frame, [n for n in range(count) if n != 5])


@pytest.mark.parametrize("frame", [TRACE, MESSAGES])
@pytest.mark.parametrize("where", [0, 300, -1])
def test_a_doubled_or_a_moved_row_is_no_order(
    known: tuple[Path, Manifest], frame: str, where: int
) -> None:
    root, manifest = known
    rows = list(range(manifest.row_count(frame, list(manifest.partitions(frame)))))
    one = rows[where]
    assert not changed(root, manifest, frame, [*rows[: one + 1], one, *rows[one + 1 :]])
    others = [*rows[:one], *rows[one + 1 :]]
    middle = len(others) // 2
    assert not changed(root, manifest, frame, [*others[:middle], one, *others[middle:]])


def test_where_order_cannot_tell_it_does_not(known: tuple[Path, Manifest]) -> None:
    root, manifest = known
    hours = list(manifest.partitions(TRACE))
    assert not inputs.is_in_order("s3a://bucket/root", manifest, TRACE, hours)
    assert not inputs.is_in_order(str(root), manifest, LAG, hours)
