"""Whatever is written, a filter is refused as Invalid or answers; and it answers what SQL means.

The second half draws conditions as trees, writes them as text, and compares the answers with an
evaluator of its own: exact numbers, minimum and maximum for AND and OR, errors as exceptions.
"""

from decimal import Decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from engine.delivery.sql import compile_sql
from engine.errors import Invalid

NAMES = ("a", "b", "c", "TAGS")
TEXTS = ("x", "y", "it's", "", "1", "-1", "1.0", "7.5", "1e1", "true", "FALSE", "12x", "²")
NUMBERS = ("0", "1", "-1", "7.5", "1e1", "10", "-0.5", "9007199254740993")
WORDS = (
    *NAMES,
    *("AND or Not BETWEEN in IS NULL true FALSE CONTAINS STARTSWITH ENDSWITH LIKE".split()),
    *("= <> < > <= >= ( ) , + - -- /* */ ' '' 'x' 1 0.0 7.5 1e999 .5 2l ; ! \n".split(" ")),
)

properties_of = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(TEXTS))
any_properties = st.dictionaries(st.sampled_from(NAMES) | st.text(), st.text() | st.just("1"))


def answer(text: str, properties: dict[str, str]) -> bool | None:
    """What a filter says, None where there is none; anything but Invalid escapes."""
    try:
        match = compile_sql(text)
    except Invalid as error:
        refusal = error
    else:
        result = match.matches(properties)
        assert isinstance(result, bool)
        return result
    assert refusal.field == "filter"
    assert refusal.remedy
    return None


@given(st.text(max_size=200), any_properties)
def test_any_text_is_refused_or_answers(text: str, properties: dict[str, str]) -> None:
    answer(text, properties)


@given(st.lists(st.sampled_from(WORDS), max_size=30).map(" ".join), any_properties)
def test_any_row_of_words_is_refused_or_answers(text: str, properties: dict[str, str]) -> None:
    answer(text, properties)


@given(st.sampled_from(NAMES), st.text(max_size=20), any_properties)
def test_any_text_can_be_asked_for(name: str, text: str, properties: dict[str, str]) -> None:
    quoted = text.replace("'", "''")
    asked = f"{name} = '{quoted}'"
    assert answer(asked, properties) == (properties.get(name) == text)
    assert answer(asked, properties | {name: text})


# -- conditions as trees, and what they mean -------------------------------------------------------

Tree = tuple[Any, ...]

properties = st.tuples(st.just("property"), st.sampled_from(NAMES))
numbers = st.tuples(st.just("number"), st.sampled_from(NUMBERS))
texts = st.tuples(st.just("text"), st.sampled_from(TEXTS))
truths = st.tuples(st.just("truth"), st.sampled_from(("TRUE", "FALSE")))
lists = st.lists(st.sampled_from(TEXTS), min_size=1, max_size=4)
searches = st.sampled_from(("CONTAINS", "STARTSWITH", "ENDSWITH"))
nots = st.sampled_from(("", "NOT "))
equals, orders = st.sampled_from(("=", "<>")), st.sampled_from((">", ">=", "<", "<="))

leaves = st.one_of(
    st.tuples(st.just("compare"), equals, properties, properties | numbers | texts | truths),
    st.tuples(st.just("compare"), equals, properties | numbers | texts | truths, properties),
    st.tuples(st.just("compare"), orders, properties | numbers, properties | numbers),
    st.tuples(st.just("between"), nots, properties | numbers, properties, properties | numbers),
    st.tuples(st.just("in"), nots, properties, lists),
    st.tuples(st.just("search"), nots, properties | texts, searches, st.sampled_from(TEXTS)),
    st.tuples(st.just("null"), nots, properties | numbers | texts),
    truths,
    st.just(("truth", "NULL")),
)


