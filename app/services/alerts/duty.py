"""Which of the servers that share a database evaluates the alert rules and notifies receivers.

One at a time, by a lease; where it stops, another goes on within LEASE_MS. What the others change
is seen by the audit trail.
"""

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from socket import gethostname

import msgspec

from app.db.worker import DatabaseAsker
from app.services.alerts.standing import RuleStatus
from engine.clock import Clock

LEASE = "alerts"
LEASE_MS = 30_000
KINDS = ("alert_rule", "alert_receiver")

# Of each rule how many objects were checked and left out, and when.
Checks = dict[int, tuple[int, int, int]]


class AlertDuty:
    """The duty of evaluating, as far as this server has it."""

    def __init__(self, ask: DatabaseAsker, clock: Clock, data: Path) -> None:
        """`data` is the server's directory: with the host it names the server over restarts."""
        self._ask, self._clock = ask, clock
        self._owner = sha256(f"{gethostname()}:{data.resolve()}".encode()).hexdigest()
        self._seen: tuple[int, str] | None = None
        self.is_ours = False
        self.is_changed = True  # whether another may have changed what was loaded
        self.checks: Checks = {}

    async def take(self) -> None:
        """Take the duty where nobody has it, or keep it. Raises Busy, and nothing changes."""
        now_ms = self._clock.now_ms()
        lease, entry = await self._ask(
            lambda db: (
                db.leases.take(LEASE, self._owner, now_ms, now_ms + LEASE_MS),
                db.audit.newest(KINDS),
            )
        )
        seen = (entry.id or 0, entry.result) if entry else (0, "")
        is_ours = lease.owner == self._owner
        self.is_changed = seen != self._seen or not is_ours or not self.is_ours
        self._seen, self.is_ours = seen, is_ours
        self.checks = msgspec.json.decode(lease.note, type=Checks) if lease.note else {}

    async def note(self, statuses: Mapping[int, RuleStatus]) -> None:
        """Tell the others what was checked."""
        checks = {
            number: (each.checked, each.left_out, each.at_ms) for number, each in statuses.items()
        }
        if checks != self.checks:
            note = msgspec.json.encode(checks).decode()
            await self._ask(lambda db: db.leases.note(LEASE, self._owner, note))

    async def release(self) -> None:
        """Leave it to another at once."""
        if self.is_ours:
            await self._ask(lambda db: db.leases.release(LEASE, self._owner))
