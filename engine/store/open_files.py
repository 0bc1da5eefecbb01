"""Files kept open by key: the least used are closed beyond a limit, and where no other can be."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

from engine.errors import OutOfFiles
from engine.store.files import File

K = TypeVar("K")
T = TypeVar("T")


class OpenFiles(Generic[K]):
    """At most `open_max` files are open at once, at least one. It belongs to the owner's thread.

    A subclass looks into `_open` itself and moves what it uses to the end: appends take this way.
    """

    def __init__(self, open_max: int) -> None:
        self._open_max = max(1, open_max)
        self._open: OrderedDict[K, File] = OrderedDict()

    def put(self, key: K, file: File) -> None:
        """Take over an open file that has no other user."""
        self._open[key] = file
        while len(self._open) > self._open_max:
            self._open.popitem(last=False)[1].close()

    def close(self) -> None:
        """Close all files; `put` may follow."""
        while self._open:
            self._open.popitem()[1].close()

    def _forget(self, key: K) -> None:
        """Close a file that goes away."""
        file = self._open.pop(key, None)
        if file is not None:
            file.close()

    def _make_room(self, open_file: Callable[[], T]) -> T:
        """What `open_file` gives; half of the files here are closed where none can be opened."""
        try:
            return open_file()
        except OutOfFiles:  # ours are the ones that can be opened again
            count = (len(self._open) + 1) // 2
            if not count:
                raise
            for _ in range(count):
                self._open.popitem(last=False)[1].close()
            return open_file()
