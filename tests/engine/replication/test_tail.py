"""A directory of an earlier epoch: what nobody else had is set aside, the rest becomes a copy."""

import pytest

from engine.broker import TopicConfig
from engine.errors import Conflict
from engine.replication.epochs import EpochHistory, EpochState, load_epochs, save_epochs
from engine.replication.tail import tail_messages, tails
from engine.store.journal import JournalPlace
from tests.engine.replication.pair import ROOT, Pair
from tests.simulation.boot import boot, settings
from tests.simulation.disk import Crash, FakeFiles

FIRST = EpochState().with_cluster()
OWN = FIRST.history


def history(pair: Pair) -> EpochHistory:
    """That of the standby, promoted where it is now."""
    return FIRST.promote(*pair.standby.end).history


def swap(pair: Pair) -> None:
    """The standby leads, the old leader's directory is opened as its standby's."""
    pair.standby.close()
    pair.disk.kill()
    pair.standby_disk.kill()
    pair.clock.advance(1.0)
    pair.disk, pair.standby_disk = pair.standby_disk, pair.disk
    pair.broker = boot(pair.disk, pair.clock, data=ROOT)


@pytest.mark.parametrize("is_compacted", [False, True])
def test_what_an_old_leader_alone_had_is_set_aside_and_the_rest_follows(
    pair: Pair, is_compacted: bool
) -> None:
    pair.send(b"both")
    pair.feed()
    epochs = history(pair)
    pair.send(b"tail one", b"tail two" * 1000)
    pair.broker.create_topic(TopicConfig("nobody-knows"))
    if is_compacted:
        for _ in range(3):
            pair.compact_leader()
    swap(pair)
    pair.send(b"new")
    pair.root = settings().data
    pair.standby = pair.open_standby()
    start = epochs.start_after(OWN, *pair.standby.end)
    assert start is not None
    pair.standby.cut(start, 1)
    assert pair.standby.must_reopen
    pair.standby.reopen()
    pair.feed()
    assert pair.bodies() == {b"both", b"new"}
    assert [each.name for each in pair.standby.parts.catalog.all()] == ["orders"]
    [tail] = tails(settings().data, FakeFiles(pair.standby_disk))
    assert pair.standby.tail == tail
    assert (tail.tail.epoch, tail.tail.messages) == (1, 2)
    messages = tail_messages(settings().data / tail.file, FakeFiles(pair.standby_disk))
    assert [each.body for each in messages] == [b"tail one", b"tail two" * 1000]


@pytest.mark.parametrize("has_power", [True, False])
@pytest.mark.parametrize("crash_in", range(1, 30, 2))
def test_a_cut_that_dies_at_any_write_is_made_again(
    pair: Pair, crash_in: int, *, has_power: bool
) -> None:
    pair.send(b"both")
    pair.feed()
    epochs = history(pair)
    pair.send(b"tail" * 2000)
    swap(pair)
    pair.send(b"new")
    pair.root = settings().data
    pair.standby = pair.open_standby()
    pair.standby_disk.crash_in = crash_in
    while True:
        start = epochs.start_after(OWN, *pair.standby.end)
        if start is None:
            break
        pair.standby.cut(start, 1)
        try:
            pair.standby.reopen()
        except Crash:
            if has_power:
                pair.standby_disk.kill()
            else:
                pair.standby_disk.lose_power()
            pair.standby_disk.crash_in = None
            pair.standby = pair.open_standby()
    pair.feed()
    assert pair.bodies() == {b"both", b"new"}
    [tail] = tails(settings().data, FakeFiles(pair.standby_disk))
    messages = tail_messages(settings().data / tail.file, FakeFiles(pair.standby_disk))
    assert [each.body for each in messages] == [b"tail" * 2000]


def test_a_directory_that_ends_before_the_promotion_is_not_cut(pair: Pair) -> None:
    pair.send(b"1")
    pair.feed()
    early = pair.standby.end
    pair.send(b"2")
    pair.feed()
    epochs = history(pair)
    assert epochs.start_after(OWN, *early) is None
    assert epochs.start_after(OWN, *pair.standby.end) is None
    assert epochs.start_after(epochs, 1 << 40, JournalPlace(9, 0)) is None


def test_the_first_promotion_that_a_directory_missed_says_where_it_is_cut() -> None:
    second = FIRST.promote(100, JournalPlace(0, 10))
    third = second.promote(150, JournalPlace(0, 30))
    start = third.history.start_after(OWN, 170, JournalPlace(0, 5))
    assert start is not None
    assert (start.epoch, start.log_end) == (2, 100)
    late = replace_starts(third.history)
    with pytest.raises(Conflict, match="where its epoch 2 began"):
        late.start_after(OWN, 170, JournalPlace(0, 5))


def replace_starts(epochs: EpochHistory) -> EpochHistory:
    """A history that has forgotten its oldest start."""
    return EpochHistory(epochs.cluster, epochs.epoch, epochs.starts[1:])


def test_a_directory_that_was_never_a_copy_is_not_cut() -> None:
    leader = FIRST.promote(100, JournalPlace(0, 10)).history
    for own in (EpochHistory(), EpochState().with_cluster().history):
        with pytest.raises(Conflict, match="no copy of this leader's"):
            leader.start_after(own, 170, JournalPlace(0, 5))


def test_copies_of_two_leaders_are_no_cluster() -> None:
    one, other = EpochState().with_cluster(), EpochState().with_cluster()
    one.history.check_same(one.history.cluster)
    one.history.check_same("")
    with pytest.raises(Conflict, match="no copy of this leader's"):
        one.history.check_same(other.history.cluster)


def test_an_epoch_is_higher_than_every_one_that_was_met() -> None:
    state = EpochState().fence(5)
    assert (state.role, state.epoch) == ("fenced", 1)
    assert state.promote(0, JournalPlace(0, 0)).epoch == 6


def test_epochs_are_the_same_after_a_loss_of_power(pair: Pair) -> None:
    files = FakeFiles(pair.disk)
    assert load_epochs(settings().data, files) == EpochState()
    state = EpochState(peer="10.0.0.1:10912").promote(7, JournalPlace(0, 3)).fence(9)
    save_epochs(settings().data, state, files)
    pair.disk.lose_power()
    assert load_epochs(settings().data, FakeFiles(pair.disk)) == state
