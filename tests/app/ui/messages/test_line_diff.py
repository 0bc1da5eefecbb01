"""The differences of two texts, line by line."""

from hypothesis import given
from hypothesis import strategies as st

from app.ui.messages.line_diff import CONTEXT, LINES_MAX, DiffLine, compare

TEXTS = st.lists(st.sampled_from(["", "{", "}", "a", "b", "ab", "abc", "x" * 1200]), max_size=30)


def whole(line: DiffLine) -> str:
    return line.before + line.changed + line.after


@given(TEXTS, TEXTS)
def test_the_lines_of_either_mark_are_those_of_its_text(old: list[str], new: list[str]) -> None:
    diff = compare("\n".join(old), "\n".join(new))
    pieces = [
        [text[at : at + 500] for text in "\n".join(side).split("\n") for at in places(text)]
        for side in (old, new)
    ]
    lines = [line for group in diff.groups for line in group]
    assert not diff.is_cut
    for line in lines:
        assert line.old is None or pieces[0][line.old - 1] == whole(line)
        assert line.new is None or pieces[1][line.new - 1] == whole(line)
        assert line.mark == {(False, True): "-", (True, False): "+"}.get(
            (line.old is None, line.new is None), " "
        )
    # What carries no mark is the same in both.
    rest = []
    for pieces_of, name in zip(pieces, ("old", "new"), strict=True):
        gone = {getattr(line, name) for line in lines if line.mark != " "}
        rest.append([text for at, text in enumerate(pieces_of, 1) if at not in gone])
    assert rest[0] == rest[1]
    assert (diff.added, diff.removed) == (
        sum(line.mark == "+" for line in lines),
        sum(line.mark == "-" for line in lines),
    )


def places(text: str) -> range:
    return range(0, max(1, len(text)), 500)


def test_the_part_of_a_line_that_differs_is_told_apart() -> None:
    diff = compare('{\n  "total": 19.0,\n}', '{\n  "total": 29.0,\n}')
    marked = [line for line in diff.groups[0] if line.mark != " "]
    assert [(line.mark, line.before, line.changed, line.after) for line in marked] == [
        ("-", '  "total": ', "1", "9.0,"),
        ("+", '  "total": ', "2", "9.0,"),
    ]


def test_equal_lines_far_from_a_difference_are_left_out_and_counted() -> None:
    lines = [str(number) for number in range(5000)]
    diff = compare("\n".join(lines), "\n".join([*lines[:4000], "new", *lines[4000:]]))
    (group,) = diff.groups
    assert len(group) == 2 * CONTEXT + 1
    assert [(line.old, line.new) for line in group if line.mark == "+"] == [(None, 4001)]
    assert compare("same\n" * 100, "same\n" * 100).groups == []


def test_more_differing_lines_than_the_limit_are_said_to_be_cut() -> None:
    old = "\n".join(f"old {number}" for number in range(LINES_MAX + 1))
    diff = compare(old, old.replace("old", "new"))
    assert diff.is_cut
    assert (diff.added, diff.removed) == (LINES_MAX, LINES_MAX)
