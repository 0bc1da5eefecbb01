"""The files of the lag history: sealed days that only grow, and one for what is not sealed yet.

`open.lag` holds a block for every round since the last sealing, so that a killed process loses
none. Sealing packs these rounds into one block at the end of `<first ms, 20 digits>.lag`, brings it
to the disk, and empties `open.lag`; a crash in between leaves rounds in both, and those in the open
file that are not younger than the sealed ones are passed over. Torn ends are cut off, damaged
blocks with whole ones behind them stepped over; both are reported.

Everything here waits for the disk: it belongs into the pool, or before the start.
"""

from pathlib import Path
from typing import NamedTuple

from engine.errors import Corrupt, OutOfFiles
from engine.statistics import lag_block
from engine.statistics.lag_block import Block, BlockHead
from engine.statistics.lag_round import LagRound
from engine.statistics.windows import DAY_MS
from engine.store.damage import COPY_BYTES_MAX, Damage, DamageLog
from engine.store.files import File, Files, make_lasting_directory, read_whole

OPEN_NAME = "open.lag"
SUFFIX = ".lag"
DIGITS = 20
FILES_IN_LIMIT = 16  # a file is closed at this part of all that may be kept, or after a day


class SealedBlock(NamedTuple):
    """Where a sealed block lies, and what it covers."""

    path: Path
    position: int
    size_bytes: int
    rounds: int
    rows: int
    first_ms: int
    last_ms: int


