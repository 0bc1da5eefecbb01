"""Words in any order, with typing errors: against a slow but plain measure of edits."""

import string

from hypothesis import assume, example, given
from hypothesis import strategies as st

from app.ui.navigation.matching import (
    TYPO_LETTERS_MIN,
    begins,
    is_near,
    is_one_edit,
    nearly_begins,
    ranked,
)

LETTERS = st.text("abcd", max_size=8)
WORDS = st.text(string.ascii_lowercase, min_size=TYPO_LETTERS_MIN, max_size=12)


def names(text: str, *of: str) -> list[str]:
    return [name for __, name in ranked(text, of)]


def edits(one: str, other: str) -> int:
    """The least number of letters more, less, other or swapped with the next."""
    before: list[list[int]] = [list(range(len(other) + 1))]
    for i, letter in enumerate(one, 1):
        row = [i]
        for j, second in enumerate(other, 1):
            least = min(before[-1][j] + 1, row[-1] + 1, before[-1][j - 1] + (letter != second))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == second:
                least = min(least, before[-2][j - 2] + 1)
            row.append(least)
        before.append(row)
    return before[-1][-1]


@given(LETTERS, LETTERS)
@example("abcd", "abdc")
@example("", "a")
def test_one_edit_is_what_the_plain_measure_calls_so(one: str, other: str) -> None:
    assert is_one_edit(one, other) == (edits(one, other) <= 1)


@given(
    WORDS,
    st.integers(0, 11),
    st.sampled_from(["more", "less", "other", "swap"]),
    st.sampled_from(string.ascii_lowercase),
    st.text(string.ascii_lowercase, max_size=4),
)
def test_every_typing_error_in_a_word_is_forgiven(
    word: str, at: int, error: str, letter: str, rest: str
) -> None:
    at %= len(word)
    typed = {
        "more": word[:at] + letter + word[at:],
        "less": word[:at] + word[at + 1 :],
        "other": word[:at] + letter + word[at + 1 :],
        "swap": word[:at] + word[at : at + 2][::-1] + word[at + 2 :],
    }[error]
    assume(len(typed) >= TYPO_LETTERS_MIN)
    assert is_near(typed, word + rest)
    assert names(f"{typed} EU", f"eu-{word}{rest}") == [f"eu-{word}{rest}"]


@given(WORDS, WORDS)
def test_nothing_further_away_is_taken_for_a_typing_error(word: str, token: str) -> None:
    is_close = any(edits(word, token[:end]) <= 1 for end in range(len(token) + 1))
    assert is_near(word, token) == is_close


def test_short_words_have_no_typing_errors() -> None:
    assert names("jbos", "jobs") == []
    assert names("journaly", "journals") == ["journals"]


def test_the_best_names_come_first() -> None:
    of = ("reorders", "orders-eu", "orders", "o-r-d-e-r-s", "payments")
    assert names("orders", *of) == ["orders", "orders-eu", "reorders", "o-r-d-e-r-s"]


def test_all_words_are_in_a_name_in_any_order() -> None:
    of = ("eu.flights.late", "late-flights", "flights", "flights-us")
    assert names("late flights", *of) == ["late-flights", "eu.flights.late"]
    assert names("fli la", *of) == ["late-flights", "eu.flights.late"]
    assert names("late trains", *of) == []


def test_typing_errors_count_only_where_nothing_matches_as_it_is() -> None:
    assert names("flight", "flights", "freight-fligth") == ["flights"]
    assert names("fligths", "flights", "freights") == ["flights"]


def test_a_term_is_meant_by_what_begins_it() -> None:
    assert begins("res", ["reset", "offsets"])
    assert not begins("ofsets", ["reset", "offsets"])
    assert nearly_begins("ofsets", ["reset", "offsets"])
    assert not nearly_begins("set", ["reset", "offsets"])
