"""A set of offsets, one bit each, in chunks of 65,536: it is counted and merged without a loop."""

import zlib
from collections.abc import Iterable, Mapping

CHUNK = 1 << 16
CHUNK_BYTES = CHUNK // 8
FULL = (1 << CHUNK) - 1


class OffsetBits:
    """Offsets from 0 on; a chunk without any costs nothing, a full one 8 KiB."""

    def __init__(self, chunks: Mapping[int, int] | None = None) -> None:
        self._chunks = dict(chunks or {})

    def chunk(self, number: int) -> int:
        """The bits of one chunk; bit i is its offset i."""
        return self._chunks.get(number, 0)

    def has(self, offset: int) -> bool:
        """Whether the offset is in the set."""
        return bool(self._chunks.get(offset // CHUNK, 0) >> offset % CHUNK & 1)

    @property
    def end(self) -> int:
        """One past the last offset; 0 for an empty set."""
        last = max(self._chunks, default=-1)
        return last * CHUNK + self._chunks[last].bit_length() if last >= 0 else 0

    def copy(self) -> "OffsetBits":
        """The set as it is now; costs a reference for each chunk."""
        return OffsetBits(self._chunks)

    def add(self, first: int, bits: int) -> None:
        """Add offset `first` + i for each bit i that is set."""
        number, at = divmod(first, CHUNK)
        bits <<= at
        while bits:
            if bits & FULL:
                self._chunks[number] = self.chunk(number) | bits & FULL
            bits >>= CHUNK
            number += 1

    def add_ranges(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Add the offsets from each first one to before its end."""
        marks: dict[int, bytearray] = {}
        for first, end in ranges:
            for number in range(first // CHUNK, (end - 1) // CHUNK + 1):
                low, high = max(0, first - number * CHUNK), min(CHUNK, end - number * CHUNK)
                if high - low == CHUNK:
                    self._chunks[number] = FULL
                    continue
                if number not in marks:
                    marks[number] = bytearray(b"0" * CHUNK)
                marks[number][low:high] = b"1" * (high - low)
        for number, digits in marks.items():
            self._chunks[number] = self.chunk(number) | int(digits[::-1], 2)

    def drop_from(self, end: int) -> None:
        """Remove the offsets from `end` on."""
        number, at = divmod(end, CHUNK)
        left = {each: bits for each, bits in self._chunks.items() if each < number}
        if rest := self.chunk(number) & (1 << at) - 1:
            left[number] = rest
        self._chunks = left

    def drop_before(self, first: int) -> None:
        """Remove the chunks that end before `first`."""
        self._chunks = {each: bits for each, bits in self._chunks.items() if each >= first // CHUNK}

    def packed(self) -> dict[int, bytes]:
        """All of it, to be kept: the bytes of each chunk, compressed."""
        return {
            number: zlib.compress(bits.to_bytes(CHUNK_BYTES, "little"), 1)
            for number, bits in self._chunks.items()
        }

    @classmethod
    def unpacked(cls, packed: Mapping[int, bytes]) -> "OffsetBits":
        """What `packed` gave."""
        return cls(
            {
                number: int.from_bytes(zlib.decompress(data), "little")
                for number, data in packed.items()
            }
        )
