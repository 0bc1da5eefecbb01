"""Bodies of Apache's brokers that are nearly JSON: keys of maps are numbers or objects there."""

import re

OBJECT_KEY = re.compile(rb"(?<=[{,])\{[^{}]*\}(?=:)")
NUMBER_KEY = re.compile(rb"(?<=[{,])-?\d+(?=:)")
# A text without an end goes to the end of the body, which is not looked through again and again.
TEXT_OR_BRACE = re.compile(rb'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|[{}]', re.DOTALL)


def standard_json(body: bytes) -> bytes:
    """The same as JSON; a key that was an object becomes the text of it.

    Only names stand in these bodies, which hold no brace, comma or quotation mark.
    """
    body = OBJECT_KEY.sub(lambda key: b'"' + key.group().replace(b'"', b'\\"') + b'"', body)
    return NUMBER_KEY.sub(lambda key: b'"' + key.group() + b'"', body)


def raw_member(body: bytes, name: str) -> bytes:
    """The object that a member of such a body is, as it stands there; `{}` if there is none."""
    _, mark, rest = body.partition(b'"' + name.encode() + b'":')
    begin, depth = rest.find(b"{"), 0
    if not mark or begin < 0 or rest[:begin].strip():
        return b"{}"
    for token in TEXT_OR_BRACE.finditer(rest, begin):
        depth += {b"{": 1, b"}": -1}.get(token.group(), 0)
        if not depth:
            return rest[begin : token.end()]
    return b"{}"
