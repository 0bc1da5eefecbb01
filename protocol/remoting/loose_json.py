"""Bodies of Apache's brokers that are nearly JSON: keys of maps are numbers or objects there."""

import re

OBJECT_KEY = re.compile(rb"(?<=[{,])\{[^{}]*\}(?=:)")
NUMBER_KEY = re.compile(rb"(?<=[{,])-?\d+(?=:)")


def standard_json(body: bytes) -> bytes:
    """The same as JSON; a key that was an object becomes the text of it.

    Only names stand in these bodies, which hold no brace, comma or quotation mark.
    """
    body = OBJECT_KEY.sub(lambda key: b'"' + key.group().replace(b'"', b'\\"') + b'"', body)
    return NUMBER_KEY.sub(lambda key: b'"' + key.group() + b'"', body)
