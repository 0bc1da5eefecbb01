"""One message's state within a group: the phases, and the only moves between them.

A message without a slot is either still to come (at or past the cursor) or done (before it).
"""

from enum import StrEnum

import msgspec


class Phase(StrEnum):
    """Where an outstanding message stands."""

    READY = "ready"  # may be handed out again, or waits for an earlier one of its lane
    INFLIGHT = "inflight"  # a client has it until the deadline
    WAITING = "waiting"  # failed, keeps its place and comes back when due
    DONE = "done"
    DEAD = "dead"


class Move(StrEnum):
    """What can happen to it."""

    DELIVER = "deliver"
    EXTEND = "extend"
    ACK = "ack"
    RELEASE = "release"  # put back unused: no attempt is counted
    KEEP = "keep"  # failed; comes back at the same place
    RETRY = "retry"  # failed; goes on as a new record in the group's retry topic
    GIVE_UP = "give_up"  # failed for good
    DUE = "due"
    DROP = "drop"  # its record is gone


MOVES: dict[tuple[Phase, Move], Phase] = {
    (Phase.READY, Move.DELIVER): Phase.INFLIGHT,
    (Phase.READY, Move.DROP): Phase.DONE,
    (Phase.INFLIGHT, Move.EXTEND): Phase.INFLIGHT,
    (Phase.INFLIGHT, Move.ACK): Phase.DONE,
    (Phase.INFLIGHT, Move.RELEASE): Phase.READY,
    (Phase.INFLIGHT, Move.KEEP): Phase.WAITING,
    (Phase.INFLIGHT, Move.RETRY): Phase.DONE,
    (Phase.INFLIGHT, Move.GIVE_UP): Phase.DEAD,
    (Phase.INFLIGHT, Move.DROP): Phase.DONE,
    (Phase.WAITING, Move.DUE): Phase.READY,
    (Phase.WAITING, Move.DROP): Phase.DONE,
}
ENDS = frozenset({Phase.DONE, Phase.DEAD})


class Slot(msgspec.Struct, gc=False):
    """The state that all messages of one hand-out share, so a batch costs one.

    It is never changed but for `open`; a message that moves on gets another slot.
    """

    phase: Phase
    serial: int = 0  # of the hand-out; what makes a receipt current
    until_ms: int = 0  # INFLIGHT: the deadline; WAITING: when it is due; ms since 1970 UTC
    client: str = ""
    failures: int = 0  # failed deliveries at this very place, beyond the record's own attempt
    open: int = 0  # how many messages still share it


def follow(slot: Slot, move: Move, until_ms: int = 0, serial: int = 0) -> Slot:
    """The slot after `move`, shared by nobody yet; an illegal move is our own mistake.

    What stays in flight does so under `serial`, or under the one it has.
    """
    phase = MOVES[slot.phase, move]
    failures = slot.failures + (move is Move.KEEP)
    if phase is Phase.INFLIGHT:
        return Slot(phase, serial or slot.serial, until_ms, slot.client, failures)
    return Slot(phase, until_ms=until_ms, failures=failures)
