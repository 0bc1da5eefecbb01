"""Matches the words of a query with names, in any order and with typing errors. Pure.

A word matches a name that holds it. If no name matches, a word of five or more letters also
matches what differs from it by one edit: a letter more, less or another, or two letters swapped.
"""

import re
from collections.abc import Iterable, Sequence

WORDS_MAX = 8
TYPO_LETTERS_MIN = 5
EQUAL, PREFIX, WORD, PART, LETTERS, TYPO = range(1, 7)  # ranks: the lower, the better
TOKEN = re.compile(r"[^\W_]+")


def words_of(text: str) -> list[str]:
    """The first words of a query, in lower case."""
    return text.lower().split()[:WORDS_MAX]


def ranked(text: str, names: Iterable[str]) -> list[tuple[int, str]]:
    """The names that match `text` with their ranks, the best first."""
    query, words, names = text.lower(), words_of(text), list(names)
    if not words:
        return [(PREFIX, name) for name in names]
    for rank_of in (_rank, _typo_rank):
        ranks = [(rank, len(name), name) for name in names if (rank := rank_of(query, words, name))]
        if ranks:
            return [(rank, name) for rank, __, name in sorted(ranks)]
    return []


def begins(word: str, terms: Sequence[str]) -> bool:
    """Whether a word of a query begins one of `terms`."""
    return any(term.startswith(word) for term in terms)


def nearly_begins(word: str, terms: Sequence[str]) -> bool:
    """The same, perhaps with a typing error."""
    return any(term.startswith(word) or is_near(word, term) for term in terms)


def is_near(word: str, token: str) -> bool:
    """Whether `word` is at most one edit away from `token` or from what it begins with."""
    count, half = len(word), len(word) // 2
    if count < TYPO_LETTERS_MIN or not (word[:half] == token[:half] or word[half + 1 :] in token):
        return False  # an edit leaves one of the halves
    return any(is_one_edit(word, token[:end]) for end in (count - 1, count, count + 1))


def is_one_edit(one: str, other: str) -> bool:
    """Whether the two are equal, or one edit apart."""
    pairs = enumerate(zip(one, other, strict=False))
    common = next((at for at, (left, right) in pairs if left != right), min(len(one), len(other)))
    one, other = one[common:], other[common:]
    return (
        one[1:] == other[1:]
        or one[1:] == other
        or one == other[1:]
        or (one[:2] == other[1::-1] and one[2:] == other[2:])
    )


def _rank(query: str, words: Sequence[str], name: str) -> int:
    """The rank of a match without typing errors; 0 is no match."""
    name = name.lower()
    if name.startswith(query):
        return EQUAL if name == query else PREFIX
    if all(word in name for word in words):
        tokens = TOKEN.findall(name)
        return WORD if all(begins(word, tokens) for word in words) else PART
    letters = iter(name)
    return LETTERS if len(words) == 1 and all(letter in letters for letter in query) else 0


def _typo_rank(query: str, words: Sequence[str], name: str) -> int:
    name = name.lower()
    tokens = TOKEN.findall(name)
    is_match = all(word in name or any(is_near(word, each) for each in tokens) for word in words)
    return TYPO if is_match else 0
