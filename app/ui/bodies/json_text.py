r"""JSON that strangers wrote, as values that a page can show. Pure.

JSON may escape half of a surrogate pair (`"\ud800"`), which is no character: no page and no answer
can be encoded with it. Such an escape is kept as the text that was written.
"""

import json
import re
from typing import Any

# Every escape in turn, so that the backslash of `\\ud800` is known as one that is escaped itself.
ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|(?P<lone>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def loads(data: bytes) -> Any:
    """The value of a JSON text in UTF-8; ValueError or RecursionError where it is none."""
    text = data.decode()
    if SURROGATE.search(text):
        text = ESCAPE.sub(_without_lone, text)
    return json.loads(text)


def _without_lone(escape: re.Match[str]) -> str:
    return f"\\{escape[0]}" if escape["lone"] else escape[0]
