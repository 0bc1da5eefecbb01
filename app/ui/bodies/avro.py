"""Avro bodies: container files carry their schema and are decoded; other framings are named. Pure.

A record outside a container file cannot be read without its writer's schema, which no message
carries: the error names the schema's fingerprint or its number in a schema registry.
"""

from typing import Any

from app.ui.framework.language import _

MAGIC = b"Obj\x01"
SINGLE_MAGIC = b"\xc3\x01"
CONFLUENT_BYTES_MIN = 6


class NotAvro(Exception):
    """The bytes cannot be read as Avro; the text says why."""


def decode(body: bytes) -> tuple[dict[str, Any], bool]:
    """Schema name, codec and records of a container file, and whether it was cut short.

    Raises NotAvro with the reason, which names the framing where it is another one, and the
    package to install where `fastavro` is missing.
    """
    if not body.startswith(MAGIC):
        raise NotAvro(_other_framing(body))
    try:
        from app.ui.bodies import avro_container  # needs the extra `avro`
    except ImportError:
        raise NotAvro(_("fastavro is not installed: pip install kitemq-server[avro]")) from None
    return avro_container.decode(body)


def _other_framing(body: bytes) -> str:
    if body.startswith(SINGLE_MAGIC) and len(body) >= 10:
        fingerprint = body[2:10][::-1].hex()
        return _(
            "schema needed: single-object encoding, schema fingerprint %(fingerprint)s",
            fingerprint=fingerprint,
        )
    if body[:1] == b"\x00" and len(body) >= CONFLUENT_BYTES_MIN:
        number = int.from_bytes(body[1:5], "big")
        return _(
            "schema needed if it is Avro: schema registry frame, schema %(number)s",
            number=number,
        )
    return _('not an Avro container file: it does not begin with "Obj" and 0x01')
