"""Java's `String.hashCode`, on which tags, key indexes and queue selection of RocketMQ depend."""

from functools import lru_cache
from operator import mul

MASK = 0xFFFFFFFF
SIGN = 1 << 31
UNITS_MAX = 64
# _POWERS[n] = (31^(n-1), …, 31, 1) mod 2^32: the weights of an n-unit string.
_POWERS: tuple[tuple[int, ...], ...] = tuple(
    tuple(int(pow(31, n - 1 - i, 1 << 32)) for i in range(n)) for n in range(UNITS_MAX + 1)
)


def java_hash(text: str) -> int:
    """s[0]*31^(n-1) + … + s[n-1] over UTF-16 units, wrapped to a signed 32-bit integer."""
    value = unsigned_hash(text)
    return value - (1 << 32) if value & 0x80000000 else value


def unsigned_hash(text: str) -> int:
    """The same before the sign is given: 0 … 2^32-1, fit to be continued by `extend_hash`."""
    units = text.encode("latin-1") if text.isascii() else _utf16_units(text)
    value: int = 0
    for start in range(0, len(units), UNITS_MAX):
        chunk = units[start : start + UNITS_MAX]
        powers = _POWERS[len(chunk)]
        value = (value * 31 * powers[0] + sum(map(mul, chunk, powers))) & MASK
    return value


def extend_hash(prefix_hash: int, text: str) -> int:
    """The unsigned hash of prefix + text, from the prefix's hash; ASCII `text` of ≤ 64 units."""
    powers = _POWERS[len(text)]
    if not powers:
        return prefix_hash
    value: int = prefix_hash * 31 * powers[0] + sum(map(mul, text.encode("latin-1"), powers))
    return value & MASK


def continue_hash(prefix_hash: int, text: str) -> int:
    """The same for any text."""
    if text.isascii() and len(text) <= UNITS_MAX:
        return extend_hash(prefix_hash, text)
    units = len(text.encode("utf-16-be", "surrogatepass")) // 2
    return (prefix_hash * pow(31, units, 1 << 32) + unsigned_hash(text)) & MASK


def absolute_hash(unsigned: int) -> int:
    """What the key index keeps: abs of the signed hash, 0 where Java's abs would overflow."""
    if unsigned < SIGN:
        return unsigned
    return 0 if unsigned == SIGN else (1 << 32) - unsigned


# Hashes of all pairs of upper-case hex digits, in which the ids of one sender differ.
PAIR_HASHES = tuple(unsigned_hash(f"{number:02X}") for number in range(256))
POWER_2 = 31**2
POWER_4 = 31**4


@lru_cache(maxsize=8192)
def tag_hash(tag: str) -> int:
    """The third field of a consume queue entry: 0 without a tag."""
    return java_hash(tag) if tag else 0


def _utf16_units(text: str) -> list[int]:
    data = text.encode("utf-16-be", "surrogatepass")
    return [(data[i] << 8) | data[i + 1] for i in range(0, len(data), 2)]
