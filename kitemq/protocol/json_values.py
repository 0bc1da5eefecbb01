"""Counts the values of a JSON text before it is decoded.

Decoding cannot be interrupted: a text of megabytes that is nothing but values (`{},{},{}`) would
keep everything else waiting for seconds, also where most of them are refused afterwards. A large
string is one value and costs nothing. The count takes a few passes at the speed of memory.
"""

VALUES_MAX = 100_000  # elements of arrays and members of objects, in one text
SMALL_BYTES = 64 * 1024  # what is smaller cannot hold more than is decoded at once
MARKS = b",[{"  # one for each value but the first of its array or object, and for each of these
OTHERS = bytes(set(range(256)) - set(MARKS + b'"'))


def has_too_many_values(data: bytes, values_max: int = VALUES_MAX) -> bool:
    """Whether a JSON text holds more than `values_max` values; True may be said of a broken one."""
    if len(data) <= SMALL_BYTES or _count(data, MARKS) <= values_max:
        return False
    # Most marks may stand within strings: leave those out, which are every other part between
    # quotes once the escaped quotes are gone.
    plain = data.replace(rb"\\", b"").replace(rb"\"", b"").translate(None, OTHERS)
    if _count(plain, b'"') > 4 * values_max:  # a name and a value have two each
        return True
    return sum(map(len, plain.split(b'"')[::2])) > values_max


def _count(data: bytes, characters: bytes) -> int:
    """How many of these characters there are: one pass, however many they are."""
    return len(data) - len(data.translate(None, characters))
