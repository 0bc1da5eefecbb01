"""Limits of open files: of the process, and the share for connections."""

import os
import resource
from dataclasses import dataclass
from pathlib import Path

from app.connection_settings import ConnectionSettings

OPEN = Path("/proc/self/fd")  # Linux only
UNLIMITED = 1 << 20  # stands for no limit
QUEUE_FILES_SHARE = 4  # consume queues keep at most one file in so many open
CONNECTION_FILES_MIN = 64  # even with a very low limit


@dataclass(frozen=True)
class FileShares:
    """The limit `files_max`, and the share of it for connections; the rest is reserved."""

    files_max: int
    connections: int

    @property
    def reserved(self) -> int:
        return self.files_max - self.connections


def raise_file_limit() -> int:
    """Raise the soft limit of open files to the hard limit; returns the new limit.

    macOS may refuse this; then the limit stays.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    target = UNLIMITED if hard == resource.RLIM_INFINITY else min(hard, UNLIMITED)
    if soft != resource.RLIM_INFINITY and soft < target:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
        except (OSError, ValueError):
            return files_max()
    return files_max()


def files_max() -> int:
    """The current limit of open files."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return UNLIMITED if soft == resource.RLIM_INFINITY else min(soft, UNLIMITED)


def queue_files(files: int, limit: int) -> int:
    """The consume queue files to keep open: at most a quarter of the limit."""
    return max(1, min(files, limit // QUEUE_FILES_SHARE))


def log_files(files: int, reserved_files: int) -> int:
    """The full log and index files to keep open: at most half of the reserved files."""
    return max(1, min(files, reserved_files // 2))


def file_shares(settings: ConnectionSettings, queue_files_max: int, limit: int) -> FileShares:
    """The share for connections after consume queues and reserved files."""
    files = limit - queue_files_max - settings.reserved_files
    return FileShares(limit, max(files, min(CONNECTION_FILES_MIN, limit // 4)))


def open_count() -> int | None:
    """The number of open files; None if the system does not report it."""
    try:
        return len(os.listdir(OPEN)) - 1  # noqa: PTH208 - without the one that lists them
    except OSError:
        return None
