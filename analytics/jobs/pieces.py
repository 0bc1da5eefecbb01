"""What a run reads: parts of Parquet files, read where the work is done.

Each task knows the names of its parts, and opens them by their paths. Of an object store it is
given whole files, which Spark has read: it knows the store, its jars and its keys.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from analytics.errors import StoreUnreadable
from analytics.jobs.inputs import FILE_URL
from analytics.manifest import HOUR_MS, REMEDY, FrameManifest, hour_end_ms
from analytics.schemas import FRAMES

TASK_ROWS = 600_000
# Texts that differ from row to row: a dictionary of them goes whole wherever a few rows go.
MANIFOLD = frozenset({"keys", "message_group", "message_id"})
WHERE = re.compile(r"(\w+)/dt=([0-9-]+)/hr=([0-9]+)/[^/]+$")


class FilePart(NamedTuple):
    """Part `part` of `parts` of a file, by its row groups; `content` is the file, if it is here."""

    path: str
    part: int
    parts: int
    content: bytes | None

    @property
    def frame(self) -> str:
        return self._where()[0]

    @property
    def hour(self) -> int:
        """The number of the hour that all its rows lie in."""
        _, day, hour = self._where()
        return hour_end_ms(f"{day}T{hour}") // HOUR_MS - 1

    def read(self, columns: Sequence[str]) -> "pa.Table":
        """Its rows in the order of the file; texts that repeat come as dictionaries.

        Raises StoreUnreadable.
        """
        texts = {each.name for each in FRAMES[self.frame] if each.kind == "STRING"}
        repeated = sorted((texts & set(columns)) - MANIFOLD)
        source: Any = self.path if self.content is None else pa.BufferReader(self.content)
        try:
            with pq.ParquetFile(source, read_dictionary=repeated) as file:
                count = file.num_row_groups
                begin, end = (count * part // self.parts for part in (self.part, self.part + 1))
                groups = list(range(begin, end))
                rows = file.read_row_groups(groups, columns=list(columns), use_threads=False)
                return rows.select(list(columns))
        except (OSError, ValueError, KeyError) as error:
            reason = " ".join(str(error).split())
            raise StoreUnreadable(
                f"{self.path} cannot be read ({reason})", f"bring it back, or {REMEDY}"
            ) from None

    def _where(self) -> tuple[str, str, str]:
        match = WHERE.search(self.path)
        assert match is not None, self.path
        return match[1], match[2], match[3]


def tasks_of(
    root: str, manifest: FrameManifest, read: Iterable[tuple[str, Iterable[str]]]
) -> list[list[FilePart]]:
    """Every file of these hours, by frame; as many of a file's parts to a task as fit."""
    tasks: list[list[FilePart]] = []
    left = 0
    for frame, hours in read:
        for folder, rows in manifest.files(frame, hours):
            path = f"{root}/{folder}".removeprefix(FILE_URL)
            parts = max(1, -(-rows // TASK_ROWS))
            for part in range(parts):
                if not tasks or left < rows // parts:
                    tasks.append([])
                    left = TASK_ROWS
                left -= rows // parts
                tasks[-1].append(FilePart(path, part, parts, None))
    return tasks
