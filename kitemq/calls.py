"""Operations of the REST interface over an open WebSocket: a CALL's frame, an ANSWER's document."""

from typing import Any
from urllib.parse import urlencode

import msgspec

from kitemq.errors import Invalid, ProtocolViolation, rejected
from kitemq.protocol.calls import AnswerFrame, CallFrame
from kitemq.protocol.frames import Frame

API = "/api/v1"
JSON = "application/json"
ERRORS_FROM = 400

Json = dict[str, Any]


def call_frame(
    method: str, path: str, json: object = None, params: dict[str, Any] | None = None
) -> CallFrame:
    """The CALL of `method` on `path`, which is below `/api/v1`; `json` becomes its body."""
    query = f"?{urlencode(params)}" if params else ""
    if json is None:
        return CallFrame(method, f"{API}{path}{query}")
    try:
        body = msgspec.json.encode(json)
    except (TypeError, UnicodeEncodeError, msgspec.MsgspecError) as error:
        raise Invalid(f"the body cannot be written as JSON: {error}", field="json") from None
    return CallFrame(method, f"{API}{path}{query}", JSON, body)


def document_of(answer: Frame) -> Json:
    """The document of an ANSWER, {} if it has none; raises the error of a problem document."""
    if not isinstance(answer, AnswerFrame):
        raise ProtocolViolation(f"{type(answer).__name__} is no answer to a call")
    try:
        document: Json = (
            msgspec.json.decode(answer.body, type=dict[str, Any]) if answer.body else {}
        )
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise ProtocolViolation(
            f"the answer is {answer.content_type or 'of no type'}, not a JSON document"
        ) from None
    if answer.status < ERRORS_FROM:
        return document
    faults = document.get("errors") or [{}]
    raise rejected(
        document.get("code", f"http_{answer.status}"),
        document.get("detail", "no detail is given"),
        field=faults[0].get("field", ""),
        remedy=faults[0].get("remedy", ""),
        retry_after_s=float(document.get("retry_after_s") or 0.0),
    )
