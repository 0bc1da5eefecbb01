"""A disk in memory that forgets what a real one may forget, and breaks when it is told to.

It keeps two pictures: what the operating system shows (the page cache) and what is on the platter.
`kill` is the death of the process: every finished write stays, the one under way is torn at a
random byte. `lose_power` is the death of the machine: what was not synced is there, lost, or torn
sector by sector, and so is every name whose directory was not synced. Each operation that changes
something counts as one step, so that a crash can be ordered for any of them.
"""

import errno
import random
from collections.abc import Callable
from pathlib import Path

from engine.store.files import reraise

SECTOR_BYTES = 512
OPENING = frozenset({"open", "create", "sync_directory"})  # what needs a file that is free
ROOM_UNLIMITED = 1 << 60


class Crash(BaseException):
    """The process or the machine died here; no handler of the engine may catch it."""


class Node:
    """A file's content: as shown, and as the disk holds it."""

    def __init__(self) -> None:
        self.shown = bytearray()
        self.kept = bytearray()
        self.dirty: set[int] = set()  # sectors written since the last sync
        self.taken: set[int] = set()  # sectors that use room
        self.is_locked = False

    def touch(self, start: int, end: int) -> None:
        self.dirty.update(range(start // SECTOR_BYTES, -(-end // SECTOR_BYTES)))

    def sync(self) -> None:
        if len(self.kept) != len(self.shown):
            del self.kept[len(self.shown) :]
            self.kept.extend(bytes(len(self.shown) - len(self.kept)))
        for sector in self.dirty:
            self._keep(sector)
        self.dirty.clear()

    def lose_power(self, chance: random.Random) -> None:
        """Back to what is on the disk, plus what the kernel happened to have written already."""
        fate = chance.choice(("lost", "kept", "torn", "torn"))
        shown = self.shown
        if fate != "lost" and (fate == "kept" or chance.random() < 0.5):
            self.kept.extend(bytes(max(0, len(shown) - len(self.kept))))
            del self.kept[len(shown) :]
        for sector in sorted(self.dirty):
            if fate == "kept" or (fate == "torn" and chance.random() < 0.5):
                self._keep(sector)
        self.shown = bytearray(self.kept)
        self.dirty.clear()
        self.is_locked = False

    def _keep(self, sector: int) -> None:
        start = sector * SECTOR_BYTES
        end = min(start + SECTOR_BYTES, len(self.kept), len(self.shown))
        if start < end:
            self.kept[start:end] = self.shown[start:end]


GONE = Node()  # in a change of names: the path is no more
Change = dict[Path, Node | None]


class Disk:
    """What survives; `boot` gives each new process its own way to it."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.shown: dict[Path, Node | None] = {Path("/"): None}  # None: a directory
        self.kept: dict[Path, Node | None] = {Path("/"): None}
        self._renames: list[Change] = []  # changes of names that no sync covered, oldest first
        self.steps = 0
        self.boots = 1  # of the machine
        self.crash_in: int | None = None  # operations until the process dies
        self.room_bytes = ROOM_UNLIMITED
        self.total_bytes = 0  # the size that it states; 0: none
        self.fault: Callable[[str, Path], None] | None = None  # may raise OSError before any step
        self._running: FakeFiles | None = None

    def boot(self) -> "FakeFiles":
        self._running = FakeFiles(self)
        return self._running

    def kill(self) -> None:
        """The process is gone: its locks too, and nothing that it still holds works any more."""
        if self._running is not None:
            self._running.is_dead = True
        self.crash_in = None
        for node in self.shown.values():
            if node is not None:
                node.is_locked = False

    def lose_power(self) -> None:
        """The machine is gone, and with it what was not brought to the disk."""
        self.kill()
        self.boots += 1
        chance = self.chance
        # File systems write changes of names in their order: some first part of them has survived.
        for change in self._renames[: chance.randrange(len(self._renames) + 1)]:
            self._keep(change)
        self._renames = []
        survivors = {
            path: node
            for path, node in self.kept.items()
            if all(parent in self.kept for parent in path.parents)
        }
        for node in {id(node): node for node in survivors.values() if node is not None}.values():
            node.lose_power(chance)
        self.kept = survivors
        self.shown = dict(survivors)

    def rename(self, change: "Change") -> None:
        """Apply a change of names: what each path is from now on, or that it is no more."""
        self._apply(self.shown, change)
        self._renames.append(change)

    def sync_names(self, directory: Path) -> None:
        """Keep every change in `directory`, and whichever earlier ones those build on."""
        paths: set[Path] = set()
        kept = []
        waiting = []
        for change in reversed(self._renames):
            if paths & change.keys() or any(path.parent == directory for path in change):
                paths |= change.keys()
                kept.append(change)
            else:
                waiting.append(change)
        for change in reversed(kept):
            self._keep(change)
        self._renames = waiting[::-1]

    def step(self) -> None:
        """Count an operation; raise Crash when it was ordered for this one."""
        self.steps += 1
        if self.crash_in is not None:
            self.crash_in -= 1
            if self.crash_in <= 0:
                raise Crash

    def _keep(self, change: "Change") -> None:
        self._apply(self.kept, change)

    def _apply(self, names: "dict[Path, Node | None]", change: "Change") -> None:
        for path, node in change.items():
            if node is GONE:
                names.pop(path, None)
            else:
                names[path] = node


class FakeFile:
    """One open file of one process."""

    def __init__(self, files: "FakeFiles", path: Path, node: Node) -> None:
        self._files = files
        self._path = path
        self._node = node
        self._is_open = True

    def pread(self, size_bytes: int, position: int) -> bytes:
        self._check()
        return bytes(self._node.shown[position : position + size_bytes])

    def next_data(self, position: int) -> int:
        self._check()
        rest = bytes(self._node.shown[position:])
        return position + len(rest) - len(rest.lstrip(b"\0"))

    def pwrite(self, data: bytes | bytearray | memoryview, position: int) -> None:
        self._check()
        disk = self._files.disk
        self._files.meet_fault("pwrite", self._path)
        try:
            disk.step()
        except Crash:
            self._write(bytes(data)[: disk.chance.randrange(len(data) + 1)], position)
            raise
        fits = self._fitting(len(data), position)
        self._write(bytes(data)[:fits], position)
        if fits < len(data):
            raise OSError(errno.ENOSPC, "No space left on device")

    def sync(self) -> None:
        self._check()
        self._files.meet_fault("sync", self._path)
        self._files.disk.step()
        self._node.sync()

    def truncate(self, size_bytes: int) -> None:
        self._check()
        self._files.meet_fault("truncate", self._path)
        self._files.disk.step()
        node, old = self._node, len(self._node.shown)
        del node.shown[size_bytes:]
        node.shown.extend(bytes(max(0, size_bytes - len(node.shown))))
        node.touch(min(old, size_bytes), max(old, size_bytes))
        freed = {sector for sector in node.taken if sector * SECTOR_BYTES >= size_bytes}
        node.taken -= freed
        disk = self._files.disk
        if disk.room_bytes != ROOM_UNLIMITED:
            disk.room_bytes += len(freed) * SECTOR_BYTES

    def size(self) -> int:
        self._check()
        return len(self._node.shown)

    def close(self) -> None:
        self._is_open = False
        if not self._files.is_dead:
            self._node.is_locked = False

    def _check(self) -> None:
        if self._files.is_dead:
            raise Crash
        if not self._is_open:
            raise OSError(errno.EBADF, "Bad file descriptor")

    def _fitting(self, size_bytes: int, position: int) -> int:
        """How many bytes find room; takes it."""
        disk, node = self._files.disk, self._node
        for sector in range(position // SECTOR_BYTES, -(-(position + size_bytes) // SECTOR_BYTES)):
            if sector in node.taken:
                continue
            if disk.room_bytes != ROOM_UNLIMITED:
                if disk.room_bytes < SECTOR_BYTES:
                    return max(0, sector * SECTOR_BYTES - position)
                disk.room_bytes -= SECTOR_BYTES
            node.taken.add(sector)
        return size_bytes

    def _write(self, data: bytes, position: int) -> None:
        node = self._node
        if not data:
            return
        if len(node.shown) < position:
            node.touch(len(node.shown), position)
            node.shown.extend(bytes(position - len(node.shown)))
        node.shown[position : position + len(data)] = data
        node.touch(position, position + len(data))


class FakeFiles:
    """The file system as one process sees it."""

    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        self.is_dead = False

    def meet_fault(self, verb: str, path: Path) -> None:
        if self.is_dead:
            raise Crash
        if self.disk.fault is None:
            return
        try:
            self.disk.fault(verb, path)
        except OSError as error:
            if verb in OPENING:
                reraise(error)
            raise

    def open(self, path: Path, *, create: bool = False) -> FakeFile:
        self._check()
        node = self.disk.shown.get(path)
        if node is None:
            if path in self.disk.shown:
                raise IsADirectoryError(errno.EISDIR, "Is a directory", str(path))
            if not create or path.parent not in self.disk.shown:
                raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(path))
            self.meet_fault("create", path)
            self.disk.step()
            if self.disk.room_bytes < SECTOR_BYTES:
                raise OSError(errno.ENOSPC, "No space left on device", str(path))
            node = Node()
            self.disk.rename({path: node})
        else:
            self.meet_fault("open", path)
        return FakeFile(self, path, node)

    def exists(self, path: Path) -> bool:
        self._check()
        return path in self.disk.shown

    def names(self, directory: Path) -> list[str]:
        self._check()
        start = f"{directory}/".replace("//", "/")
        texts = [str(path) for path in self.disk.shown]  # several times as fast as their parents
        names = [text.removeprefix(start) for text in texts if text.startswith(start)]
        return sorted(name for name in names if name and "/" not in name)

    def make_directory(self, path: Path) -> None:
        for place in (*reversed(path.parents), path):
            if place not in self.disk.shown:
                self.meet_fault("make_directory", place)
                self.disk.step()
                self.disk.rename({place: None})

    def replace(self, source: Path, target: Path) -> None:
        self.meet_fault("replace", target)
        self.disk.step()
        if source not in self.disk.shown:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(source))
        moved: Change = {}
        for path, node in self.disk.shown.items():
            if path == source or source in path.parents:
                moved[path] = GONE
                moved[target / path.relative_to(source)] = node
        self.disk.rename(moved)

    def remove(self, path: Path) -> None:
        self._check()
        if path in self.disk.shown:
            self.meet_fault("remove", path)
            self.disk.step()
            node = self.disk.shown[path]
            self.disk.rename({path: GONE})
            if node is not None and self.disk.room_bytes != ROOM_UNLIMITED:
                self.disk.room_bytes += len(node.taken) * SECTOR_BYTES

    def remove_tree(self, path: Path) -> None:
        self._check()
        inside = [known for known in self.disk.shown if path in known.parents or known == path]
        for known in sorted(inside, reverse=True):
            self.remove(known)

    def sync_directory(self, path: Path) -> None:
        self.meet_fault("sync_directory", path)
        self.disk.step()
        self.disk.sync_names(path)

    def free_bytes(self, path: Path) -> int:
        self._check()
        return self.disk.room_bytes

    def total_bytes(self, path: Path) -> int:
        self._check()
        return self.disk.total_bytes

    def lock(self, path: Path) -> FakeFile | None:
        file = self.open(path, create=True)
        node = self.disk.shown[path]
        assert node is not None
        if node.is_locked:
            return None
        node.is_locked = True
        return file

    def _check(self) -> None:
        if self.is_dead:
            raise Crash
