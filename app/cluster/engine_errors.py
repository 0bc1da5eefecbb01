"""What a cluster refuses or cannot do, as the errors of the engine that callers know."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from app.cluster.errors import ClusterError, ClusterRefused, ClusterUnreachable
from engine.errors import (
    Busy,
    EngineError,
    Forbidden,
    GroupNotFound,
    Invalid,
    MessageNotFound,
    Refused,
    TopicNotFound,
)
from protocol.remoting.codes import ResponseCode as R

RETRY_AFTER_S = 1.0
BUSY = frozenset(
    {R.SYSTEM_BUSY, R.SERVICE_NOT_AVAILABLE, R.FLOW_CONTROL, R.POLLING_FULL, R.POLLING_TIMEOUT}
)
WRONG = frozenset({R.MESSAGE_ILLEGAL, R.INVALID_PARAMETER, R.SUBSCRIPTION_PARSE_FAILED})
MISSING: dict[int, tuple[type[EngineError], str]] = {
    R.TOPIC_NOT_EXIST: (TopicNotFound, "topic"),
    R.SUBSCRIPTION_GROUP_NOT_EXIST: (GroupNotFound, "group"),
    R.QUERY_NOT_FOUND: (MessageNotFound, ""),
}
NAMED_FIELD = re.compile(r"([a-z_]+): ")


@contextmanager
def engine_errors(field: str = "") -> Iterator[None]:
    """Raise what goes wrong with the cluster as an EngineError; `field` is the input at fault."""
    try:
        yield
    except ClusterError as error:
        raise as_engine_error(error, field) from error


def as_engine_error(error: ClusterError, field: str = "") -> EngineError:
    """Busy where a broker is away, else what its answer says."""
    detail, remedy = error.detail, error.remedy
    if isinstance(error, ClusterUnreachable):
        return Busy(detail, remedy=remedy, retry_after_s=RETRY_AFTER_S, code=error.code)
    if isinstance(error, ClusterRefused):
        return _refusal(error, field)
    named = NAMED_FIELD.match(detail)
    if named:
        return Invalid(detail, field=field or named[1], remedy=remedy)
    return Refused(detail, field=field, remedy=remedy, code=error.code)


def _refusal(error: ClusterRefused, field: str) -> EngineError:
    detail, remedy = error.detail, error.remedy
    if error.answer in MISSING:
        kind, own_field = MISSING[error.answer]
        return kind(detail, field=field or own_field, remedy=remedy or "create it, or check it")
    if error.answer in BUSY:
        return Busy(detail, remedy=remedy, retry_after_s=RETRY_AFTER_S)
    if error.answer in WRONG:
        return Invalid(detail, field=field, remedy=remedy or "see what the broker says")
    if error.answer == R.NO_PERMISSION:
        return Forbidden(detail, field=field, remedy=remedy or "see what the broker says")
    return Refused(detail, field=field, remedy=remedy, code=error.code)
