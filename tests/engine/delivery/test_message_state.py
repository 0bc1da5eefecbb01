from itertools import product

import pytest

from engine.delivery.message_state import (
    TRANSITIONS,
    InFlightState,
    MessageState,
    Transition,
    state_after,
)

LEGAL = {
    "ready": {"deliver": "inflight", "drop": "done"},
    "inflight": {
        "extend": "inflight",
        "ack": "done",
        "release": "ready",
        "keep": "waiting",
        "retry": "done",
        "give_up": "dead",
        "drop": "done",
    },
    "waiting": {"due": "ready", "drop": "done"},
    "done": {},
    "dead": {},
}


@pytest.mark.parametrize(("phase", "move"), list(product(MessageState, Transition)))
def test_every_pair_of_phase_and_move_is_legal_or_not_as_written(phase, move):
    following = LEGAL[phase].get(move)
    if following is None:
        assert (phase, move) not in TRANSITIONS
        with pytest.raises(KeyError):
            state_after(InFlightState(phase), move)
    else:
        assert state_after(InFlightState(phase), move).phase == following


def test_only_a_failure_counts_as_one():
    slot = InFlightState(MessageState.INFLIGHT, serial=7, until_ms=1, client="c", failures=2)
    assert state_after(slot, Transition.KEEP, 5).failures == 3
    assert state_after(slot, Transition.RELEASE).failures == 2
    longer = state_after(slot, Transition.EXTEND, 9)
    assert (longer.serial, longer.client, longer.until_ms, longer.failures) == (7, "c", 9, 2)
