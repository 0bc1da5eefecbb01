"""What went wrong, as HTTP: the only table from errors to statuses, and the one problem body.

Every error answer is `application/problem+json` (RFC 9457) with a `code` that never changes, and
for bad input the fields at fault with what to do about each.
"""

import logging
from http import HTTPStatus
from math import ceil

import msgspec
from starlette.exceptions import HTTPException

from engine.errors import (
    PASSING_ERRORS,
    Busy,
    Corrupt,
    EngineError,
    Forbidden,
    Invalid,
    NotFound,
    OffsetGone,
    OutOfFiles,
    Refused,
)

log = logging.getLogger("kitemq.api")

PROBLEM_TYPE = b"application/problem+json"
INTERNAL = "internal_error"
TIMEOUT = "timeout"

STATUS: dict[type[EngineError], int] = {
    Invalid: 422,
    NotFound: 404,
    OffsetGone: 410,
    Refused: 409,
    Forbidden: 403,
    Busy: 503,
    Corrupt: 500,
    EngineError: 500,
}
# Codes of statuses that the router and the framework answer by themselves.
CODES = {400: "bad_request", 404: "no_such_page", 405: "method_not_allowed"}

Headers = list[tuple[bytes, bytes]]
REFUSED = "kitemq.refused"  # where a scope keeps the error that its request ended in
AUDITED = "is_audited"  # an error's attribute: what it refused stands in the trail already


class FieldError(msgspec.Struct, frozen=True):
    """One input at fault: its path such as `messages[3].tag`, what is wrong, what to do."""

    field: str
    detail: str
    remedy: str = ""


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """RFC 9457 problem details with KiteMQ's `code` and the fields at fault."""

    title: str
    status: int
    detail: str
    code: str
    type: str = "about:blank"
    errors: tuple[FieldError, ...] = ()
    retry_after_s: float | None = None
    correlation_id: str = ""


class ReplyTimeout(HTTPException):
    """A request whose reply did not come in time; the problem names it."""

    def __init__(self, correlation_id: str, timeout_ms: int, reason: str = "") -> None:
        super().__init__(
            HTTPStatus.GATEWAY_TIMEOUT,
            f"no reply to {correlation_id} within {timeout_ms} ms" + (reason and f": {reason}"),
        )
        self.correlation_id = correlation_id


class ProblemError(HTTPException):
    """An error that an endpoint raises itself, with its status and code.

    It is Starlette's HTTPException, so that every layer between lets it pass.
    """

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        field: str = "",
        remedy: str = "",
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(status, detail)
        self.code = code
        self.field = field
        self.remedy = remedy
        self.retry_after_s = retry_after_s


def status_of(error: EngineError) -> int:
    """The HTTP status of an engine error: that of its nearest class in `STATUS`."""
    return next(STATUS[base] for base in type(error).__mro__ if base in STATUS)


def problem_of(error: Exception) -> Problem:
    """The body that tells a client about `error`; what is unexpected tells no details."""
    error = _map_os_error(error)
    if isinstance(error, (EngineError, ProblemError)):
        status = error.status_code if isinstance(error, ProblemError) else status_of(error)
        wait_s = getattr(error, "retry_after_s", None)  # of Busy and some problems
        return _problem(status, error.code, error.detail, error.field, error.remedy, wait_s)
    if isinstance(error, ReplyTimeout):
        remedy = f"a late reply is kept: GET /api/v1/replies/{error.correlation_id}"
        problem = _problem(error.status_code, TIMEOUT, error.detail, "timeout_ms", remedy)
        return msgspec.structs.replace(problem, correlation_id=error.correlation_id)
    if isinstance(error, HTTPException):
        code = CODES.get(error.status_code, "http_error")
        return _problem(error.status_code, code, error.detail)
    return _problem(500, INTERNAL, "the server failed; its log says why")


def _map_os_error(error: Exception) -> Exception:
    """What passes by itself, also where the file was not one of the engine's."""
    if isinstance(error, EngineError) or not isinstance(error, OSError):
        return error
    return OutOfFiles(error) if error.errno in PASSING_ERRORS else error


def _problem(
    status: int,
    code: str,
    detail: str,
    field: str = "",
    remedy: str = "",
    retry_after_s: float | None = None,
) -> Problem:
    errors = (FieldError(field, detail, remedy),) if field or remedy else ()
    return Problem(
        HTTPStatus(status).phrase, status, detail, code, errors=errors, retry_after_s=retry_after_s
    )


def answer_headers(media_type: bytes, body: bytes) -> Headers:
    """Headers of an answer that must not be cached."""
    return [
        (b"content-type", media_type),
        (b"content-length", b"%d" % len(body)),
        (b"cache-control", b"no-store"),
    ]


def problem_answer(error: Exception) -> tuple[int, Headers, bytes]:
    """Status, headers and body of the answer to `error`; logs what was not expected."""
    problem = problem_of(error)
    if problem.status >= 500 and problem.retry_after_s is None and problem.code != TIMEOUT:
        log.error("request failed: %s", problem.code, exc_info=error)
    body = msgspec.json.encode(problem)
    headers = answer_headers(PROBLEM_TYPE, body)
    if problem.retry_after_s is not None:
        headers.append((b"retry-after", b"%d" % max(1, ceil(problem.retry_after_s))))
    if isinstance(error, HTTPException) and error.headers:
        headers += [(k.lower().encode(), v.encode()) for k, v in error.headers.items()]
    return problem.status, headers, body
