"""What can go wrong in the SDK, as one tree. The branch says what the caller should do.

KiteError
├── Rejected           the server said no; `code` is its own and never changes
│   ├── Invalid        a value is wrong: mend `field`, `remedy` says how
│   ├── NotFound       the name is wrong
│   ├── Refused        a rule said no: do not retry as is
│   └── Busy           try again after `retry_after_s` (the SDK does, up to its time limit)
├── Unreachable        no server there, or the connection was lost for longer than allowed
│   └── TimedOut       it was sent, but no answer came in time: it may have been done
│       └── NoReply    a request without its reply; a late one is found by `correlation_id`
├── BufferFull         more is waiting to be sent than the producer may hold
├── Stopped            the producer or consumer is stopped
└── ProtocolViolation  the other side does not speak this protocol
"""


class KiteError(Exception):
    """The root; `field` names the input at fault, `remedy` says what to do about it."""

    code = "kite_error"

    def __init__(self, detail: str, *, code: str = "", field: str = "", remedy: str = "") -> None:
        super().__init__(detail)
        self.detail = detail
        self.field = field
        self.remedy = remedy
        if code:
            self.code = code

    def __str__(self) -> str:
        where = f"{self.field}: " if self.field else ""
        advice = f" ({self.remedy})" if self.remedy else ""
        return f"{where}{self.detail}{advice}"


class Rejected(KiteError):
    code = "rejected"


class Invalid(Rejected):
    code = "invalid"


class NotFound(Rejected):
    code = "not_found"


class Refused(Rejected):
    code = "refused"


class Busy(Rejected):
    code = "busy"

    def __init__(
        self,
        detail: str,
        *,
        code: str = "",
        field: str = "",
        remedy: str = "",
        retry_after_s: float = 1.0,
    ) -> None:
        super().__init__(detail, code=code, field=field, remedy=remedy)
        self.retry_after_s = retry_after_s


class Unreachable(KiteError):
    code = "unreachable"


class TimedOut(Unreachable):
    code = "timed_out"


class NoReply(TimedOut):
    code = "timeout"

    def __init__(self, detail: str, correlation_id: str) -> None:
        remedy = f"a late reply is kept: client.messages.find_reply({correlation_id!r})"
        super().__init__(detail, remedy=remedy)
        self.correlation_id = correlation_id


class BufferFull(KiteError):
    code = "buffer_full"


class Stopped(KiteError):
    code = "stopped"


class ProtocolViolation(KiteError):
    code = "protocol_violation"


UNWRITABLE = "unwritable"  # found here: a value fits into no frame, so nothing was sent

NOT_FOUND_CODES = frozenset(
    {
        "not_found",
        "topic_not_found",
        "group_not_found",
        "queue_not_found",
        "message_not_found",
        "offset_gone",
        "transaction_not_found",
        "replay_not_found",
        "no_dead_letters",
        "dead_letter_not_found",
        "dismissal_not_found",
    }
)
REFUSED_CODES = frozenset(
    {
        "ambiguous_transaction",
        "client_name_taken",
        "conflict",
        "forbidden",
        "last_admin",
        "login_failed",
        "login_needed",
        "offsets_moved",
        "read_only",
        "refused",
        "reset_incomplete",
        "right_missing",
        "standby",
        "transaction_committed",
        "transaction_rolled_back",
        "wrong_message_type",
    }
)
FAILED_CODES = frozenset({"corrupt", "engine_error", "internal_error"})


def rejected(
    code: str, detail: str, *, field: str = "", remedy: str = "", retry_after_s: float = 0.0
) -> Rejected:
    """The error that says what a server's refusal asks of the caller."""
    if retry_after_s > 0:
        return Busy(detail, code=code, field=field, remedy=remedy, retry_after_s=retry_after_s)
    kind: type[Rejected] = Invalid
    if code in NOT_FOUND_CODES:
        kind = NotFound
    elif code in REFUSED_CODES:
        kind = Refused
    elif code in FAILED_CODES:
        kind = Rejected
    return kind(detail, code=code, field=field, remedy=remedy)
