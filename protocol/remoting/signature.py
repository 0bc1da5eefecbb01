"""The signature of requests by an access key and its secret.

It is the HMAC-SHA1 over the values of all other fields in order of their names, then the body. It
protects the content, but not against replay, which needs TLS.
"""

import base64
import hashlib
import hmac

from protocol.remoting.frames import Command

ACCESS_KEY = "AccessKey"
SIGNATURE = "Signature"
UNSIGNED = frozenset({SIGNATURE})
# Up to this version clients add a field after they have signed.
ADDS_LATER_MAX = 399  # 4.9.3
UNSIGNED_AT_FIRST = UNSIGNED | {"_UNIQUE_KEY_QUERY"}


def sign(command: Command, secret_key: str) -> str:
    """The signature of a request, in base64."""
    fields = command.fields
    unsigned = UNSIGNED_AT_FIRST if command.version <= ADDS_LATER_MAX else UNSIGNED
    text = "".join(fields[name] for name in sorted(fields) if name not in unsigned)
    content = text.encode() + command.body
    digest = hmac.new(secret_key.encode(), content, hashlib.sha1).digest()
    return base64.b64encode(digest).decode()
