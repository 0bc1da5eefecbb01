"""Parses tokens into the tree; refuses what the grammar or the types forbid.

    or          and { OR and }
    and         comparison { AND comparison }
    comparison  operand [ tail ]
    tail        ( = | <> | > | >= | < | <= ) operand
              | [NOT] BETWEEN operand AND operand       | IS [NOT] NULL
              | [NOT] IN ( text { , text } )            | [NOT] CONTAINS text (and the like)
    operand     NOT operand | + operand | - operand | ( or ) | name | constant

NOT binds to what directly follows it, as in RocketMQ's grammar. Where that differs from standard
SQL, and where comparisons follow each other, parentheses are asked for instead of guessing.
"""

from collections.abc import Callable

from engine.delivery.sql.lexer import SqlToken, TokenKind, fault, number_value, text_value, tokenize
from engine.delivery.sql.tree import (
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
    is_condition,
    is_number,
)
from engine.errors import Invalid

DEPTH_MAX = 64
IN_COUNT_MAX = 256
SEARCHES = ("CONTAINS", "STARTSWITH", "ENDSWITH")
TAILS = ("=", "<>", *ORDERS, "IS", "NOT", "IN", "BETWEEN", *SEARCHES)
LITERALS: dict[str, bool | None] = {"TRUE": True, "FALSE": False, "NULL": None}


def parse_sql(text: str) -> Node:
    """The condition that `text` writes; Invalid (field `filter`) with the place and a remedy."""
    return _Parser(text).parse()