class LagFiles:
    """One directory; used by one thread at a time, but for `read_block`."""

    def __init__(
        self,
        files: Files,
        directory: Path,
        bytes_max: int,
        damage_log: DamageLog | None = None,
    ) -> None:
        self._files = files
        self._damage_log = damage_log
        self._directory = directory
        self._file_bytes_max = max(1, bytes_max // FILES_IN_LIMIT)
        self._open: File | None = None
        self._open_bytes = 0
        self._path: Path | None = None  # the newest sealed file
        self._size_bytes = 0

    def load(self) -> tuple[list[SealedBlock], list[LagRound]]:
        """What is kept: every sealed block, oldest first, and the rounds that are not sealed."""
        make_lasting_directory(self._files, self._directory)
        sealed: list[SealedBlock] = []
        for name in self._files.names(self._directory):
            if name.endswith(SUFFIX) and len(name) == DIGITS + len(SUFFIX):
                self._path = self._directory / name
                sealed += self._load_sealed(self._path)
        last_ms = max((block.last_ms for block in sealed), default=-1)
        self._open = self._files.open(self._directory / OPEN_NAME, create=True)
        rounds: list[LagRound] = []
        for one in self._load_open():
            if one.at_ms > last_ms:  # neither sealed nor in the file twice
                rounds.append(one)
                last_ms = one.at_ms
        return sealed, rounds

    def append(self, one: LagRound) -> None:
        """Keep one round in the open file; OSError: it is not there."""
        assert self._open is not None
        data = lag_block.encode([one])
        self._open.pwrite(data, self._open_bytes)
        self._open_bytes += len(data)

    def seal(self, rounds: list[LagRound], *, are_all: bool) -> SealedBlock:
        """Pack rounds into a block that is on the disk.

        Then the open file begins anew, if these `are_all` that it holds.
        """
        data = lag_block.encode(rounds)
        path = self._path_for(rounds[0].at_ms)
        file = self._files.open(path, create=True)
        try:
            # Behind that there may be what an earlier try left.
            position = self._size_bytes if path == self._path else 0
            file.truncate(position)
            file.pwrite(data, position)
            file.sync()
        finally:
            file.close()
        if path != self._path:
            self._files.sync_directory(self._directory)
        self._path, self._size_bytes = path, position + len(data)
        assert self._open is not None
        if are_all:
            self._open.truncate(0)
            self._open_bytes = 0
        head = lag_block.read_head(data)
        assert head is not None
        return _sealed(path, position, head)

    def remove(self, paths: list[Path]) -> None:
        for path in paths:
            self._files.remove(path)

    def read_block(self, sealed: SealedBlock) -> Block | None:
        """A sealed block; None where it is damaged or gone. For any thread.

        OutOfFiles where it cannot be opened just now.
        """
        try:
            file = self._files.open(sealed.path)
        except OutOfFiles:
            raise
        except OSError:
            return None
        try:
            return Block(file.pread(sealed.size_bytes, sealed.position))
        except (Corrupt, OSError, ValueError) as error:
            self._tell_block(sealed, error)
            return None
        finally:
            file.close()

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    def _path_for(self, first_ms: int) -> Path:
        """The newest file, unless it is of another day or full."""
        if self._path is not None and self._size_bytes < self._file_bytes_max:
            begun_ms = int(self._path.name[:DIGITS])
            if begun_ms // DAY_MS == first_ms // DAY_MS:
                return self._path
        return self._directory / f"{first_ms:0{DIGITS}d}{SUFFIX}"

    def _load_sealed(self, path: Path) -> list[SealedBlock]:
        """The blocks of a file; what is no whole block at its end is cut off.

        Only where the heads do not lead to a whole last block is everything read.
        """
        sealed = self._by_heads(path)
        if sealed is not None:
            self._size_bytes = sealed[-1].position + sealed[-1].size_bytes if sealed else 0
            return sealed
        data = read_whole(self._files, path)
        blocks, end = self._blocks(path, data)
        self._size_bytes = len(data)
        if end < len(data) and self._tell(path, end, data[end:]):
            file = self._files.open(path)
            file.truncate(end)
            file.close()
            self._size_bytes = end
        return [_sealed(path, position, block.head) for position, block in blocks]

    def _by_heads(self, path: Path) -> list[SealedBlock] | None:
        """The blocks as their heads tell; None where they do not lead to a whole last one."""
        blocks: list[SealedBlock] = []
        file = self._files.open(path)
        try:
            position, size = 0, file.size()
            while position < size:
                head = lag_block.read_head(file.pread(lag_block.HEAD.size, position))
                last_ms = blocks[-1].last_ms if blocks else int(path.name[:DIGITS]) - 1
                if head is None or position + head.size_bytes > size:
                    return None
                if not last_ms < head.first_ms <= head.last_ms:
                    return None
                blocks.append(_sealed(path, position, head))
                position += head.size_bytes
            if blocks:
                last = file.pread(blocks[-1].size_bytes, blocks[-1].position)
                return None if lag_block.block_at(last, 0) is None else blocks
        finally:
            file.close()
        return blocks

    def _load_open(self) -> list[LagRound]:
        assert self._open is not None
        path = self._directory / OPEN_NAME
        data = read_whole(self._files, path)
        blocks, end = self._blocks(path, data)
        if end < len(data) and self._tell(path, end, data[end:]):
            self._open.truncate(end)
        self._open_bytes = self._open.size()
        rounds: list[LagRound] = []
        for position, block in blocks:
            try:
                rounds += block.rounds()
            except (Corrupt, ValueError):  # its checksum is right, what it covers is not
                self._tell(path, position, data[position : position + block.head.size_bytes])
        return rounds

    def _blocks(self, path: Path, data: bytes) -> tuple[list[tuple[int, Block]], int]:
        """Whole blocks and where they lie, and the end of the last; others between are reported."""
        blocks: list[tuple[int, Block]] = []
        position = end = 0
        while position < len(data):
            block = lag_block.block_at(data, position)
            if block is None:
                position = lag_block.find_magic(data, position + 1)
                continue
            if position > end:
                self._tell(path, end, data[end:position])
            blocks.append((position, block))
            position = end = position + block.head.size_bytes
        return blocks, end

    def _tell_block(self, sealed: SealedBlock, error: Exception) -> None:
        if self._damage_log is not None and not isinstance(error, OSError):
            end, name = sealed.position + sealed.size_bytes, self._damage_log.name_of(sealed.path)
            self._damage_log.add(Damage(sealed.position, end, str(error), name))

    def _tell(self, path: Path, start: int, data: bytes) -> bool:
        """Record what is no block; whether it may be cut off now."""
        damage_log = self._damage_log
        if damage_log is None:
            return True
        copy = damage_log.try_copy(f"lag-{path.name}.{start}", data)
        detail = "samples of lag that cannot be read"
        end, name = start + len(data), damage_log.name_of(path)
        damage_log.add(Damage(start, end, detail, name, copy))
        return (bool(copy) and len(data) <= COPY_BYTES_MAX) or not data.strip(b"\0")


def _sealed(path: Path, position: int, head: BlockHead) -> SealedBlock:
    return SealedBlock(
        path=path,
        position=position,
        size_bytes=head.size_bytes,
        rounds=head.rounds,
        rows=head.rows,
        first_ms=head.first_ms,
        last_ms=head.last_ms,
    )
