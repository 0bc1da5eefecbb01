"""Maps errors to RocketMQ's response codes; the only such table."""

import logging

import msgspec

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
from protocol.remoting.codes import ResponseCode

log = logging.getLogger("kitemq.remoting")

REMARK_CHARS_MAX = 2000
# Apache's text, which alerts on clients' logs look for. Producers of 5.x try again at once, those
# of 4.x tell their caller; a consumer pulls again after 3 s.
FLOW_CONTROL = "[OVERLOAD]system busy, start flow control for a while: "
CODES: dict[type[EngineError], ResponseCode] = {
    EngineError: ResponseCode.SYSTEM_ERROR,
    Invalid: ResponseCode.INVALID_PARAMETER,
    NotFound: ResponseCode.QUERY_NOT_FOUND,
    TopicNotFound: ResponseCode.TOPIC_NOT_EXIST,
    GroupNotFound: ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
    QueueNotFound: ResponseCode.INVALID_PARAMETER,
    MessageNotFound: ResponseCode.QUERY_NOT_FOUND,
    OffsetGone: ResponseCode.PULL_OFFSET_MOVED,
    Refused: ResponseCode.ILLEGAL_OPERATION,
    Forbidden: ResponseCode.NO_PERMISSION,
    Paused: ResponseCode.NO_PERMISSION,
    Conflict: ResponseCode.ILLEGAL_OPERATION,
    OnStandby: ResponseCode.SERVICE_NOT_AVAILABLE,  # a producer tries another broker, or again
    Busy: ResponseCode.SYSTEM_BUSY,
    OutOfFiles: ResponseCode.SYSTEM_BUSY,
    DiskFull: ResponseCode.SERVICE_NOT_AVAILABLE,
    Stopping: ResponseCode.SERVICE_NOT_AVAILABLE,
    Corrupt: ResponseCode.SYSTEM_ERROR,
    Illegal: ResponseCode.SYSTEM_ERROR,
}
OF_FIELD = {
    "body": ResponseCode.MESSAGE_ILLEGAL,
    "messages": ResponseCode.MESSAGE_ILLEGAL,
    "tag": ResponseCode.MESSAGE_ILLEGAL,
    "keys": ResponseCode.MESSAGE_ILLEGAL,
    "properties": ResponseCode.MESSAGE_ILLEGAL,
    "message_id": ResponseCode.MESSAGE_ILLEGAL,
    "message_group": ResponseCode.MESSAGE_ILLEGAL,
    "deliver_at_ms": ResponseCode.MESSAGE_ILLEGAL,
    "filter": ResponseCode.SUBSCRIPTION_PARSE_FAILED,
}
OF_STATUS = {
    401: ResponseCode.NO_PERMISSION,
    403: ResponseCode.NO_PERMISSION,
    413: ResponseCode.MESSAGE_ILLEGAL,
    429: ResponseCode.SYSTEM_BUSY,
    503: ResponseCode.SYSTEM_BUSY,
}


class ErrorResponse(msgspec.Struct, frozen=True, gc=False):
    """The answer to a request: fields and body, or an error code with a remark."""

    code: ResponseCode = ResponseCode.SUCCESS
    fields: dict[str, str] = {}
    body: bytes = b""
    remark: str = ""


OK = ErrorResponse()


class RemotingRefusal(Exception):
    """A refusal by the remoting endpoint itself, before the engine is called."""

    def __init__(self, code: ResponseCode, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


def code_of(error: EngineError) -> ResponseCode:
    """The code of an engine error: by its field for invalid input, else by its class."""
    if isinstance(error, Invalid):
        name = error.field.partition("].")[2] or error.field
        if code := OF_FIELD.get(name.partition(".")[0]):
            return code
    return next(CODES[base] for base in type(error).__mro__ if base in CODES)


def answer_of(error: Exception) -> ErrorResponse:
    """The answer for `error`; unexpected errors are logged and not described to the client."""
    if isinstance(error, RemotingRefusal):
        return ErrorResponse(error.code, remark=error.text[:REMARK_CHARS_MAX])
    if isinstance(error, EngineError):
        code = code_of(error)
        if code is ResponseCode.SYSTEM_ERROR:
            log.error("a request failed: %s", error.code, exc_info=error)
        is_full = code is ResponseCode.SYSTEM_BUSY and not error.field
        return ErrorResponse(code, remark=_text(error.detail, error.remedy, is_full=is_full))
    if isinstance(error, ProblemError):
        code = OF_STATUS.get(error.status_code, ResponseCode.INVALID_PARAMETER)
        is_full = code is ResponseCode.SYSTEM_BUSY
        return ErrorResponse(code, remark=_text(error.detail, error.remedy, is_full=is_full))
    log.error("a request failed", exc_info=error)
    return ErrorResponse(ResponseCode.SYSTEM_ERROR, remark="the server failed; its log says why")


def _text(detail: str, remedy: str, *, is_full: bool) -> str:
    text = f"{detail}; {remedy}" if remedy else detail
    return f"{FLOW_CONTROL if is_full else ''}{text}"[:REMARK_CHARS_MAX]
