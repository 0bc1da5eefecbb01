"""Makes a stopped standby's directory that of a leader: `kitemq promote --data`."""

from pathlib import Path

from engine.clock import SystemClock
from engine.config import EngineConfig
from engine.errors import Conflict
from engine.replication.epochs import EpochRole, EpochState, load_epochs, save_epochs
from engine.replication.rocketmq_standby import RocketmqStandby
from engine.replication.standby import Standby
from engine.replication.tail import segment_bytes_of
from engine.store.pool import InlinePool


def promote_directory(root: Path) -> EpochState:
    """Begin the next epoch where the directory ends; Busy while a server uses it.

    Conflict where it is no standby's.
    """
    state = load_epochs(root)
    if state.role is not EpochRole.STANDBY:
        remedy = "start it with --follow" if state.role is EpochRole.FENCED else "start it as it is"
        detail = f"the data directory {root} is no standby's, but a {state.role} one's"
        raise Conflict(detail, field="data", remedy=remedy)
    size = segment_bytes_of(root) or EngineConfig.segment_bytes
    config = EngineConfig(data=root, segment_bytes=size)
    kind = RocketmqStandby if state.follows_rocketmq else Standby
    standby = kind(config, clock=SystemClock(), pool=InlinePool())
    state = state.promote(*standby.end)
    standby.close()
    save_epochs(root, state)
    return state
