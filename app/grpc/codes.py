"""Maps errors to RocketMQ's status codes; the only such table.

An answer is gRPC's OK with a status inside, whose code tells clients whether to retry.
"""

import logging
from typing import Any

from app.errors import ProblemError
from engine.errors import (
    Busy,
    Conflict,
    Corrupt,
    DiskFull,
    EngineError,
    Forbidden,
    GroupNotFound,
    Illegal,
    Invalid,
    MessageNotFound,
    NotFound,
    OffsetGone,
    OnStandby,
    OutOfFiles,
    Paused,
    QueueNotFound,
    Refused,
    Stopping,
    TopicNotFound,
)
from protocol.rocketmq.messages import Status
from protocol.rocketmq.numbers import Code

log = logging.getLogger("kitemq.grpc")

CODES: dict[type[EngineError], Code] = {
    EngineError: Code.INTERNAL_SERVER_ERROR,
    Invalid: Code.BAD_REQUEST,
    NotFound: Code.NOT_FOUND,
    TopicNotFound: Code.TOPIC_NOT_FOUND,
    GroupNotFound: Code.CONSUMER_GROUP_NOT_FOUND,
    QueueNotFound: Code.NOT_FOUND,
    MessageNotFound: Code.MESSAGE_NOT_FOUND,
    OffsetGone: Code.ILLEGAL_OFFSET,
    Refused: Code.PRECONDITION_FAILED,
    Forbidden: Code.FORBIDDEN,
    Paused: Code.FORBIDDEN,
    Conflict: Code.PRECONDITION_FAILED,
    OnStandby: Code.PRECONDITION_FAILED,
    # Clients slow down at this one, and at no other.
    Busy: Code.TOO_MANY_REQUESTS,
    OutOfFiles: Code.TOO_MANY_REQUESTS,
    DiskFull: Code.INTERNAL_SERVER_ERROR,
    Stopping: Code.INTERNAL_SERVER_ERROR,
    Corrupt: Code.INTERNAL_SERVER_ERROR,
    Illegal: Code.INTERNAL_SERVER_ERROR,
}
# By our error code, where it is more specific than the class ...
OF_CODE = {
    "reserved_property": Code.ILLEGAL_MESSAGE_PROPERTY_KEY,
    "wrong_message_type": Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE,
    "transaction_not_found": Code.INVALID_TRANSACTION_ID,
    "invalid_delay": Code.ILLEGAL_DELIVERY_TIME,
}
# ... and by the invalid field.
OF_FIELD = {
    "topic": Code.ILLEGAL_TOPIC,
    "group": Code.ILLEGAL_CONSUMER_GROUP,
    "tag": Code.ILLEGAL_MESSAGE_TAG,
    "keys": Code.ILLEGAL_MESSAGE_KEY,
    "message_group": Code.ILLEGAL_MESSAGE_GROUP,
    "properties": Code.ILLEGAL_MESSAGE_PROPERTY_KEY,
    "message_id": Code.ILLEGAL_MESSAGE_ID,
    "filter": Code.ILLEGAL_FILTER_EXPRESSION,
    "invisible_s": Code.ILLEGAL_INVISIBLE_TIME,
    "deliver_at_ms": Code.ILLEGAL_DELIVERY_TIME,
    "offset": Code.ILLEGAL_OFFSET,
    "body": Code.MESSAGE_BODY_TOO_LARGE,
    "messages": Code.PAYLOAD_TOO_LARGE,  # all bodies together
}
OF_STATUS = {
    401: Code.UNAUTHORIZED,
    403: Code.FORBIDDEN,
    413: Code.PAYLOAD_TOO_LARGE,
    429: Code.TOO_MANY_REQUESTS,
    503: Code.TOO_MANY_REQUESTS,
}


class GrpcRefusal(Exception):
    """A refusal by the gRPC endpoint itself, before the engine is called."""

    def __init__(self, code: Code, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


def ok() -> Any:
    """The status of success."""
    return Status(code=Code.OK, message="OK")


def status(code: Code, text: str) -> Any:
    return Status(code=code, message=text)


def code_of(error: EngineError) -> Code:
    """The code of an engine error: by its code, its field or its class."""
    code = OF_CODE.get(error.code)
    if code is None and isinstance(error, Invalid):
        code = OF_FIELD.get(_field(error.field))
    if code is not None:
        return code
    return next(CODES[base] for base in type(error).__mro__ if base in CODES)


def status_of(error: Exception) -> Any:
    """The status for `error`; unexpected errors are logged and not described to the client."""
    if isinstance(error, GrpcRefusal):
        return status(error.code, error.text)
    if isinstance(error, EngineError):
        code = code_of(error)
        if code is Code.INTERNAL_SERVER_ERROR and not isinstance(error, Busy):
            log.error("a call failed: %s", error.code, exc_info=error)
        return status(code, _text(error.detail, error.remedy))
    if isinstance(error, ProblemError):
        code = OF_STATUS.get(error.status_code, Code.BAD_REQUEST)
        return status(code, _text(error.detail, error.remedy))
    log.error("a call failed", exc_info=error)
    return status(Code.INTERNAL_SERVER_ERROR, "the server failed; its log says why")


def _text(detail: str, remedy: str) -> str:
    return f"{detail}; {remedy}" if remedy else detail


def _field(path: str) -> str:
    """The field's own name: "tag" of "messages[3].tag", "properties" of "properties.x"."""
    name = path.partition("].")[2] or path
    return name.partition(".")[0]
