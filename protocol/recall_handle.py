"""Handles by which producers recall messages that wait for their time; the same over gRPC and TCP.

The text is base64 (for URLs) of version, topic, broker name, time and message id, between spaces.
"""

import base64
import binascii

VERSION = "v1"
PARTS = 5


def encode_handle(topic: str, broker: str, deliver_at_ms: int, message_id: str) -> str:
    """The handle of a message that is due at `deliver_at_ms`."""
    text = " ".join((VERSION, topic, broker, str(deliver_at_ms), message_id))
    return base64.urlsafe_b64encode(text.encode()).decode()


def recalled_id(handle: str, topic: str) -> str:
    """The message id of a handle; "" where it is none, or of another topic."""
    try:
        parts = base64.urlsafe_b64decode(handle.encode()).decode().split(" ")
    except (binascii.Error, UnicodeError):
        return ""
    if len(parts) != PARTS or parts[0] != VERSION or parts[1] != topic:
        return ""
    return parts[-1]
