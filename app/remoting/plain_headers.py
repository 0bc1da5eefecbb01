"""Reads the headers of sends that look plain: those that nearly all producers write.

Only the fields that count are read, and only where they are as expected; any other header gives
None, and its request is handled as all requests are. What a header alone does not tell, the
properties do: see `engine.plain_columns`.
"""

from functools import lru_cache

import msgspec

from protocol.remoting.codes import RequestCode
from protocol.remoting.frames import FIELDS_MAX, INT_MAX, JSON, ONE_WAY, RESPONSE, Int32, RawFrame

HEADER_BYTES_MAX = FIELDS_MAX * 6  # which leaves no room for more fields than there may be
BODY_BYTES_MAX = 64 * 1024  # of a single message: a longer one gains nothing
DIGITS_MAX = 18  # always within 64 bits
CODE, CODE_DIGITS_MAX = b'{"code":', 3
NO_FLAG = frozenset({"", "0"})
SINGLE = frozenset({"", "false"})


class PlainSend(msgspec.Struct, frozen=True, gc=False):
    """A single message or a batch; `opaque` is None where no answer is expected."""

    code: int
    opaque: int | None
    topic: str
    queue: int
    born_ms: int
    flag: int
    properties: bytes
    is_batch: bool


class SendFields(msgspec.Struct, gc=False):
    """The fields of a SEND_MESSAGE that count."""

    topic: str
    queueId: str
    sysFlag: str = ""
    bornTimestamp: str = ""
    flag: str = ""
    properties: str = ""
    batch: str = ""


class ShortSendFields(SendFields, gc=False):
    """The same of a SEND_MESSAGE_V2 or SEND_BATCH_MESSAGE."""

    topic: str = msgspec.field(name="b")
    queueId: str = msgspec.field(name="e")
    sysFlag: str = msgspec.field(name="f", default="")
    bornTimestamp: str = msgspec.field(name="g", default="")
    flag: str = msgspec.field(name="h", default="")
    properties: str = msgspec.field(name="i", default="")
    batch: str = msgspec.field(name="m", default="")


class SendHeader(msgspec.Struct, gc=False):
    """The header of a SEND_MESSAGE, read as strictly as any."""

    code: Int32
    extFields: SendFields
    opaque: Int32 = 0
    flag: Int32 = 0
    language: str = "OTHER"
    version: Int32 = 0
    remark: str | None = None


class ShortSendHeader(SendHeader, gc=False):
    """The same with short names."""

    code: Int32
    extFields: ShortSendFields


_SHORT = msgspec.json.Decoder(ShortSendHeader)
_DECODERS: dict[int, msgspec.json.Decoder[SendHeader] | msgspec.json.Decoder[ShortSendHeader]] = {
    int(RequestCode.SEND_MESSAGE): msgspec.json.Decoder(SendHeader),
    int(RequestCode.SEND_MESSAGE_V2): _SHORT,
    int(RequestCode.SEND_BATCH_MESSAGE): _SHORT,
}
# As they stand in a header without blanks that begins with the code, as nearly all do.
_CODES = {(b'%d,"' % code)[: CODE_DIGITS_MAX + 1]: code for code in _DECODERS}
BATCH_CODE = int(RequestCode.SEND_BATCH_MESSAGE)


def plain_send(frame: RawFrame, *, takes_single: bool) -> PlainSend | None:
    """The send that this frame is; None for one to be looked at more closely, or another request.

    Also for a single message without `takes_single`.
    """
    header, at = frame.header, len(CODE)
    code = _CODES.get(header[at : at + CODE_DIGITS_MAX + 1])
    if code is None or frame.kind != JSON or len(header) > HEADER_BYTES_MAX:
        return None
    is_batch = code == BATCH_CODE
    if not is_batch and (not takes_single or len(frame.body) > BODY_BYTES_MAX):
        return None
    try:
        send = _DECODERS[code].decode(header)
        fields = send.extFields
        properties = fields.properties.encode()
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    if send.code != code or send.flag & RESPONSE or fields.sysFlag not in NO_FLAG:
        return None
    if not fields.queueId or fields.topic[:1] == "%" or not (is_batch or fields.batch in SINGLE):
        return None
    queue, born_ms = _number(fields.queueId), _number(fields.bornTimestamp)
    flag = 0 if is_batch else _number(fields.flag)
    if not (0 <= queue <= INT_MAX and 0 <= flag <= INT_MAX) or born_ms < 0:
        return None
    opaque = None if send.flag & ONE_WAY else send.opaque
    return PlainSend(
        *(code, opaque, fields.topic, queue, born_ms, flag),
        properties=properties,
        is_batch=is_batch,
    )


@lru_cache(maxsize=1024)
def _number(text: str) -> int:
    """The number, 0 where there is none, and -1 for any other text."""
    if len(text) <= DIGITS_MAX and text.isdigit() and text.isascii():
        return int(text)
    return -1 if text else 0
