"""Histories of epochs: who is followed, who gives way, and when a person has to decide."""

from random import Random

import msgspec
import pytest

from engine.errors import Conflict
from engine.replication.epochs import DECIDE, EpochHistory, EpochState
from engine.replication.pieces import EMPTY_STATE
from engine.store.journal import JournalPlace

OWN = EpochState().with_cluster()
END = 1 << 40, JournalPlace(1 << 20, 0)


def promoted(state: EpochState, chance: Random, times: int) -> EpochState:
    """The state after some promotions, each where the log ended by then."""
    end = max((each.log_end for each in state.history.starts), default=0)
    for _ in range(times):
        end += chance.choice((0, 0, 1, 100))  # two may end at the same place
        state = state.promote(end, JournalPlace(end, 0))
    return state


def without_ids(history: EpochHistory) -> EpochHistory:
    """As an older version keeps it."""
    starts = [msgspec.structs.replace(each, id="") for each in history.starts]
    return msgspec.structs.replace(history, starts=starts)


def test_two_promotions_of_one_epoch_refuse_to_follow_each_other() -> None:
    one, other = (OWN.promote(100, JournalPlace(0, 10)).history for _ in range(2))
    for leader, standby in ((one, other), (other, one)):
        with pytest.raises(Conflict, match="promoted to epoch 2 apart from each other") as refusal:
            leader.start_after(standby, *END)
        assert (refusal.value.code, refusal.value.remedy) == ("rival_epoch", DECIDE)
        assert leader.promotion is not None
        assert leader.promotion.id in refusal.value.detail
        with pytest.raises(Conflict, match=r"the standby 10\.0\.0\.2 has the promotion"):
            leader.check_standby(standby.mark(EMPTY_STATE), "the standby 10.0.0.2")
        leader.check_standby(leader.mark(EMPTY_STATE), "its own")
        leader.check_standby(OWN.history.mark(EMPTY_STATE), "one of an earlier epoch")


@pytest.mark.parametrize("seed", range(200))
def test_of_leaders_that_parted_the_later_epoch_is_followed_and_none_of_the_same(seed: int) -> None:
    chance = Random(seed)
    common = promoted(OWN, chance, chance.randrange(3))
    one = promoted(common, chance, chance.randrange(1, 4)).history
    other = promoted(common, chance, chance.randrange(1, 4)).history
    fork = min(one.starts[common.epoch - 1].log_end, other.starts[common.epoch - 1].log_end)
    for leader, own in ((one, other), (other, one)):
        assert leader.start_after(leader, *END) is None
        if leader.epoch < own.epoch:
            assert leader.start_after(own, *END) is None  # it is the leader that gives way
        elif leader.epoch == own.epoch:
            with pytest.raises(Conflict) as refusal:
                leader.start_after(own, *END)
            assert refusal.value.code == "rival_epoch"
        else:
            start = leader.start_after(own, *END)
            assert start is not None
            assert start.log_end == fork


def test_a_history_of_an_older_version_is_the_same_without_ids() -> None:
    state = OWN.promote(100, JournalPlace(0, 10)).promote(150, JournalPlace(0, 20))
    for leader, own in (
        (state.history, without_ids(state.history)),
        (without_ids(state.history), state.history),
    ):
        assert leader.start_after(own, *END) is None
        leader.check_standby(own.mark(EMPTY_STATE), "it")
    other = without_ids(
        OWN.promote(80, JournalPlace(0, 10)).promote(90, JournalPlace(0, 20)).history
    )
    with pytest.raises(Conflict, match="of an older version"):
        state.history.start_after(other, *END)


def test_a_history_without_ids_is_read_from_its_file() -> None:
    document = b'["epochs","c",2,[[2,100,[0,10]]]]'
    history = msgspec.json.decode(document, type=EpochHistory)
    assert history.promotion is not None
    assert history.promotion.id == ""
