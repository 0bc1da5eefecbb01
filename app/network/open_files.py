"""How many files the process may have open, and how many of them connections may take."""

import os
import resource
from dataclasses import dataclass
from pathlib import Path

from app.connection_settings import ConnectionSettings

OPEN = Path("/proc/self/fd")  # Linux; elsewhere nobody tells
UNLIMITED = 1 << 20  # more than this is never counted on
QUEUE_FILES_SHARE = 4  # consume queues keep at most one file in so many open
CONNECTION_FILES_MIN = 64  # though hardly anything is left


@dataclass(frozen=True)
class FileShares:
    """`files_max` may be open; `connections` of them are for connections, the rest is reserved."""

    files_max: int
    connections: int

    @property
    def reserved(self) -> int:
        return self.files_max - self.connections


def raise_file_limit() -> int:
    """Let the process open as many files as the system permits it (soft limit to hard limit).

    How many that are. macOS refuses what is above its own maximum: then the limit stays.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = UNLIMITED if hard == resource.RLIM_INFINITY else min(hard, UNLIMITED)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError):
            return files_max()
    return files_max()


def files_max() -> int:
    """How many files may be open at once."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return UNLIMITED if soft == resource.RLIM_INFINITY else min(soft, UNLIMITED)


def queue_files(wanted: int, limit: int) -> int:
    """How many consume queue files may stay open under a limit: a quarter of it at most."""
    return max(1, min(wanted, limit // QUEUE_FILES_SHARE))


def log_files(wanted: int, reserved_files: int) -> int:
    """How many full files of log and key index may stay open: half of what is reserved at most."""
    return max(1, min(wanted, reserved_files // 2))


def file_shares(settings: ConnectionSettings, queue_files_max: int, limit: int) -> FileShares:
    """What is left for connections after the consume queues and what is reserved."""
    left = limit - queue_files_max - settings.reserved_files
    return FileShares(limit, max(left, min(CONNECTION_FILES_MIN, limit // 4)))


def open_count() -> int | None:
    """How many files are open now; None where the system does not tell."""
    try:
        return len(os.listdir(OPEN)) - 1  # noqa: PTH208 - without the one that lists them
    except OSError:
        return None
