"""What a run reads: exactly the files that the manifest named when it began."""

from collections.abc import Iterable
from pathlib import Path

import msgspec

from analytics.errors import Refused
from analytics.manifest import FrameManifest, load
from engine.report_hours import INPUTS, LOOKBACK_HOURS, fingerprint, hours_before

FILE_URL = "file://"


class Input(msgspec.Struct):
    """What was read of one frame."""

    hours: list[str]
    rows: int
    late_rows: int


def is_local_path(root: str) -> bool:
    """Whether a root is a path of this machine, and no URL of some store."""
    return "://" not in root or root.startswith(FILE_URL)


def load_local(root: str) -> FrameManifest:
    """The manifest of a local folder; raises StoreUnreadable."""
    return load(Path(root.removeprefix(FILE_URL)))


def hours_read(frame: str, hours: Iterable[str]) -> set[str]:
    """The wanted hours and those before that they need."""
    return {each for hour in hours for each in hours_before(hour, LOOKBACK_HOURS[frame])}


def input_hours(manifest: FrameManifest, job: str, hours: Iterable[str]) -> dict[str, Input]:
    """What a run of these hours reads, by frame."""
    hour_names = list(hours)
    inputs = {}
    for frame in INPUTS[job]:
        known = manifest.partitions(frame)
        there = sorted(hours_read(frame, hour_names) & known.keys())
        late_rows = sum(known[hour].late_rows for hour in there)
        inputs[frame] = Input(there, manifest.row_count(frame, there), late_rows)
    return inputs


def fingerprints(manifest: FrameManifest, job: str, hours: Iterable[str]) -> dict[str, str]:
    """By hour, see `engine.report_hours.fingerprint`."""
    known = {frame: manifest.fingerprints(frame) for frame in INPUTS[job]}
    return {hour: fingerprint(job, hour, known) for hour in hours}


def check_root(root: str, *, is_local: bool, is_shared: bool) -> None:
    """Refused where the workers of a cluster would look for files that only this machine has."""
    if not root:
        raise Refused("root is empty", "give the folder of the Parquet", field="root")
    if is_local_path(root) and not is_local and not is_shared:
        raise Refused(
            f"{root} is a path of this machine, the workers are on others",
            "give a URL, or set is_shared (the server's setting report_root_is_shared) where all "
            "of them see that path",
            field="root",
        )
