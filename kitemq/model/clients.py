"""Single clients: queries to them, and ending their connections."""

from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

from kitemq.model.members import ClientId
from kitemq.model.values import Int64


class StackAnswer(StrEnum):
    """The result of a query to a client."""

    ANSWERED = "answered"
    NO_ANSWER = "no_answer"  # within the time limit


class ProcessingVerdict(StrEnum):
    """A client's result of processing a message on request."""

    CONSUMED = "consumed"
    FAILED = "failed"
    NOT_OFFERED = "not_offered"  # it answered that its library has no such thing
    NO_ANSWER = "no_answer"


class NamedClient(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A client by its name: that of its heartbeats, its HELLO or its `x-mq-client-id`."""

    client: ClientId


class ToVerify(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The stored message that a client of the group is to process."""

    client: ClientId
    topic: str
    queue: Annotated[int, Meta(ge=0, le=65535)]
    offset: Annotated[str, Meta(pattern="^[0-9]{1,18}$")]


class ThreadStack(msgspec.Struct, frozen=True):
    """What a client's threads do, in its own words: at most 256 KiB of them (`is_cut`).

    `no_answer`: nothing came within 5 s, and `detail` says what that can mean.
    """

    client: str
    answer: StackAnswer
    text: str
    is_cut: bool
    took_ms: int
    detail: str


class Processing(msgspec.Struct, frozen=True):
    """What a client made of the message.

    `not_offered`: it answered that its library has no such thing. `no_answer`: nothing came
    within 5 s; it may have processed the message all the same. `code` is RocketMQ's.
    """

    client: str
    group: str
    topic: str
    queue: int
    offset: Int64
    message_id: str
    verdict: ProcessingVerdict
    code: str
    detail: str
    took_ms: int


class SentAway(msgspec.Struct, frozen=True):
    """The ended connections; `returned` messages come back within a second as failed attempts.

    `kept` are those that were settled meanwhile, or stay until their time is up.
    """

    client: str
    connections: int
    groups: list[str]
    returned: int
    kept: int
