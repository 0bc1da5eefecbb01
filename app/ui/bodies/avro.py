"""Avro bodies: container files carry their schema and are decoded; other framings are named. Pure.

A record outside a container file cannot be read without its writer's schema, which no message
carries: the error names the schema's fingerprint or its number in a schema registry.
"""

from typing import Any

from app.ui.bodies.trees import NotDecodable
from app.ui.framework.language import N_

MAGIC = b"Obj\x01"
SINGLE_MAGIC = b"\xc3\x01"
CONFLUENT_BYTES_MIN = 6


def decode(body: bytes) -> tuple[dict[str, Any], bool]:
    """Schema name, codec and records of a container file, and whether it was cut short.

    Raises NotDecodable with the reason, which names the framing where it is another one, and the
    package to install where `fastavro` is missing.
    """
    if not body.startswith(MAGIC):
        raise _other_framing(body)
    try:
        from app.ui.bodies import avro_container  # needs the extra `avro`
    except ImportError:
        raise NotDecodable(
            N_("fastavro is not installed: pip install kitemq-server[avro]")
        ) from None
    return avro_container.decode(body)


def _other_framing(body: bytes) -> NotDecodable:
    if body.startswith(SINGLE_MAGIC) and len(body) >= 10:
        return NotDecodable(
            N_("schema needed: single-object encoding, schema fingerprint %(fingerprint)s"),
            fingerprint=body[2:10][::-1].hex(),
        )
    if body[:1] == b"\x00" and len(body) >= CONFLUENT_BYTES_MIN:
        return NotDecodable(
            N_("schema needed if it is Avro: schema registry frame, schema %(number)s"),
            number=int.from_bytes(body[1:5], "big"),
        )
    return NotDecodable(N_('not an Avro container file: it does not begin with "Obj" and 0x01'))
