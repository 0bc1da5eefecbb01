"""The data directory belongs to one user: directories 0700, files 0600.

`keep_private` sets the mask that this process and its children create files with. `tighten` closes
a directory that an earlier version left open to others. It looks at the directory and at what lies
directly in it; only what is open there is gone through, from the leaves up. So a start that is
broken off goes on at the next one, and a start with nothing to do costs a few calls.
"""

import logging
import os
import stat
from pathlib import Path

log = logging.getLogger("kitemq")

FILE_MODE = 0o600
DIRECTORY_MODE = 0o700
OTHERS = 0o077
LEADER_COPY = "leader.db"  # of a standby: its leader's database
SET_ASIDE = "set-aside"  # a folder of the data directory: broken files, kept for a person
# What versions that made open files kept here. Anything else in the directory is not ours.
NAMES = (
    "abort",
    "access_keys.key",
    "analytics",
    "checkpoint",
    "clean",
    "commitlog",
    "config",
    "consumequeue",
    "grpc_tls.crt",
    "grpc_tls.key",
    "index",
    "kitemq.db",
    "kitemq.db-shm",
    "kitemq.db-wal",
    "lag",
    LEADER_COPY,
    "lock",
    "read_only.json",
    SET_ASIDE,
    "spark",
    "trash",
)


def keep_private() -> None:
    """From now on nobody but the owner may read what this process or its children make."""
    os.umask(OTHERS)


def tighten(data: Path) -> int:
    """Take the rights of others from what is ours in `data`; how many files and directories.

    Never raises: what belongs to another user, or cannot be changed, is named in the log.
    Symbolic links are left alone, and so is a directory like /tmp that all users share.
    """
    try:
        status = data.lstat()
    except OSError:
        return 0
    if not stat.S_ISDIR(status.st_mode) or status.st_mode & stat.S_ISVTX:
        return 0
    run = _Tightening()
    run.close(data, status)  # first of all: from here on nobody gets to what lies below
    for name in NAMES:
        run.close_tree(data / name)
    if run.changed:
        log.warning(
            "%d files and directories of %s were open to others; now they are not",
            run.changed,
            data,
        )
    if run.skipped:
        log.warning(
            "%d files and directories of %s stay open to others, as %s: change their "
            "owner or their mode",
            run.skipped,
            data,
            run.reason,
        )
    return run.changed


class _Tightening:
    def __init__(self) -> None:
        self.changed = 0
        self.skipped = 0
        self.reason = ""

    def close_tree(self, path: Path) -> None:
        """A file, or a directory with all that it holds, unless it is closed already."""
        try:
            status = path.lstat()
        except OSError:
            return
        if not status.st_mode & OTHERS or stat.S_ISLNK(status.st_mode):
            return
        if stat.S_ISDIR(status.st_mode):
            for folder, folders, files in os.walk(path, topdown=False):
                for name in (*folders, *files):
                    self._close_below(Path(folder, name))
        self.close(path, status)  # last: an open one says that there is something to do below

    def _close_below(self, path: Path) -> None:
        try:
            self.close(path, path.lstat())
        except OSError:
            return  # it went away meanwhile

    def close(self, path: Path, status: os.stat_result) -> None:
        mode = stat.S_IMODE(status.st_mode)
        if not mode & OTHERS or stat.S_ISLNK(status.st_mode):
            return
        try:
            path.chmod(mode & ~OTHERS)
        except OSError as error:
            self.skipped += 1
            self.reason = f"{path.name} cannot be changed ({error.strerror})"
        else:
            self.changed += 1