class _Parser:
    """One walk over the tokens, by recursive descent of bounded depth."""

    def __init__(self, text: str) -> None:
        self._tokens = tokenize(text)
        self._index = 0
        self._depth = 0

    def parse(self) -> Node:
        start = self._next
        node = self._any_of()
        if self._next.kind is not TokenKind.END:
            raise fault(self._next, "AND, OR or the end should be here", _remedy_for(self._next))
        return _condition(node, start)

    # -- reading tokens --------------------------------------------------------------------------

    @property
    def _next(self) -> SqlToken:
        return self._tokens[self._index]

    def _take(self) -> SqlToken:
        token = self._next
        if token.kind is not TokenKind.END:
            self._index += 1
        return token

    def _accept(self, *words: str) -> bool:
        if self._next.is_word(*words):
            self._index += 1
            return True
        return False

    def _expect(self, word: str, remedy: str) -> None:
        if not self._accept(word):
            raise fault(self._next, f"{word} is missing here", remedy)

    def _text(self, remedy: str) -> str:
        token = self._take()
        if token.kind is not TokenKind.TEXT:
            raise fault(token, "a text in quotes is missing here", remedy)
        return text_value(token)

    # -- conditions ------------------------------------------------------------------------------

    def _any_of(self) -> Node:
        terms = self._terms("OR", self._all_of)
        return terms[0] if len(terms) == 1 else Or(terms)

    def _all_of(self) -> Node:
        terms = self._terms("AND", self._comparison)
        return terms[0] if len(terms) == 1 else And(terms)

    def _terms(self, word: str, part: Callable[[], Node]) -> tuple[Node, ...]:
        start = self._next
        terms = [part()]
        if self._next.is_word(word):
            _condition(terms[0], start)
        while self._accept(word):
            start = self._next
            terms.append(_condition(part(), start))
        return tuple(terms)

    def _comparison(self) -> Node:
        start = self._next
        left = self._operand()
        if not self._next.is_word(*TAILS):
            return left
        if start.is_word("NOT"):
            raise fault(
                self._next,
                "it is not clear what NOT is about",
                "put the comparison in parentheses, as in NOT (a = 'x')",
            )
        node = self._tail(left, start)
        if self._next.is_word(*TAILS):
            raise fault(
                self._next,
                "a comparison cannot follow another",
                "join them by AND or OR, or put one in parentheses",
            )
        return node

    def _tail(self, left: Node, start: SqlToken) -> Node:
        token = self._take()
        if token.is_word("=", "<>"):
            node = self._equal(left, token)
            return node if token.text == "=" else Not(node)
        if token.is_word(*ORDERS):
            return Comparison(_ordered(left, start), token.text, self._bound())
        if token.is_word("IS"):
            is_negated = self._accept("NOT")
            self._expect("NULL", "write IS NULL or IS NOT NULL")
            return Not(IsNull(left)) if is_negated else IsNull(left)
        is_negated = token.is_word("NOT")
        return self._test(left, start, self._take() if is_negated else token, is_negated)

    def _test(self, left: Node, start: SqlToken, token: SqlToken, is_negated: bool) -> Node:
        """BETWEEN, IN and the searches, after NOT perhaps."""
        if token.is_word("BETWEEN"):
            return self._between(_ordered(left, start), is_negated)
        if token.is_word("IN"):
            if not isinstance(left, PropertyReference):
                raise fault(start, "IN asks about a property", "write name IN ('a', 'b')")
            node = In(left.name, self._texts())
            return Not(node) if is_negated else node
        if token.is_word(*SEARCHES):
            if is_number(left) or is_condition(left):
                raise fault(start, f"{token.text} looks into texts", "put a property before it")
            text = self._text(f"write name {token.text} 'x'")
            return SubstringTest(left, token.text, text, is_negated)
        raise fault(token, "a comparison is missing after NOT", "write NOT IN, NOT BETWEEN, …")

    def _equal(self, left: Node, token: SqlToken) -> Node:
        start = self._next
        right = self._operand()
        if Constant(None) in (left, right):
            raise fault(token, "nothing equals NULL", "use IS NULL or IS NOT NULL")
        if any(map(is_number, (left, right))) and any(map(is_condition, (left, right))):
            raise fault(start, "a number and a truth cannot be equal", "compare like with like")
        return Equal(left, right)

    def _between(self, value: Node, is_negated: bool) -> Node:
        low = self._bound()
        self._expect("AND", "write BETWEEN 1 AND 9")
        start = self._next
        high = self._bound()
        match low, high:
            case Constant(int() | float() as first), Constant(int() | float() as last) if (
                first > last
            ):
                raise fault(start, f"{first} is above {last}", "write the smaller bound first")
        if is_negated:
            return Or((Comparison(value, "<", low), Comparison(value, ">", high)))
        return And((Comparison(value, ">=", low), Comparison(value, "<=", high)))

    def _bound(self) -> Node:
        start = self._next
        return _ordered(self._operand(), start)

    def _texts(self) -> frozenset[str]:
        remedy = "write IN ('a', 'b')"
        self._expect("(", remedy)
        start = self._next
        texts = [self._text(remedy)]
        while self._accept(","):
            texts.append(self._text(remedy))
        self._expect(")", remedy)
        if len(texts) > IN_COUNT_MAX:
            raise fault(
                start, f"IN takes at most {IN_COUNT_MAX} texts, not {len(texts)}", "join two by OR"
            )
        return frozenset(texts)

    # -- operands --------------------------------------------------------------------------------

    def _operand(self) -> Node:
        token = self._take()
        if token.kind is TokenKind.NAME:
            return PropertyReference(token.text)
        if token.kind is TokenKind.TEXT:
            return Constant(text_value(token))
        if token.kind is TokenKind.NUMBER:
            return Constant(number_value(token))
        if token.is_word(*LITERALS):
            return Constant(LITERALS[token.text])
        if token.is_word("(", "NOT", "+", "-"):
            return self._nested(token)
        raise fault(token, "a property or a constant is missing here", _remedy_for(token))

    def _nested(self, token: SqlToken) -> Node:
        if self._depth == DEPTH_MAX:
            raise fault(token, f"nested deeper than {DEPTH_MAX} levels", "take parentheses away")
        self._depth += 1
        start = self._next
        if token.text == "(":
            node = self._any_of()
            if not self._accept(")"):
                raise self._unclosed(token)
        else:
            node = self._operand()
        self._depth -= 1
        if token.text == "NOT":
            return Not(_condition(node, start))
        return _negative(node, start) if token.text == "-" else node

    def _unclosed(self, opened: SqlToken) -> Invalid:
        token = self._next
        if token.kind is TokenKind.END:
            return fault(opened, "this is never closed", "add a )")
        return fault(token, "AND, OR or ) should be here", _remedy_for(token))


def _negative(node: Node, start: SqlToken) -> Node:
    match node:
        case Constant(value) if isinstance(value, int | float) and not isinstance(value, bool):
            return Constant(-value)
    raise fault(start, "only a number has a sign", "there is no arithmetic: write the constant")


def _condition(node: Node, start: SqlToken) -> Node:
    if is_condition(node):
        return node
    raise fault(
        start,
        "this alone is neither true nor false",
        "compare it, as in paid = TRUE; after NOT, put the comparison in parentheses",
    )


def _ordered(node: Node, start: SqlToken) -> Node:
    """One side of an ordering, which is between numbers."""
    if isinstance(node, PropertyReference) or is_number(node):
        return node
    raise fault(
        start,
        "only numbers have an order",
        "compare with a number, as in a > 5; texts and truths know only =, <> and IN",
    )


def _remedy_for(token: SqlToken) -> str:
    if token.kind is TokenKind.END:
        return 'complete the expression, as in a > 5; for all messages use the filter "*"'
    if token.text.upper() in ("LIKE", "ESCAPE"):
        return "there is no LIKE: use CONTAINS, STARTSWITH or ENDSWITH"
    if token.is_word("+", "-"):
        return "there is no arithmetic, and a property's name has letters, digits, _ and $ only"
    return "write conditions such as a > 5 AND b = 'x'"
