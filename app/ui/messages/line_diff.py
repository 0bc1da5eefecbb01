"""What differs between two texts, line by line, in groups with a few equal lines around. Pure.

The work is bounded: long lines are cut into pieces, and between the lines that both texts begin
and end with, at most LINES_MAX of each are compared.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import takewhile

LINES_MAX = 1000
LINE_CHARS_MAX = 500
CONTEXT = 3


@dataclass(frozen=True)
class DiffLine:
    """A line with its number in the texts that have it; `changed` is its differing part."""

    mark: str  # "-" only in the old text, "+" only in the new one, " " in both
    old: int | None
    new: int | None
    before: str
    changed: str = ""
    after: str = ""


@dataclass(frozen=True)
class LineDiff:
    """The groups of differing lines; `is_cut` if there may be more differences."""

    groups: list[list[DiffLine]]
    added: int
    removed: int
    is_cut: bool


def compare(old: str, new: str) -> LineDiff:
    """The differences from `old` to `new`."""
    left, right = list(_lines(old)), list(_lines(new))
    head = _equal(left, right)
    tail = _equal(left[head:][::-1], right[head:][::-1])
    lengths = len(left) - head - tail, len(right) - head - tail
    is_cut = max(lengths) > LINES_MAX
    if is_cut:
        left, right = left[: head + LINES_MAX], right[: head + LINES_MAX]
        tail = 0
    # The equal lines next to the difference are its context; further ones need no look.
    begin = max(0, head - CONTEXT)
    end = max(0, tail - CONTEXT)
    left, right = left[begin : len(left) - end], right[begin : len(right) - end]
    matcher = SequenceMatcher(None, left, right)
    groups = [
        [line for step in group for line in _block(left, right, step, begin)]
        for group in matcher.get_grouped_opcodes(CONTEXT)
    ]
    marks = [line.mark for group in groups for line in group]
    return LineDiff(groups, marks.count("+"), marks.count("-"), is_cut)


def _lines(text: str) -> Iterator[str]:
    for line in text.split("\n"):
        yield line[:LINE_CHARS_MAX]
        for start in range(LINE_CHARS_MAX, len(line), LINE_CHARS_MAX):
            yield line[start : start + LINE_CHARS_MAX]


def _equal(left: Sequence[str], right: Sequence[str]) -> int:
    """How many lines both begin with."""
    return sum(1 for __ in takewhile(bool, (a == b for a, b in zip(left, right, strict=False))))


def _block(
    left: Sequence[str], right: Sequence[str], step: tuple[str, int, int, int, int], begin: int
) -> Iterator[DiffLine]:
    """The lines of one step of the matcher, with numbers that count from 1 after `begin`."""
    kind, i, i_end, j, j_end = step
    if kind == "equal":
        for number in range(i_end - i):
            yield DiffLine(" ", begin + i + number + 1, begin + j + number + 1, left[i + number])
        return
    for number in range(i, i_end):
        other = right[j + number - i] if j + number - i < j_end else ""
        yield DiffLine("-", begin + number + 1, None, *_parts(left[number], other))
    for number in range(j, j_end):
        other = left[i + number - j] if i + number - j < i_end else ""
        yield DiffLine("+", None, begin + number + 1, *_parts(right[number], other))


def _parts(line: str, other: str) -> tuple[str, str, str]:
    """The line as what it begins with like the other, what differs, and what it ends with."""
    head = _equal(line, other)
    tail = min(_equal(line[::-1], other[::-1]), len(line) - head, max(0, len(other) - head))
    if not head + tail:
        return line, "", ""
    return line[:head], line[head : len(line) - tail], line[len(line) - tail :]
