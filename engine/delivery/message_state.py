"""The state of one message within a group, and the only transitions between states.

A message without a recorded state is either still to come (at or past the cursor) or done (before
it).
"""

from collections.abc import Sequence
from enum import StrEnum

import msgspec


class MessageState(StrEnum):
    """State of an outstanding message."""

    READY = "ready"  # may be delivered again, or waits for an earlier one of its lane
    INFLIGHT = "inflight"  # a client has it until the deadline
    WAITING = "waiting"  # failed, keeps its place and comes back when due
    DONE = "done"
    DEAD = "dead"


class Transition(StrEnum):
    """Transitions of an outstanding message."""

    DELIVER = "deliver"
    EXTEND = "extend"
    ACK = "ack"
    RELEASE = "release"  # put back unused: no attempt is counted
    KEEP = "keep"  # failed; comes back at the same place
    RETRY = "retry"  # failed; goes on as a new record in the group's retry topic
    GIVE_UP = "give_up"  # failed for good
    DUE = "due"
    DROP = "drop"  # its record is gone


TRANSITIONS: dict[tuple[MessageState, Transition], MessageState] = {
    (MessageState.READY, Transition.DELIVER): MessageState.INFLIGHT,
    (MessageState.READY, Transition.DROP): MessageState.DONE,
    (MessageState.INFLIGHT, Transition.EXTEND): MessageState.INFLIGHT,
    (MessageState.INFLIGHT, Transition.ACK): MessageState.DONE,
    (MessageState.INFLIGHT, Transition.RELEASE): MessageState.READY,
    (MessageState.INFLIGHT, Transition.KEEP): MessageState.WAITING,
    (MessageState.INFLIGHT, Transition.RETRY): MessageState.DONE,
    (MessageState.INFLIGHT, Transition.GIVE_UP): MessageState.DEAD,
    (MessageState.INFLIGHT, Transition.DROP): MessageState.DONE,
    (MessageState.WAITING, Transition.DUE): MessageState.READY,
    (MessageState.WAITING, Transition.DROP): MessageState.DONE,
}
ENDS = frozenset({MessageState.DONE, MessageState.DEAD})


class InFlightState(msgspec.Struct, gc=False):
    """The state that all messages of one delivery share, so a batch costs one.

    It is never changed but for `open`; a message that moves on gets another slot.
    """

    phase: MessageState
    serial: int = 0  # of the delivery; what makes a receipt current
    until_ms: int = 0  # INFLIGHT: the deadline; WAITING: when it is due; ms since 1970 UTC
    client: str = ""
    failures: int = 0  # failed deliveries at this very place, beyond the record's own attempt
    open: int = 0  # how many messages still share it
    span: Sequence[int] = ()  # the messages that it was made for, where that is known


def state_after(
    slot: InFlightState, move: Transition, until_ms: int = 0, serial: int = 0
) -> InFlightState:
    """The slot after `move`, not shared yet; an illegal move is a programming error.

    What stays in flight does so under `serial`, or under the one it has.
    """
    phase = TRANSITIONS[slot.phase, move]
    failures = slot.failures + (move is Transition.KEEP)
    if phase is MessageState.INFLIGHT:
        return InFlightState(phase, serial or slot.serial, until_ms, slot.client, failures)
    return InFlightState(phase, until_ms=until_ms, failures=failures)
