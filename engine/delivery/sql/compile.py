"""Compiles the tree of an expression into nested closures, once for many messages.

Logic has three values (Kleene): True, False, and None for unknown. Terms are looked at from left
to right, and no further than needed; that shows only where a property should be a number and is
none, which ends the evaluation: the message does not match.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from engine.delivery.sql.parser import parse_sql
from engine.delivery.sql.tree import (
    MIRRORED,
    ORDERS,
    And,
    Comparison,
    Constant,
    Equal,
    In,
    IsNull,
    Node,
    Not,
    Or,
    PropertyReference,
    SubstringTest,
    Value,
    texts_of,
)
from engine.delivery.sql.values import double, equal, number, truth
from engine.message import TAGS

Properties = Mapping[str, str]
Test = Callable[[Properties], bool | None]
Operand = Callable[[Properties], Value]
CACHE_MAX = 128  # the largest expressions take 400 KiB each


@dataclass(frozen=True, slots=True)
class SqlFilter:
    """A compiled expression. `tags`: a message with none of them cannot match; None: any may."""

    text: str
    tags: frozenset[str] | None
    _test: Test = field(repr=False, compare=False)

    def matches(self, properties: Properties) -> bool:
        """Whether the expression is true for a message with these properties; never raises."""
        try:
            return self._test(properties) is True
        except ValueError:
            return False


@lru_cache(maxsize=CACHE_MAX)
def compile_sql(text: str) -> SqlFilter:
    """The filter that an SQL92 expression means; Invalid (field `filter`) says where it is wrong.

    At most 4,096 characters, 64 levels of nesting and 256 texts in one IN.
    """
    node = parse_sql(text)
    return SqlFilter(text, texts_of(node, TAGS), _test_of(node))


def _test_of(node: Node) -> Test:
    match node:
        case Not(term):
            return _not(_test_of(term))
        case And(terms):
            return _until(False, [_test_of(term) for term in terms])
        case Or(terms):
            return _until(True, [_test_of(term) for term in terms])
        case Equal(left, right):
            return _equal(left, right)
        case Comparison(left, symbol, right):
            return _order(left, symbol, right)
        case IsNull(operand):
            return _is_null(_operand_of(operand))
        case In(name, texts):
            return _in(name, texts)
        case SubstringTest():
            return _search(node)
        case Constant(bool() | None as value):
            return lambda _: value
    raise AssertionError(f"{node} is no condition")


def _operand_of(node: Node) -> Operand:
    match node:
        case PropertyReference(name):
            return lambda properties: properties.get(name)
        case Constant(value):
            return lambda _: value
    return _test_of(node)


# -- logic -------------------------------------------------------------------------------------


def _not(term: Test) -> Test:
    def test(properties: Properties) -> bool | None:
        value = term(properties)
        return None if value is None else not value

    return test


def _until(decisive: bool, terms: list[Test]) -> Test:
    """AND is decided by a false term, OR by a true one; else by whether one was unknown."""
    if len(terms) == 2:
        return _until_of_two(decisive, *terms)

    def test(properties: Properties) -> bool | None:
        answer: bool | None = not decisive
        for term in terms:
            value = term(properties)
            if value is decisive:
                return decisive
            if value is None:
                answer = None
        return answer

    return test


def _until_of_two(decisive: bool, first: Test, second: Test) -> Test:
    def test(properties: Properties) -> bool | None:
        one = first(properties)
        if one is decisive:
            return decisive
        other = second(properties)
        return None if one is None and other is not decisive else other

    return test


# -- comparisons -------------------------------------------------------------------------------


def _equal(left: Node, right: Node) -> Test:
    match left, right:
        case PropertyReference(name), Constant(value) if value is not None:
            return _equal_constant(name, value, None)
        case Constant(value), PropertyReference(name) if value is not None:
            return _equal_constant(name, value, False)
    first, second = _operand_of(left), _operand_of(right)
    return lambda properties: equal(first(properties), second(properties))


def _equal_constant(name: str, value: str | int | float | bool, missing: bool | None) -> Test:
    if isinstance(value, str):

        def test_text(properties: Properties) -> bool | None:
            text = properties.get(name)
            return missing if text is None else text == value

        return test_text
    convert: Callable[[str], float] = truth if isinstance(value, bool) else number

    def test(properties: Properties) -> bool | None:
        text = properties.get(name)
        return missing if text is None else convert(text) == value

    return test


def _order(left: Node, symbol: str, right: Node) -> Test:
    if isinstance(left, Constant) and isinstance(right, PropertyReference):
        left, symbol, right = right, MIRRORED[symbol], left
    compare = ORDERS[symbol]
    match left, right:
        case PropertyReference(name), Constant(int() | float() as value):
            return _order_constant(name, compare, value)
        case PropertyReference(name), PropertyReference(other):
            return _order_properties(name, compare, other)
        case Constant(int() | float() as one), Constant(int() | float() as two):
            answer = compare(one, two)
            return lambda _: answer
    raise AssertionError(f"{left} and {right} have no order")


def _order_constant(name: str, compare: Callable[[float, float], bool], value: float) -> Test:
    def test(properties: Properties) -> bool | None:
        text = properties.get(name)
        return None if text is None else compare(number(text), value)

    return test


def _order_properties(name: str, compare: Callable[[float, float], bool], other: str) -> Test:
    def test(properties: Properties) -> bool | None:
        text, other_text = properties.get(name), properties.get(other)
        if text is None or other_text is None:
            return None
        return compare(double(text), double(other_text))

    return test


# -- questions about one value -----------------------------------------------------------------


def _is_null(operand: Operand) -> Test:
    return lambda properties: operand(properties) is None


def _in(name: str, texts: frozenset[str]) -> Test:
    def test(properties: Properties) -> bool | None:
        text = properties.get(name)
        return None if text is None else text in texts

    return test


def _search(node: SubstringTest) -> Test:
    """Null neither contains a text nor does not; and the empty text is found nowhere."""
    if not node.text:
        return lambda _: False
    finds = {"CONTAINS": str.__contains__, "STARTSWITH": str.startswith, "ENDSWITH": str.endswith}
    find, operand, needle = finds[node.keyword], _operand_of(node.operand), node.text
    is_found = not node.is_negated

    def test(properties: Properties) -> bool:
        text = operand(properties)
        return isinstance(text, str) and find(text, needle) is is_found

    return test
