"""The manifest of the Parquet folder: the one file that says what is in it, replaced as a whole.

Readers read exactly the files that it names (`paths`): a folder may also hold what a killed writer
left, or what a compaction has replaced and a running job still reads. `position` and `lag_ms` say
how far the log and the lag samples have been written, in the same file, so that after a crash at
any point the next writer goes on without a double or a missing row.

A partition's fingerprint changes when rows came in, and only then: not by compaction, and it is the
same for the same rows however often the writer was killed.
"""

import os
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from analytics.errors import StoreUnreadable
from analytics.schemas import FRAMES
from engine.report_hours import partition_fingerprint

NAME = "manifest.json"
FORMAT = 1
HOUR_MS = 3_600_000


class PartitionFile(msgspec.Struct, frozen=True):
    """One file of a partition."""

    name: str
    rows: int
    size_bytes: int


class HourPartition(msgspec.Struct):
    """One hour of a frame. `last` is the highest log position (of lag: time) among its rows.

    `late_rows` came after the hour had been sealed; they are in `rows` too.
    """

    parts: list[PartitionFile] = []
    rows: int = 0
    last: int = -1
    late_rows: int = 0
    is_sealed: bool = False

    @property
    def fingerprint(self) -> str:
        """Changes with the rows."""
        return partition_fingerprint(self.rows, self.last)


class Dropped(msgspec.Struct, frozen=True):
    """A file that no partition names any more; deleted when no job can be reading it."""

    path: str
    at_ms: int


class Counters(msgspec.Struct):
    """What was passed over since the beginning, so that nothing is missing silently."""

    expired_bytes: int = 0  # of the log: retention took them before they were read
    damaged_bytes: int = 0  # of the log: no records
    damaged_records: int = 0  # that fail their check
    damaged_blocks: int = 0  # of lag samples
    own_records: int = 0  # of topics that are the engine's own affair


class FrameManifest(msgspec.Struct):
    """`at_ms`: everything stored before that is in; `frames` are by frame, then by hour (UTC).

    Of what was stored before `begin_ms` something may be missing. `offsets` are of a cluster: the
    next one to be read, by topic, broker and queue.
    """

    format: int = FORMAT
    sequence: int = 0  # grows with every change
    position: int = 0
    lag_ms: int = -1
    at_ms: int = 0
    begin_ms: int = 0
    frames: dict[str, dict[str, HourPartition]] = {}
    offsets: dict[str, dict[str, dict[int, int]]] = {}
    dropped: list[Dropped] = []
    counters: Counters = msgspec.field(default_factory=Counters)

    def partitions(self, frame: str) -> dict[str, HourPartition]:
        """The hours of a frame by name ("2026-11-21T03")."""
        return self.frames.setdefault(frame, {})

    def fingerprints(self, frame: str) -> dict[str, str]:
        """What to compare with what was computed last."""
        return {hour: each.fingerprint for hour, each in self.partitions(frame).items()}

    def paths(self, frame: str, hours: Iterable[str] | None = None) -> list[str]:
        """Files of these hours (of all, if None), below the folder; hours without any are left out.

        For Spark: `spark.read.schema(ddl(frame) + PARTITION_DDL).option("basePath",
        f"{root}/{frame}").parquet(*[f"{root}/{path}" for path in paths])`.
        """
        known = self.partitions(frame)
        selected = sorted(known) if hours is None else sorted(set(hours) & known.keys())
        return [path_of(frame, hour, part) for hour in selected for part in known[hour].parts]

    def files(self, frame: str, hours: Iterable[str]) -> list[tuple[str, int]]:
        """As `paths`, each with its rows."""
        known = self.partitions(frame)
        selected = sorted(set(hours) & known.keys())
        return [
            (path_of(frame, hour, part), part.rows)
            for hour in selected
            for part in known[hour].parts
        ]

    def row_count(self, frame: str, hours: Iterable[str] | None = None) -> int:
        """How many rows these files have together."""
        known = self.partitions(frame)
        selected = known if hours is None else set(hours) & known.keys()
        return sum(known[hour].rows for hour in selected)

    @property
    def is_of_cluster(self) -> bool:
        """Whether its trace rows are what clients traced, and not all that happened."""
        return bool(self.offsets)


PARTITION_DDL = ", `dt` STRING, `hr` INT"


def load(root: Path) -> FrameManifest:
    """The manifest of a folder; an empty one where there is none. Raises StoreUnreadable."""
    try:
        data = (root / NAME).read_bytes()
    except FileNotFoundError:
        return FrameManifest(frames={frame: {} for frame in FRAMES})
    try:
        manifest = msgspec.json.decode(data, type=FrameManifest)
    except ValueError as error:  # also of bytes that are no UTF-8
        raise StoreUnreadable(f"{root / NAME} is no manifest ({error})", REMEDY) from None
    if manifest.format != FORMAT:
        raise StoreUnreadable(f"{root / NAME} has format {manifest.format}, not {FORMAT}", REMEDY)
    return manifest


REMEDY = "move the folder away: it is written anew from what the log still keeps"


def save(root: Path, manifest: FrameManifest) -> None:
    """Replace the manifest in one step, on the disk when this returns."""
    temporary = root / f"{NAME}.tmp"
    with temporary.open("wb") as file:
        file.write(msgspec.json.encode(manifest))
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(root / NAME)
    sync_folder(root)


def sync_folder(path: Path) -> None:
    """Bring the names in a folder to the disk."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def hour_name(hour: int) -> str:
    """ "2026-11-21T03" for the number of an hour since 1970."""
    return datetime.fromtimestamp(hour * 3600, UTC).strftime("%Y-%m-%dT%H")


def hour_end_ms(name: str) -> int:
    """When an hour is over."""
    begin = datetime.strptime(name, "%Y-%m-%dT%H").replace(tzinfo=UTC)
    return int(begin.timestamp()) * 1000 + HOUR_MS


def path_of(frame: str, hour: str, part: PartitionFile) -> str:
    """Where a file lies below the folder of all frames."""
    return f"{frame}/{folder_of(hour)}/{part.name}"


def folder_of(hour: str) -> str:
    """Where an hour's files lie below their frame's folder."""
    day, _, number = hour.partition("T")
    return f"dt={day}/hr={number}"
