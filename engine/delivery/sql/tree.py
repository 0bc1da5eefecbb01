"""The syntax tree of an expression. A condition is true, false or unknown (null).

`a <> b` is read as NOT (a = b), `a BETWEEN x AND y` as a >= x AND a <= y, and so on: what has no
node here is made of those that have.
"""

from collections.abc import Callable
from operator import ge, gt, le, lt

import msgspec

Value = str | int | float | bool | None


class PropertyReference(msgspec.Struct, frozen=True):
    """The text of a property, or null where the message has none of this name."""

    name: str


class Constant(msgspec.Struct, frozen=True):
    value: Value


class Not(msgspec.Struct, frozen=True):
    term: "Node"


class And(msgspec.Struct, frozen=True):
    terms: tuple["Node", ...]


class Or(msgspec.Struct, frozen=True):
    terms: tuple["Node", ...]


class Equal(msgspec.Struct, frozen=True):
    left: "Node"
    right: "Node"


class Comparison(msgspec.Struct, frozen=True):
    """A comparison of numbers; each side is a property or a number."""

    left: "Node"
    symbol: str  # a key of ORDERS
    right: "Node"


class IsNull(msgspec.Struct, frozen=True):
    operand: "Node"


class In(msgspec.Struct, frozen=True):
    name: str
    texts: frozenset[str]


class SubstringTest(msgspec.Struct, frozen=True):
    """CONTAINS, STARTSWITH or ENDSWITH: never unknown, and so not simply negated by NOT."""

    operand: "Node"
    keyword: str
    text: str
    is_negated: bool


Condition = Not | And | Or | Equal | Comparison | IsNull | In | SubstringTest
Node = PropertyReference | Constant | Condition

ORDERS: dict[str, Callable[[float, float], bool]] = {">": gt, ">=": ge, "<": lt, "<=": le}
MIRRORED = {">": "<", ">=": "<=", "<": ">", "<=": ">="}


def is_condition(node: Node) -> bool:
    """Whether it can be true: a property is a text, even where that says "true"."""
    if isinstance(node, Constant):
        return node.value is None or isinstance(node.value, bool)
    return not isinstance(node, PropertyReference)


def is_number(node: Node) -> bool:
    return isinstance(node, Constant) and type(node.value) in (int, float)


def texts_of(node: Node, name: str) -> frozenset[str] | None:
    """The texts of the property `name` without which `node` cannot be true; None: any may do."""
    match node:
        case Equal(PropertyReference(found), Constant(str(text))) if found == name:
            return frozenset((text,))
        case Equal(Constant(str(text)), PropertyReference(found)) if found == name:
            return frozenset((text,))
        case In(found, texts) if found == name:
            return texts
        case And(terms):
            known = [each for term in terms if (each := texts_of(term, name)) is not None]
            return frozenset.intersection(*known) if known else None
        case Or(terms):
            each_one = [texts_of(term, name) for term in terms]
            known = [each for each in each_one if each is not None]
            return frozenset().union(*known) if len(known) == len(each_one) else None
    return None
