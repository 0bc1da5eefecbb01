"""The read-only switch: while it is on, every change is refused.

It is stored in a small file beside the store: it survives a restart, and is known before the first
request even if the database is down. The setting `read_only` holds independently of the switch,
as does `follow`, which makes a standby.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from app import atomic_files
from app.db.rows import Actor
from app.services.audit import Audit
from engine.clock import Clock
from engine.errors import Busy, Conflict, Invalid

log = logging.getLogger("kitemq")

FILE = "read_only.json"
REASON_CHARS_MAX = 200


class Switched(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file's record: user, time and reason."""

    by: str
    since_ms: int
    reason: str


@dataclass(frozen=True)
class ReadOnlyState:
    """Whether changes are refused; the time may be unknown. `setting` is the one that holds it."""

    is_on: bool
    by_setting: bool = False
    by: str = ""
    since_ms: int | None = None
    reason: str = ""
    setting: str = ""


class ReadOnlySwitch:
    """The switch: `load` it before the first request; `freeze` is called at each change."""

    def __init__(
        self,
        data: Path,
        audit: Audit,
        clock: Clock,
        *,
        setting: str,
        freeze: Callable[[bool], None],
    ) -> None:
        """`setting` names the one that holds the server read-only; "" where none does."""
        self._path = data / FILE
        self._audit = audit
        self._clock = clock
        self._freeze = freeze
        self._changing = asyncio.Lock()
        self._started_ms = clock.now_ms()
        self._setting = setting
        self.state = self._state(None)

    def load(self) -> None:
        """Take over the switch as the last process left it; reads one small file."""
        try:
            record = msgspec.json.decode(self._path.read_bytes(), type=Switched)
        except FileNotFoundError:
            self._take(None)
        except (OSError, ValueError) as error:  # also of bytes that are no UTF-8
            # Rather frozen once too often: an admin can switch it off.
            log.error("%s cannot be read, so the server is read-only: %s", self._path, error)
            self._take(Switched("", 0, f"the file {FILE} cannot be read"))
        else:
            self._take(record)

    async def switch(self, actor: Actor, *, is_on: bool, reason: str) -> ReadOnlyState:
        """Freeze or thaw the server, from the next request on; audited.

        Raises Invalid without a reason to freeze, Conflict where the setting holds it anyway, Busy
        where the file cannot be written or taken away: then the state is as it was.
        """
        reason = " ".join(reason.split())
        if is_on and not 0 < len(reason) <= REASON_CHARS_MAX:
            raise Invalid(
                "it is not said why" if not reason else "the reason is too long",
                field="reason",
                remedy=f"give a reason of at most {REASON_CHARS_MAX} characters; every page has it",
            )
        if self._setting:
            raise Conflict(
                f"the setting {self._setting} holds the server read-only",
                remedy="start it without that setting",
                code="held_by_setting",
            )
        async with self._changing:
            action = "server.freeze" if is_on else "server.thaw"
            async with self._audit.change(actor, action, "read_only", before=self.state) as change:
                record = Switched(actor.name, self._clock.now_ms(), reason) if is_on else None
                try:
                    await asyncio.to_thread(self._keep, record)
                except OSError as error:
                    raise _write_failure(error) from error
                self._take(record)
                change.after = self.state
        return self.state

    def _take(self, record: Switched | None) -> None:
        self.state = self._state(record)
        self._freeze(self.state.is_on)

    def _state(self, record: Switched | None) -> ReadOnlyState:
        if self._setting:
            return ReadOnlyState(True, True, since_ms=self._started_ms, setting=self._setting)
        if record is None:
            return ReadOnlyState(False)
        return ReadOnlyState(True, False, record.by, record.since_ms or None, record.reason)

    def _keep(self, record: Switched | None) -> None:
        """Write the file, or take it away, so that it is so after a power cut as well."""
        if record is None:
            atomic_files.remove(self._path)
        else:
            atomic_files.replace(self._path, msgspec.json.encode(record))


def _write_failure(error: OSError) -> Busy:
    return Busy(
        f"the file {FILE} cannot be changed: {error.strerror or error}",
        remedy="see to the disk of the data directory, then try again",
        code="switch_not_kept",
    )