def larger(terms: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
    some = st.lists(terms, min_size=2, max_size=4)
    return st.one_of(
        st.tuples(st.just("AND"), some),
        st.tuples(st.just("OR"), some),
        st.tuples(st.just("not"), terms),
        st.tuples(st.just("null"), nots, terms),
    )


conditions = st.recursive(leaves, larger, max_leaves=12)


def quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def write(tree: Tree) -> str:
    """The tree as SQL; every condition inside another stands in parentheses."""
    match tree:
        case ("property" | "number" | "truth", word):
            return str(word)
        case ("text", text):
            return quote(text)
        case ("compare", symbol, left, right):
            return f"{write(left)} {symbol} {write(right)}"
        case ("between", negation, value, low, high):
            return f"{write(value)} {negation}BETWEEN {write(low)} AND {write(high)}"
        case ("in", negation, value, items):
            return f"{write(value)} {negation}IN ({', '.join(map(quote, items))})"
        case ("search", negation, value, word, text):
            return f"{write(value)} {negation}{word} {quote(text)}"
        case ("null", negation, value):
            return f"({write(value)}) IS {negation}NULL"
        case ("not", term):
            return f"NOT ({write(term)})"
        case (word, terms):
            return f" {word} ".join(f"({write(term)})" for term in terms)
    raise AssertionError(tree)


class NoNumber(Exception):
    """A property that had to be a number was none."""


def exact(text: str) -> Decimal:
    digits = text.lstrip("+-").replace(".", "").replace("e", "")
    if not (digits.isascii() and digits.isdigit()):
        raise NoNumber
    return Decimal(text)


def value_of(tree: Tree, message: dict[str, str]) -> Any:
    match tree:
        case ("property", name):
            return message.get(name)
        case ("number", text):
            return Decimal(text)
        case ("text", text):
            return text
    return meaning(tree, message)


def alike(left: Any, right: Any) -> tuple[Any, Any]:
    """Both as what they are compared as: a text becomes what stands against it."""
    if isinstance(left, str) and not isinstance(right, str):
        left = left.lower() == "true" if isinstance(right, bool) else exact(left)
    elif isinstance(right, str) and not isinstance(left, str):
        right, left = alike(right, left)
    return left, right


def is_equal(left: Any, right: Any) -> bool | None:
    if left is None and right is None:
        return True
    if left is None:
        return None
    if right is None:
        return False
    left, right = alike(left, right)
    return bool(left == right)


def compare(left: Any, symbol: str, right: Any) -> bool | None:
    if symbol in ("=", "<>"):
        same = is_equal(left, right)
        return same if symbol == "=" or same is None else not same
    if left is None or right is None:
        return None
    if isinstance(left, str) and isinstance(right, str):  # two properties: as doubles
        left, right = Decimal(float(exact(left))), Decimal(float(exact(right)))
    left, right = alike(left, right)
    sign = (left > right) - (left < right)
    return bool({">": sign > 0, ">=": sign >= 0, "<": sign < 0, "<=": sign <= 0}[symbol])


RANK = {False: 0, None: 1, True: 2}
TRUTH = {0: False, 1: None, 2: True}


def fold(word: str, terms: list[Tree], message: dict[str, str]) -> bool | None:
    """Kleene: AND is the least of its terms and OR the greatest; the deciding one ends it."""
    decisive, pick = (0, min) if word == "AND" else (2, max)
    rank = 2 - decisive
    for term in terms:
        rank = pick(rank, RANK[meaning(term, message)])
        if rank == decisive:
            break
    return TRUTH[rank]


def meaning(tree: Tree, message: dict[str, str]) -> bool | None:
    match tree:
        case ("truth", word):
            return {"TRUE": True, "FALSE": False, "NULL": None}[word]
        case ("compare", symbol, left, right):
            return compare(value_of(left, message), symbol, value_of(right, message))
        case ("between", negation, value, low, high):
            signs = ("<", ">") if negation else (">=", "<=")
            both = [("compare", signs[0], value, low), ("compare", signs[1], value, high)]
            return fold("OR" if negation else "AND", both, message)
        case ("in", negation, value, items):
            found = value_of(value, message)
            return None if found is None else (found in items) != bool(negation)
        case ("search", negation, value, word, text):
            found = value_of(value, message)
            if found is None or not text:
                return False
            ways = {"CONTAINS": text in found, "STARTSWITH": found[: len(text)] == text}
            is_there: bool = ways.get(word, found[-len(text) :] == text)
            return is_there != bool(negation)
        case ("null", negation, value):
            return (value_of(value, message) is None) != bool(negation)
        case ("not", term):
            return {True: False, False: True, None: None}[meaning(term, message)]
        case (word, terms):
            return fold(word, terms, message)
    raise AssertionError(tree)


@given(conditions, properties_of)
def test_a_condition_means_what_an_evaluator_of_its_own_says(
    tree: Tree, message: dict[str, str]
) -> None:
    try:
        expected = meaning(tree, message) is True
    except NoNumber:
        expected = False
    assert answer(write(tree), message) is expected, write(tree)


@given(conditions, properties_of)
def test_a_filter_with_tags_lets_no_other_tag_through(tree: Tree, message: dict[str, str]) -> None:
    match = compile_sql(write(tree))
    if match.tags is not None and match.matches(message):
        assert message.get("TAGS") in match.tags
