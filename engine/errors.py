"""What can go wrong, as one tree. The branch says what the caller should do.

    EngineError
    ├── Invalid         a value is wrong: mend the named field          (invalid_…)
    ├── NotFound        the name is wrong: tell the user
    │   ├── TopicNotFound, GroupNotFound, QueueNotFound, MessageNotFound
    │   └── OffsetGone  retention took it; `oldest` is still kept
    ├── Refused         a rule said no: do not retry as is
    │   ├── Forbidden   permission or a system name; Paused: a group that is switched off
    │   └── Conflict    it exists already, or it changed meanwhile
    ├── Busy            try again after `retry_after_s`
    │   ├── DiskFull    writes are refused until there is room; reads go on
    │   └── Stopping    the broker is shutting down
    └── Corrupt         disk and code disagree: stop, tell the operator

`code` is API and never changes. Doors map branches to their protocol in one table each.
"""


class EngineError(Exception):
    """The root; `field` names the input at fault, `remedy` says what to do about it."""

    code = "engine_error"

    def __init__(self, detail: str, *, field: str = "", remedy: str = "", code: str = "") -> None:
        super().__init__(detail)
        self.detail = detail
        self.field = field
        self.remedy = remedy
        if code:
            self.code = code


class Invalid(EngineError):
    code = "invalid"


class NotFound(EngineError):
    code = "not_found"


class TopicNotFound(NotFound):
    code = "topic_not_found"


class GroupNotFound(NotFound):
    code = "group_not_found"


class QueueNotFound(NotFound):
    code = "queue_not_found"


class MessageNotFound(NotFound):
    code = "message_not_found"


class OffsetGone(NotFound):
    code = "offset_gone"

    def __init__(self, detail: str, *, oldest: int) -> None:
        super().__init__(detail, field="offset", remedy=f"read from offset {oldest}")
        self.oldest = oldest


class Refused(EngineError):
    code = "refused"


class Forbidden(Refused):
    code = "forbidden"


class Paused(Forbidden):
    """Its code is `forbidden` like the others': only who can wait for the end of it must know."""


class Conflict(Refused):
    code = "conflict"


class Busy(EngineError):
    code = "busy"

    def __init__(
        self, detail: str, *, retry_after_s: float = 1.0, field: str = "", remedy: str = ""
    ) -> None:
        super().__init__(detail, field=field, remedy=remedy or "try again after the given wait")
        self.retry_after_s = retry_after_s


class DiskFull(Busy):
    code = "disk_full"


class Stopping(Busy):
    code = "stopping"


class Corrupt(EngineError):
    code = "corrupt"
