"""Read-only files: opened on demand, the least recently used closed beyond a limit.

Sealed log segments and sealed key index files share one `SealedFiles`, so that a log of a terabyte
takes no more open files than one of a gigabyte. It belongs to the owner's thread: what a thread
of the pool reads or syncs, it opens itself (`apart`, `files.ByPath`).
"""

from pathlib import Path

from engine.store.files import File, Files
from engine.store.open_files import OpenFiles


class SealedFiles(OpenFiles[Path]):
    """At most `open_max` files are open at once, at least one."""

    def __init__(self, files: Files, open_max: int) -> None:
        super().__init__(open_max)
        self._files = files

    def get(self, path: Path) -> File:
        """The file, to be used before the next call; FileNotFoundError when it is not there."""
        file = self._open.get(path)
        if file is not None:
            self._open.move_to_end(path)
            return file
        file = self.open(path)
        self.put(path, file)
        return file

    def open(self, path: Path, *, create: bool = False) -> File:
        """Open a file for the caller; sealed ones give way where no other can be opened."""
        return self._make_room(lambda: self._files.open(path, create=create))

    def take(self, path: Path) -> File:
        """The file, open, as the caller's own from now on."""
        return self._open.pop(path, None) or self.open(path)

    def forget(self, path: Path) -> None:
        """Close a file that goes away."""
        self._forget(path)
