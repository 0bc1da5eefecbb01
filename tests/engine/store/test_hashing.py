"""Java's hash, on which tags, keys and queues depend."""

import random

import pytest

from engine.store.hashing import extend_hash, java_hash, tag_hash, unsigned_hash
from engine.store.key_index import key_hash


def slow(text: str) -> int:
    """The definition, one UTF-16 unit after the other."""
    data = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for high, low in zip(data[::2], data[1::2], strict=True):
        value = (value * 31 + (high << 8 | low)) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", 0),
        ("a", 97),
        ("Aa", 2112),
        ("BB", 2112),
        ("hello", 99162322),
        ("polygenelubricants", -(1 << 31)),  # the smallest there is
        ("The quick brown fox jumps over the lazy dog", -609428141),
        ("ü", 252),
        ("\U0001f600", 1772899),  # two units: 0xD83D * 31 + 0xDE00
    ],
)
def test_known_values_of_javas_hash(text: str, value: int) -> None:
    assert java_hash(text) == value == slow(text)


def test_any_text_hashes_as_the_definition_says() -> None:
    chance = random.Random(1)
    alphabet = "abcXYZ#%_ \x7füß漢\ud83d\U0001f600"
    for _ in range(500):
        text = "".join(chance.choices(alphabet, k=chance.randrange(200)))
        assert java_hash(text) == slow(text), repr(text)


def test_a_hash_can_be_continued() -> None:
    for prefix, text in (("", "x"), ("orders#", "k" * 64), ("ü#", "key"), ("t#", "")):
        assert extend_hash(unsigned_hash(prefix), text) == unsigned_hash(prefix + text)


def test_no_tag_is_zero() -> None:
    assert tag_hash("") == 0
    assert tag_hash("Aa") == tag_hash("BB") == 2112


def test_a_key_hash_is_never_negative() -> None:
    for key in map(str, range(300)):
        assert key_hash("t", key) == abs(slow(f"t#{key}"))


def test_the_key_hash_that_has_no_absolute_value_is_zero() -> None:
    """Java's Math.abs of the smallest integer is negative; RocketMQ takes 0 instead."""
    assert java_hash("t#qolygtg") == -(1 << 31)
    assert key_hash("t", "qolygtg") == 0
