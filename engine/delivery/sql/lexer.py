"""Splits the text of a filter into tokens; errors point into the text.

Blanks and comments (`-- to the end of the line`, `/* … */`) are left out. Every token knows where
it stands, so that every refusal can say so.
"""

import re
from enum import Enum, auto
from typing import NamedTuple

from engine.errors import Invalid

CHARS_MAX = 4096
NEAR_CHARS_MAX = 40
LONG_MAX = (1 << 63) - 1
KEYWORDS = frozenset(
    "AND OR NOT BETWEEN IN IS NULL TRUE FALSE CONTAINS STARTSWITH ENDSWITH".split()
)

_TOKEN = re.compile(
    r"""(?P<BLANK>[ \t\n\r\f]+|--[^\r\n]*|/\*.*?\*/)
      | (?P<NAME>[A-Za-z_$][A-Za-z0-9_$]*)
      | (?P<NUMBER>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[lL]?)
      | (?P<TEXT>'[^']*(?:''[^']*)*'(?!'))
      | (?P<SYMBOL><>|<=|>=|[=<>(),+-])""",
    re.VERBOSE | re.DOTALL,
)
_INTEGER = re.compile(r"(0|[1-9][0-9]*)[lL]?")
_DECIMAL = re.compile(r"(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+")
# Operators of other languages, and their spelling in SQL92.
_FOREIGN = {
    "'": "close the text with ', and write '' for a ' inside it",
    '"': "write texts in single quotes",
    "`": "write a property's name without quotes",
    "!": "use <> or NOT",
    "&": "use AND",
    "|": "use OR",
    "*": "there is no arithmetic: compare properties with constants",
    "/": "close the comment with */; there is no arithmetic",
    "%": "there is no arithmetic, and CONTAINS, STARTSWITH and ENDSWITH know no wildcards",
    ";": "leave it out: a filter is one expression",
}


class TokenKind(Enum):
    KEYWORD = auto()
    NAME = auto()
    NUMBER = auto()
    TEXT = auto()
    SYMBOL = auto()
    END = auto()


class SqlToken(NamedTuple):
    """One word of the expression; `text` is as written, a keyword in upper case."""

    kind: TokenKind
    text: str
    position: int  # characters before it

    def is_word(self, *words: str) -> bool:
        """Whether this is one of these keywords or symbols."""
        return self.kind in (TokenKind.KEYWORD, TokenKind.SYMBOL) and self.text in words


def tokenize(text: str) -> list[SqlToken]:
    """The tokens of `text`, at least END; Invalid when it is too long or holds foreign signs."""
    if len(text) > CHARS_MAX:
        raise Invalid(
            f"an SQL92 filter has at most {CHARS_MAX} characters, this one {len(text)}",
            field="filter",
            remedy="shorten it; IN ('a', 'b') is shorter than a chain of OR",
        )
    tokens: list[SqlToken] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise _foreign(text[position], position)
        if match.lastgroup != "BLANK":
            tokens.append(_token(str(match.lastgroup), match[0], position))
        position = match.end()
    tokens.append(SqlToken(TokenKind.END, "", len(text)))
    return tokens


def number_value(token: SqlToken) -> int | float:
    """The constant that a NUMBER token writes: an integer of 64 bits, or a decimal."""
    text = token.text
    if match := _INTEGER.fullmatch(text):
        integer = int(match[1])
        if integer > LONG_MAX:
            raise fault(token, f"an integer is at most {LONG_MAX}", "write a decimal, as in 1e19")
        return integer
    if not _DECIMAL.fullmatch(text):
        raise fault(token, "this is no number", "write it as 7, -7, 7.5 or 7.5e3")
    decimal = float(text)
    if decimal in (0.0, float("inf")):
        # RocketMQ's rule: a decimal lies between Double.MIN_VALUE and Double.MAX_VALUE.
        raise fault(token, "a decimal is 4.9e-324 to 1.8e308", "write zero as the integer 0")
    return decimal


def text_value(token: SqlToken) -> str:
    """The constant that a TEXT token writes."""
    return token.text[1:-1].replace("''", "'")


def fault(token: SqlToken, detail: str, remedy: str) -> Invalid:
    """The refusal of an expression because of what stands at `token`."""
    near = f', "{token.text[:NEAR_CHARS_MAX]}"' if token.text else ", the end"
    return Invalid(
        f"at character {token.position + 1} of the SQL92 expression{near}: {detail}",
        field="filter",
        remedy=remedy,
    )


def _token(group: str, text: str, position: int) -> SqlToken:
    if group == "NAME" and text.upper() in KEYWORDS:
        return SqlToken(TokenKind.KEYWORD, text.upper(), position)
    return SqlToken(TokenKind[group], text, position)


def _foreign(sign: str, position: int) -> Invalid:
    detail = "this text has no end" if sign == "'" else "this sign has no meaning here"
    remedy = _FOREIGN.get(sign, "names of properties have letters a to z, digits, _ and $ only")
    return fault(SqlToken(TokenKind.SYMBOL, sign, position), detail, remedy)
