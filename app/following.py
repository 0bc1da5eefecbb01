"""What a standby knows of the leader that it follows."""

from dataclasses import dataclass

import msgspec

from app.listen_address import host_and_port
from engine.config import ROCKETMQ_SCHEME
from engine.host import host_text


class LeaderProfile(msgspec.Struct, frozen=True, tag="profile", array_like=True):
    """What a leader tells its standbys of itself, behind its epochs.

    `broker` is where classic clients call its broker: "HOST:PORT", ":PORT" where that listens on
    all addresses, "" where there is none. With `must_flush` a standby reports what is on its disk.
    """

    broker_name: str
    cluster_name: str
    broker: str
    must_flush: bool


@dataclass
class Following:
    """`leader` is its address, "" where this server is a leader itself.

    `failure` says why it is not connected, or does not get on; `leader_end` is where the leader's
    log ended when it was heard last, 0 before that; `profile` is what it told, None before that.
    `database_copied_ms` is when the copy of its database came that is here, None without one.
    """

    leader: str
    is_connected: bool = False
    leader_end: int = 0
    failure: str = ""
    profile: LeaderProfile | None = None
    database_copied_ms: int | None = None

    def broker_address(self) -> str:
        """Where classic clients call the leader's broker; "" where nobody knows, or there is none.

        One that listens on all addresses is named by that at which it is followed.
        """
        followed = host_and_port(self.leader, "")
        broker = host_and_port((self.profile and self.profile.broker.lstrip(":")) or "", "")
        if followed is None or broker is None:
            return ""
        return host_text(broker[0].strip("[]") or followed[0].strip("[]"), broker[1])

    @property
    def follows_rocketmq(self) -> bool:
        """Whether the leader is a master of Apache RocketMQ."""
        return self.leader.startswith(ROCKETMQ_SCHEME)

    def lag_bytes(self, log_end: int) -> int | None:
        """How much of the leader's log is missing in one that goes to `log_end`; None: unknown."""
        return max(0, self.leader_end - log_end) if self.leader_end else None

    def text(self, log_end: int) -> str:
        """What a standby is, and how far behind."""
        lag_bytes = self.lag_bytes(log_end)
        behind = "its lag is not known yet" if lag_bytes is None else f"{lag_bytes} bytes behind"
        return f"standby of {self.leader}, {behind}{'' if self.is_connected else ', not connected'}"
