"""Changed inputs from good ones, decided by a seed: a fuzzer that needs no instrumentation."""

import random
from collections.abc import Iterator, Sequence

INTERESTING = (b"\0", b"\xff", b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\xff\xff\xff\xff", b"-", b'"')
# A lone surrogate, an Arabic digit, long numbers, deep nesting.
INTERESTING += (b"\\ud800", b"\xd9\xa1", b"9" * 400, b"(" * 400, b"{" * 400, b"[" * 400)
INPUT_BYTES_MAX = 64 * 1024
CHANGES_MAX = 4


def changed(seeds: Sequence[bytes], count: int, seed: int) -> Iterator[bytes]:
    """`count` inputs, each one of `seeds` with one to four changes."""
    chance = random.Random(seed)
    for _ in range(count):
        data = bytearray(chance.choice(seeds))
        for _ in range(chance.randint(1, CHANGES_MAX)):
            _change(data, seeds, chance)
        yield bytes(data[:INPUT_BYTES_MAX])


def _change(data: bytearray, seeds: Sequence[bytes], chance: random.Random) -> None:
    at = chance.randrange(len(data) + 1)
    length = chance.choice((1, 1, 2, 4, 8, 32))
    match chance.randrange(6):
        case 0 if at < len(data):
            data[at] ^= 1 << chance.randrange(8)
        case 1:
            data[at : at + length] = chance.randbytes(length)
        case 2:
            del data[at : at + length]
        case 3:
            data[at:at] = chance.choice(INTERESTING)
        case 4:
            data[at : at + 4] = chance.choice(INTERESTING)
        case _:
            other = chance.choice(seeds)
            begin = chance.randrange(len(other) + 1)
            data[at : at + length] = other[begin : begin + chance.choice((4, 16, 64))]
