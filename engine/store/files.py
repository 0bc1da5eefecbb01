"""The file system as the store sees it: the one seam where a simulation puts faulty files.

`OsFiles` is the real one. Nothing here buffers: what `pwrite` accepted is in the operating
system's page cache and survives the process; what `sync` returned for survives power loss.
"""

import errno
import fcntl
import os
import struct
from pathlib import Path
from typing import NoReturn, Protocol

from engine.errors import PASSING_ERRORS, OutOfFiles

DISK_FULL_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
# What a store keeps is its owner's alone, whatever umask the process has.
FILE_MODE = 0o600
DIRECTORY_MODE = 0o700
RECORD_LOCK = struct.Struct("@hhqqi")  # the system's struct flock: kind, whence, start, length, pid


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
    """The file system. Paths are absolute; `replace` is atomic; directories must be synced."""

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
        """An exclusive lock held while the file stays open; None when another holds it.

        Another may be KiteMQ or Apache RocketMQ's broker.
        """


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
        try:
            return OsFile(os.open(path, flags, FILE_MODE))
        except OSError as error:
            reraise(error)

    def exists(self, path: Path) -> bool:
        return path.exists()

    def names(self, directory: Path) -> list[str]:
        try:
            return sorted(os.listdir(directory))  # noqa: PTH208 (names, not paths: 40,000 queues)
        except FileNotFoundError:
            return []
        except OSError as error:
            reraise(error)

    def make_directory(self, path: Path) -> None:
        try:
            path.mkdir(DIRECTORY_MODE, exist_ok=True)
        except FileNotFoundError:
            self.make_directory(path.parent)
            path.mkdir(DIRECTORY_MODE, exist_ok=True)

    def replace(self, source: Path, target: Path) -> None:
        source.replace(target)

    def remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def remove_tree(self, path: Path) -> None:
        if not path.exists():
            return
        try:
            children = list(path.iterdir())
        except OSError as error:
            reraise(error)
        for child in children:
            if child.is_dir():
                self.remove_tree(child)
            else:
                child.unlink()
        path.rmdir()

    def sync_directory(self, path: Path) -> None:
        try:
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            reraise(error)
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
        try:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        except OSError as error:
            reraise(error)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _lock_record(fd)
        except OSError:
            os.close(fd)
            return None
        return OsFile(fd)


def _lock_record(fd: int) -> None:
    """The lock that Apache RocketMQ's broker takes on the same file, which `flock` does not see.

    Where the system has them it is one of the descriptor's own: an ordinary record lock is lost as
    soon as this process closes any other descriptor of the file, as it does when it is asked to
    open the directory twice.
    """
    own = getattr(fcntl, "F_OFD_SETLK", None)
    if own is None:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    else:
        fcntl.fcntl(fd, own, RECORD_LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))


def reraise(error: OSError) -> NoReturn:
    """Raise what opening something raised; OutOfFiles where that passes by itself."""
    if error.errno in PASSING_ERRORS:
        raise OutOfFiles(error) from error
    raise error


class DirectoryNames:
    """The names in a directory, as something to sync: without it a new file may have none."""

    __slots__ = ("_directory", "_files")

    def __init__(self, files: Files, directory: Path) -> None:
        self._files = files
        self._directory = directory

    def sync(self) -> None:
        self._files.sync_directory(self._directory)


class ByPath:
    """A file as something to sync, opened for that: its owner may close its own at any time."""

    __slots__ = ("_files", "_path")

    def __init__(self, files: Files, path: Path) -> None:
        self._files = files
        self._path = path

    def sync(self) -> None:
        try:
            file = self._files.open(self._path)
        except FileNotFoundError:
            return  # retention took it meanwhile
        try:
            file.sync()
        finally:
            file.close()


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
