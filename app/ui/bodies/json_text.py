r"""Parses untrusted JSON into values that a page can encode. Pure.

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
SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def loads(data: bytes) -> Any:
    """The value of a JSON text in UTF-8; raises ValueError or RecursionError."""
    text = data.decode()
    if SURROGATE.search(text):
        text = ESCAPE.sub(_without_lone, text)
    return json.loads(text)


def _without_lone(escape: re.Match[str]) -> str:
    return f"\\{escape[0]}" if escape["lone"] else escape[0]
