"""The file system as the store sees it: the one seam where a simulation puts faulty files.

`OsFiles` is the real one. Nothing here buffers: what `pwrite` accepted is in the operating
system's page cache and survives the process; what `sync` returned for survives power loss.
"""

import errno
import fcntl
import os
from pathlib import Path
from typing import Protocol


class File(Protocol):
    """One open file, read and written at positions; never moves a cursor."""

    def pread(self, size_bytes: int, position: int) -> bytes:
        """At most `size_bytes` from `position`; shorter only at the end of the file."""

    def pwrite(self, data: bytes | bytearray | memoryview, position: int) -> None:
        """Write all of `data`, or raise OSError with an unknown part of it written."""

    def next_data(self, position: int) -> int:
        """The first byte from `position` on that may be other than zero; past the end: none is."""

    def sync(self) -> None:
        """Return when the content is on the disk; may take milliseconds."""

    def truncate(self, size_bytes: int) -> None:
        """Cut or grow (sparsely) to `size_bytes`."""

    def size(self) -> int: ...

    def close(self) -> None: ...


class Syncable(Protocol):
    """Something that can be brought to the disk."""

    def sync(self) -> None: ...


class Files(Protocol):
    """Where files live. Paths are whole; `replace` is atomic; directories must be synced."""

    def open(self, path: Path, *, create: bool = False) -> File: ...

    def exists(self, path: Path) -> bool: ...

    def names(self, directory: Path) -> list[str]:
        """Sorted names in `directory`; none when it does not exist."""

    def make_directory(self, path: Path) -> None: ...

    def replace(self, source: Path, target: Path) -> None:
        """Move a file over another, or a directory to where nothing is, in one step."""

    def remove(self, path: Path) -> None:
        """Delete a file; one that is not there is no error."""

    def remove_tree(self, path: Path) -> None: ...

    def sync_directory(self, path: Path) -> None: ...

    def free_bytes(self, path: Path) -> int: ...

    def total_bytes(self, path: Path) -> int:
        """Size of the disk as its users see it, what is free included; 0 where unknown."""

    def lock(self, path: Path) -> File | None:
        """An exclusive lock held while the file stays open; None when another holds it."""


class OsFile:
    """A file of the operating system, by descriptor."""

    __slots__ = ("_fd",)

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def pread(self, size_bytes: int, position: int) -> bytes:
        return os.pread(self._fd, size_bytes, position)

    def pwrite(self, data: bytes | bytearray | memoryview, position: int) -> None:
        written = os.pwrite(self._fd, data, position)
        while written < len(data):
            written += os.pwrite(self._fd, memoryview(data)[written:], position + written)

    def next_data(self, position: int) -> int:
        try:
            return os.lseek(self._fd, position, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return max(position, self.size())
            if error.errno == errno.EINVAL:  # a file system that knows no holes
                return position
            raise

    def sync(self) -> None:
        os.fdatasync(self._fd)

    def truncate(self, size_bytes: int) -> None:
        os.ftruncate(self._fd, size_bytes)

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def close(self) -> None:
        os.close(self._fd)


class OsFiles:
    """The machine's file system."""

    def open(self, path: Path, *, create: bool = False) -> File:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return OsFile(os.open(path, flags, 0o644))

    def exists(self, path: Path) -> bool:
        return path.exists()

    def names(self, directory: Path) -> list[str]:
        try:
            return sorted(os.listdir(directory))  # noqa: PTH208 (names, not paths: 40,000 queues)
        except FileNotFoundError:
            return []

    def make_directory(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)

    def replace(self, source: Path, target: Path) -> None:
        source.replace(target)

    def remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def remove_tree(self, path: Path) -> None:
        if not path.exists():
            return
        for child in path.iterdir():
            if child.is_dir():
                self.remove_tree(child)
            else:
                child.unlink()
        path.rmdir()

    def sync_directory(self, path: Path) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def free_bytes(self, path: Path) -> int:
        status = os.statvfs(path)
        return status.f_bavail * status.f_frsize

    def total_bytes(self, path: Path) -> int:
        # Without what is kept for the superuser: as `df` computes its percentage.
        status = os.statvfs(path)
        return (status.f_blocks - status.f_bfree + status.f_bavail) * status.f_frsize

    def lock(self, path: Path) -> File | None:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(fd)
            return None
        return OsFile(fd)


class Names:
    """The names in a directory, as something to sync: without it a new file may have none."""

    __slots__ = ("_directory", "_files")

    def __init__(self, files: Files, directory: Path) -> None:
        self._files = files
        self._directory = directory

    def sync(self) -> None:
        self._files.sync_directory(self._directory)


def sync_if_open(unsynced: Syncable) -> None:
    """Sync what its owner may have closed meanwhile: then it was synced or is gone."""
    try:
        unsynced.sync()
    except OSError as error:
        if error.errno != errno.EBADF:
            raise


def make_lasting_directory(files: Files, path: Path) -> None:
    """Make a directory, and whatever is missing above it, so that a power loss leaves it there."""
    missing = [place for place in (path, *path.parents) if not files.exists(place)]
    files.make_directory(path)
    for place in reversed(missing):
        files.sync_directory(place.parent)


def write_atomic(files: Files, path: Path, data: bytes) -> None:
    """Replace the content of `path` so that any crash leaves the old or the new one whole."""
    temporary = path.with_name(path.name + ".tmp")
    file = files.open(temporary, create=True)
    try:
        file.truncate(0)
        file.pwrite(data, 0)
        file.sync()
    finally:
        file.close()
    files.replace(temporary, path)
    files.sync_directory(path.parent)


def read_whole(files: Files, path: Path) -> bytes:
    """All bytes of a file; FileNotFoundError when it is not there."""
    file = files.open(path)
    try:
        return file.pread(file.size(), 0)
    finally:
        file.close()
