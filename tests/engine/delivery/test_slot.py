from itertools import product

import pytest

from engine.delivery.slot import MOVES, Move, Phase, Slot, follow

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


@pytest.mark.parametrize(("phase", "move"), list(product(Phase, Move)))
def test_every_pair_of_phase_and_move_is_legal_or_not_as_written(phase, move):
    following = LEGAL[phase].get(move)
    if following is None:
        assert (phase, move) not in MOVES
        with pytest.raises(KeyError):
            follow(Slot(phase), move)
    else:
        assert follow(Slot(phase), move).phase == following


def test_only_a_failure_counts_as_one():
    slot = Slot(Phase.INFLIGHT, serial=7, until_ms=1, client="c", failures=2)
    assert follow(slot, Move.KEEP, 5).failures == 3
    assert follow(slot, Move.RELEASE).failures == 2
    longer = follow(slot, Move.EXTEND, 9)
    assert (longer.serial, longer.client, longer.until_ms, longer.failures) == (7, "c", 9, 2)
