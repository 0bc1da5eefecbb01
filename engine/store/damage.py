"""Damage that a start finds, and the copies of the damaged bytes.

Recovery, the journal and every other reader of a data directory record here what they stepped
over or set aside. Health, the log and the console show the list, so that no damage is silent.
Copies lie in the folder `set-aside` of the data directory; nothing there is ever overwritten, and
nothing reads it back but a person and `kitemq store verify`.
"""

import logging
from contextlib import suppress
from pathlib import Path

import msgspec

from engine.store.files import Files, make_lasting_directory, read_whole, write_atomic

log = logging.getLogger("kitemq.store")

DAMAGES_MAX = 1000
COPY_BYTES_MAX = 16 * 1024 * 1024  # of one stretch; a whole file is moved instead, however large
SET_ASIDE = "set-aside"


class Damage(msgspec.Struct, frozen=True):
    """Bytes `start` to `end` of `file` that could not be used, and why.

    `file` is relative to the data directory. For `commitlog` the two are positions in the log,
    otherwise offsets in the file. `copy` is the file that keeps the bytes, relative as well; it
    is empty where they still lie in their place.
    """

    start: int
    end: int
    detail: str
    file: str = "commitlog"
    copy: str = ""

    def __str__(self) -> str:
        place = f" (kept in {self.copy})" if self.copy else ""
        return f"{self.file} {self.start}..{self.end}: {self.detail}{place}"


class DamageLog:
    """The damages of one start: at most 1,000 are listed, all are counted."""

    def __init__(self, files: Files, root: Path) -> None:
        self._files = files
        self._root = root
        self._listed: list[Damage] = []
        self.count = 0

    def listed(self) -> list[Damage]:
        """The first 1,000 damages, in the order in which they were found."""
        return list(self._listed)

    def name_of(self, path: Path) -> str:
        """How a file of the data directory is called here."""
        return str(path.relative_to(self._root)) if self._root in path.parents else path.name

    def add(self, damage: Damage) -> None:
        """Record a damage, once: one that is listed already adds nothing."""
        if damage in self._listed:
            return
        self.count += 1
        if len(self._listed) < DAMAGES_MAX:
            self._listed.append(damage)
            log.warning("damage in %s", damage)

    def keep_copy(self, name: str, data: bytes) -> str:
        """Write `data` to a new file `set-aside/name[-N]`; its path relative to the root.

        It is on the disk when this returns. What an earlier start kept of the same bytes under
        that name is not written again. Raises OSError where it cannot be written: then the caller
        must leave the bytes where they are.
        """
        unique, is_kept = self._free_name(name, data)
        if not is_kept:
            write_atomic(self._files, self._root / SET_ASIDE / unique, data)
        return f"{SET_ASIDE}/{unique}"

    def try_copy(self, name: str, data: bytes) -> str:
        """The same for at most 16 MiB that are not all zeros; "" where nothing was kept.

        The caller then may not overwrite anything but zeros, or what lies beyond the 16 MiB.
        """
        data = data[:COPY_BYTES_MAX]
        if not data.strip(b"\0"):
            return ""
        with suppress(OSError):
            return self.keep_copy(name, data)
        return ""

    def move_aside(self, path: Path, name: str = "") -> str:
        """Move a file or a folder to `set-aside`, there called `name` or as it was.

        Returns its new path relative to the root; raises OSError.
        """
        unique, _ = self._free_name(name or path.name, None)
        self._files.replace(path, self._root / SET_ASIDE / unique)
        self._files.sync_directory(self._root / SET_ASIDE)
        self._files.sync_directory(path.parent)
        return f"{SET_ASIDE}/{unique}"

    def _free_name(self, name: str, data: bytes | None) -> tuple[str, bool]:
        """A name that no file there has, or one whose file holds `data` already, and which."""
        directory = self._root / SET_ASIDE
        make_lasting_directory(self._files, directory)
        names = set(self._files.names(directory))
        unique, number = name, 0
        while unique in names:
            if data is not None and read_whole(self._files, directory / unique) == data:
                return unique, True
            number += 1
            unique = f"{name}-{number}"
        return unique, False
