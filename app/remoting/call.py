"""One request: its principal, connection and fields."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from app.db.rows import Actor, actor_at
from app.remoting.errors import ErrorResponse, RemotingRefusal
from app.security.access import Action, Kind, Principal, require
from kitemq.model.numbers import is_whole
from protocol.remoting.codes import RequestCode, ResponseCode
from protocol.remoting.frames import Command

if TYPE_CHECKING:
    from app.remoting.connection import RemotingConnection

NUMBER_CHARS_MAX = 20
# The short names of SEND_MESSAGE_V2 and its like.
SHORT_NAMES = {
    "a": "producerGroup",
    "b": "topic",
    "c": "defaultTopic",
    "d": "defaultTopicQueueNums",
    "e": "queueId",
    "f": "sysFlag",
    "g": "bornTimestamp",
    "h": "flag",
    "i": "properties",
    "j": "reconsumeTimes",
    "k": "unitMode",
    "l": "maxReconsumeTimes",
    "m": "batch",
    "n": "brokerName",
}
SHORT_CODES = frozenset(
    {RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2}
)
PLAIN_DIGITS_MAX = 18  # always within 64 bits
TRUE = frozenset({"true", "1"})
T = TypeVar("T")


class RemotingCall:
    """A request as its handler sees it."""

    __slots__ = (
        "command", "connection", "counted", "fields", "give_back", "principal",
    )  # fmt: skip

    def __init__(
        self, connection: "RemotingConnection", command: Command, principal: Principal
    ) -> None:
        self.connection = connection
        self.command = command
        self.fields = command.fields
        self.principal = principal
        self.give_back: Callable[[], None] | None = None  # its bytes, with the answer
        self.counted = ""  # the address under which the request is counted

    def answer(self, answer: ErrorResponse) -> None:
        """Answer, after a handler that returned None."""
        self.connection.answer(self, answer)

    @property
    def body(self) -> bytes:
        return self.command.body

    @property
    def actor(self) -> Actor:
        """The sender's name for the audit trail."""
        return actor_at(self.principal.audit_name(self.connection.client))

    def use_long_names(self) -> None:
        """Let fields have the names of SEND_MESSAGE, whichever the request used."""
        if self.command.code in SHORT_CODES:
            self.fields = {SHORT_NAMES.get(name, name): each for name, each in self.fields.items()}

    def text(self, name: str, default: str | None = None) -> str:
        """A field; raises RemotingRefusal if it is missing without a default."""
        value = self.fields.get(name)
        if value is not None:
            return value
        if default is None:
            raise RemotingRefusal(ResponseCode.INVALID_PARAMETER, f"the field {name!r} is missing")
        return default

    def number(self, name: str, default: int | None = None) -> int:
        """A field as a 64-bit number; raises RemotingRefusal if invalid or missing."""
        value = self.fields.get(name, "")
        if len(value) <= PLAIN_DIGITS_MAX and value.isdigit() and value.isascii():
            return int(value)
        if not value and default is not None:
            return default
        digits = value.removeprefix("-")
        if not is_whole(digits, NUMBER_CHARS_MAX - 1):
            raise RemotingRefusal(
                ResponseCode.INVALID_PARAMETER, f"the field {name!r} is {value[:80]!r}, no number"
            )
        number = int(value)
        if not -(1 << 63) <= number < 1 << 63:
            raise RemotingRefusal(ResponseCode.INVALID_PARAMETER, f"the field {name!r} is {number}")
        return number

    def is_true(self, name: str) -> bool:
        return self.fields.get(name, "").lower() in TRUE

    def document(self, kind: type[T]) -> T:
        """The body as JSON of this type; raises RemotingRefusal if it is none."""
        try:
            return msgspec.json.decode(self.command.body, type=kind, strict=False)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise RemotingRefusal(
                ResponseCode.INVALID_PARAMETER, f"the body cannot be read: {str(error)[:200]}"
            ) from None

    def topic(self, action: Action, name: str = "topic") -> str:
        """The topic in a field, after a check of the sender's right."""
        topic = self.text(name)
        self.require(action, Kind.TOPIC, topic)
        return topic

    def group(self, action: Action, name: str = "consumerGroup") -> str:
        """The consumer group in a field, after a check of the sender's right."""
        group = self.text(name)
        self.require(action, Kind.GROUP, group)
        return group

    def require(self, action: Action, kind: Kind, name: str = "") -> None:
        """Raise RightMissing or ServerReadOnly unless the sender has this right."""
        if self.principal.is_open and not self.principal.is_read_only:
            return
        require(self.principal, action, kind, name)


def json_body(value: Any) -> bytes:
    """A body of an answer."""
    return msgspec.json.encode(value)
