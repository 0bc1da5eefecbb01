"""A leader that lost power: its standbys are cut where its log is whole."""

from typing import NamedTuple

import pytest

from engine.errors import Conflict
from engine.replication.boots import after_boot, boot_id, save_boot
from engine.replication.epochs import EpochRole, EpochState, load_epochs, save_epochs
from engine.replication.tail import tail_messages, tails
from engine.store.journal import JournalPlace
from tests.engine.replication.pair import ROOT, Pair
from tests.simulation.boot import boot, settings
from tests.simulation.disk import FakeFiles

OWN = EpochState().with_cluster()
DATA = settings().data


class Loss(NamedTuple):
    """A leader after a loss of power, and where its log is whole."""

    state: EpochState
    log_end: int


def lose_power(pair: Pair, *lost: bytes) -> Loss:
    """Take from the leader the records of these bodies, as if their sectors were never written."""
    pair.disk.kill()
    files = FakeFiles(pair.disk)
    save_epochs(DATA, OWN, files)
    save_boot(DATA, "1", files)
    log = pair.disk.shown[DATA / "commitlog" / f"{0:020d}"]
    assert log is not None
    begin = min(bytes(log.shown).index(body) for body in lost)
    for body in lost:
        at = bytes(log.shown).index(body)
        log.shown[at : at + len(body)] = bytes(len(body))
    state = after_boot(DATA, load_epochs(DATA, files), "2", files)
    [start] = state.history.starts
    assert start.log_end < begin
    pair.clock.advance(1.0)
    pair.broker = boot(pair.disk, pair.clock)
    return Loss(state, start.log_end)


@pytest.mark.parametrize("lost", [(b"lost" * 900,), (b"hole" * 900, b"lost" * 900)])
def test_a_standby_is_cut_where_its_leaders_log_is_whole(
    pair: Pair, lost: tuple[bytes, ...]
) -> None:
    """More than the last 4 KiB may be equal on both sides, behind a hole of the leader's."""
    pair.send(b"first")
    for body in (b"hole" * 900, b"after" * 900, b"lost" * 900):
        pair.send(body)
    pair.feed()
    loss = lose_power(pair, *lost)
    pair.send(b"new")
    start = loss.state.history.start_after(OWN.history, *pair.standby.end)
    assert start is not None
    assert start.log_end == loss.log_end
    pair.standby.cut(start, 1)
    pair.standby.reopen()
    pair.feed()
    assert pair.compare().is_equal
    assert b"new" in pair.bodies()
    [tail] = tails(ROOT, FakeFiles(pair.standby_disk))
    kept = {each.body for each in tail_messages(ROOT / tail.file, FakeFiles(pair.standby_disk))}
    assert kept >= {*lost}


def test_the_death_of_a_process_and_a_clean_stop_cut_nothing(pair: Pair) -> None:
    files = FakeFiles(pair.disk)
    save_epochs(DATA, OWN, files)
    pair.send(b"1")
    assert after_boot(DATA, OWN, "1", files).history.starts  # nobody knows when it was used last
    state = after_boot(DATA, OWN, "1", files)
    pair.restart_leader()
    assert after_boot(DATA, state, "1", FakeFiles(pair.disk)) == state
    pair.broker.stop()
    assert after_boot(DATA, state, "2", FakeFiles(pair.disk)) == state


def test_a_standby_that_lost_power_cuts_nobody(pair: Pair) -> None:
    state = OWN.follow(OWN.history, "10.0.0.1:10912")
    assert state.role is EpochRole.STANDBY
    assert after_boot(ROOT, state, "1", FakeFiles(pair.standby_disk)) == state


def test_what_an_old_leader_lost_counts_also_with_a_new_leader() -> None:
    """Its log parted from the others' where it lost power, which may be before the promotion."""
    old = OWN.lose_power(60)
    new = OWN.promote(100, JournalPlace(0, 10)).history
    start = new.start_after(old.history, 120, JournalPlace(0, 20))
    assert start is not None
    assert (start.epoch, start.log_end) == (2, 60)
    assert old.history.start_after(new, 200, JournalPlace(0, 20)) is None  # the leader is fenced


def test_two_leaders_of_one_epoch_part_where_the_first_of_them_began() -> None:
    """Once somebody has promoted one of them again."""
    one = OWN.promote(100, JournalPlace(0, 10))
    other = OWN.promote(80, JournalPlace(0, 10)).history
    start = one.promote(150, JournalPlace(0, 15)).history.start_after(
        other, 200, JournalPlace(0, 20)
    )
    assert start is not None
    assert start.log_end == 80


def test_losses_count_on_within_an_epoch() -> None:
    state = OWN.lose_power(60).lose_power(90)
    assert [each.loss for each in state.history.starts] == [1, 2]
    assert state.epoch == 1
    start = state.history.start_after(OWN.lose_power(60).history, 120, JournalPlace(0, 20))
    assert start is not None
    assert start.log_end == 90


def test_a_history_that_forgot_a_loss_cuts_nothing() -> None:
    state = OWN
    for end in range(1001):
        state = state.lose_power(end)
    with pytest.raises(Conflict, match="does not know any more"):
        state.history.start_after(OWN.history, 2000, JournalPlace(0, 20))


def test_the_boot_of_this_machine_has_a_name() -> None:
    assert boot_id() == boot_id() != ""
