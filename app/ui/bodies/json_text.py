r"""Parses untrusted JSON into values that a page can encode, and indents it. Pure.

JSON may escape half of a surrogate pair (`"\ud800"`), which cannot be encoded as UTF-8. Such an
escape stays as the text of the escape.
"""

import json
import re
from typing import Any

# Matches every escape, so that the backslash in `\\ud800` is recognised as escaped itself.
ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|(?P<lone>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[][{},:]|[^][{},:"\s]+', re.DOTALL)
OPENING, CLOSING = frozenset("{["), frozenset("}]")
INDENT = "  "
SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def loads(data: bytes) -> Any:
    """The value of a JSON text in UTF-8; raises ValueError or RecursionError."""
    text = data.decode()
    if SURROGATE.search(text):
        text = ESCAPE.sub(_without_lone, text)
    return json.loads(text)


def indented(text: str, chars_max: int) -> str:
    """A valid JSON text with one value on a line, as far as `chars_max` reaches.

    Names, numbers and escapes stay as they were written.
    """
    parts: list[str] = []
    depth = chars = 0
    previous = ""
    for match in TOKEN.finditer(text):
        token = match[0]
        depth += (previous in OPENING) - (token in CLOSING)
        is_line = previous in OPENING or previous == "," or token in CLOSING
        is_empty = previous in OPENING and token in CLOSING
        before = "\n" + INDENT * depth if is_line and not is_empty else " " * (previous == ":")
        parts.append(before + token)
        chars += len(parts[-1])
        if chars > chars_max:
            break
        previous = token
    return "".join(parts)[:chars_max]


def _without_lone(escape: re.Match[str]) -> str:
    return f"\\{escape[0]}" if escape["lone"] else escape[0]
