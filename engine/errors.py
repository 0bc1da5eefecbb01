"""The engine's errors as one tree. The branch says what the caller should do.

    EngineError
    ├── Invalid         a value is wrong: mend the named field          (invalid_…)
    ├── NotFound        the name is wrong: tell the user
    │   ├── TopicNotFound, GroupNotFound, QueueNotFound, MessageNotFound
    │   └── OffsetGone  retention took it; `oldest` is still kept
    ├── Refused         a rule said no: do not retry as is
    │   ├── Forbidden   permission or a system name; Paused: a group that is switched off
    │   ├── Conflict    it exists already, or it changed meanwhile
    │   └── OnStandby   its leader alone changes anything: ask that one
    ├── Busy            try again after `retry_after_s`
    │   ├── DiskFull    writes are refused until there is room; reads go on
    │   ├── OutOfFiles  no file can be opened just now; an OSError as well
    │   └── Stopping    the broker is shutting down
    ├── Corrupt         disk and code disagree: stop, tell the operator
    └── Illegal         our own mistake: the state does not allow a change; nothing has changed

`code` is API and never changes. Each protocol maps branches to its own codes in one table.
"""

import errno
from pathlib import Path

PASSING_ERRORS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
_OWNER = "give the server's user the right to read and write there, or choose another (--data)"
REMEDIES = {
    errno.EACCES: _OWNER,
    errno.EPERM: _OWNER,
    errno.EROFS: "mount the disk for writing, or choose another directory (--data)",
    errno.ENOTDIR: "choose a directory, not a file (--data)",
    errno.EEXIST: "choose a directory, not a file (--data)",
    errno.EMFILE: "raise the limit of open files (ulimit -n), then start again",
    errno.ENFILE: "close other programs, or raise the system's limit of open files",
    errno.EIO: "check the disk; restore a backup if it is broken",
}


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
    """Its code is `forbidden`: only callers that can wait for its end tell it apart."""


class Conflict(Refused):
    code = "conflict"


class OnStandby(Refused):
    code = "standby"

    def __init__(self, leader: str = "") -> None:
        of = f" of {leader}" if leader else ""
        super().__init__(
            f"this server is a standby{of}: its leader alone changes anything",
            remedy="send it to the leader",
        )


class Busy(EngineError):
    code = "busy"

    def __init__(
        self,
        detail: str,
        *,
        retry_after_s: float = 1.0,
        field: str = "",
        remedy: str = "",
        code: str = "",
    ) -> None:
        remedy = remedy or "try again after the given wait"
        super().__init__(detail, field=field, remedy=remedy, code=code)
        self.retry_after_s = retry_after_s


class DiskFull(Busy):
    code = "disk_full"


class OutOfFiles(Busy, OSError):
    """The process or the system has too many files open, or no memory to open one: it passes.

    Nothing on the disk has failed or is damaged. What opens files raises it instead of the
    system's own error, so that those who handle an OSError go on doing so.
    """

    code = "out_of_files"

    def __init__(self, cause: OSError) -> None:
        super().__init__(
            f"no file can be opened just now: {cause.strerror or cause}",
            retry_after_s=1.0,
            remedy="try again after the given wait; where it lasts, permit the server more open "
            "files (ulimit -n)",
        )
        self.errno = cause.errno
        self.filename = cause.filename

    def __str__(self) -> str:
        return self.detail


def unusable(data: Path, error: OSError) -> EngineError:
    """Why a data directory cannot be used, from what the operating system says."""
    reason = error.strerror or str(error)
    place = error.filename if isinstance(error.filename, str) else str(data)
    detail = f"the data directory {data} cannot be used: {reason}"
    detail += f" ({place})" if place != str(data) else ""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFull(detail, field="data", remedy="free some disk, then start again")
    remedy = REMEDIES.get(error.errno or 0, "see to the disk, or choose another directory (--data)")
    return Refused(detail, field="data", remedy=remedy)


class Stopping(Busy):
    code = "stopping"


class Corrupt(EngineError):
    code = "corrupt"


class Illegal(EngineError):
    code = "illegal_change"
