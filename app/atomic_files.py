"""Small files that are replaced whole: a power cut leaves the old or the new content."""

import os
from pathlib import Path


def replace(path: Path, data: bytes) -> None:
    """Write `data` to a file beside `path`, flush it, and put it in the place of `path`."""
    part = path.with_name(f"{path.name}.part")
    with part.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
    sync_folder(path.parent)


def remove(path: Path) -> None:
    """Remove a file, if there is one, so that it stays removed."""
    path.unlink(missing_ok=True)
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Flush the names in a folder."""
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
