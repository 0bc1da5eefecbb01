"""What a standby knows of the leader that it follows."""

from dataclasses import dataclass

from engine.config import ROCKETMQ_SCHEME


@dataclass
class Following:
    """`leader` is its address, "" where this server is a leader itself.

    `failure` says why it is not connected, or does not get on; `leader_end` is where the leader's
    log ended when it was heard last, 0 before that.
    """

    leader: str
    is_connected: bool = False
    leader_end: int = 0
    failure: str = ""

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
