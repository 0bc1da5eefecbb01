"""What is finished by what the log still has, whatever a power loss took from the middle of it."""

from engine.txn.journal import GIVEN_UP, HALVES
from engine.txn.recovery_evidence import RecoveryEvidence, left_behind


def proof(position, *, root=0, half_offsets=(), given_up=(), kind=None, offset=0, name="ID"):
    return RecoveryEvidence(
        root, name, half_offsets, given_up, kind, offset, position, position + 10
    )


def left(proofs, **places):
    """`places` tell where records lie: half_3=100 for offset 3 of the half queue."""

    def position_of(kind, offset):
        return places.get(f"{'half' if kind == HALVES else 'given_up'}_{offset}", -1)

    return left_behind(proofs, position_of)


def test_a_committed_message_finishes_what_it_came_from():
    assert left([proof(300, half_offsets=(0,))], half_0=100) == ({0}, set())


def test_a_record_proves_nothing_about_one_behind_it():
    """A power loss took the half message, and another one got its offset later."""
    assert left([proof(300, half_offsets=(0,))], half_0=400) == (set(), set())


def test_the_first_half_message_is_finished_though_the_one_in_between_is_lost():
    """Given up, resumed as offset 5 (which the loss took) and committed."""
    assert left([proof(300, half_offsets=(5,))], half_0=100) == ({0}, set())


def test_a_copy_that_was_left_is_finished_though_what_left_it_is_lost():
    """Given up as offset 2, resumed (lost), committed: only the newest record counts."""
    given_up = proof(200, half_offsets=(0,), kind=GIVEN_UP, offset=2)
    committed = proof(400, half_offsets=(5,))
    assert left([given_up, committed], half_0=100, given_up_2=200) == ({0}, {2})


def test_the_newest_record_of_a_transaction_is_not_finished_itself():
    given_up = proof(200, half_offsets=(0,), kind=GIVEN_UP, offset=2)
    resumed = proof(300, given_up=(2,), kind=HALVES, offset=5)
    places = {"half_0": 100, "given_up_2": 200, "half_5": 300}
    assert left([given_up], **places) == ({0}, set())
    assert left([given_up, resumed], **places) == ({0}, {2})


def test_transactions_that_share_a_root_by_mischance_are_told_apart_by_their_ids():
    mine = proof(200, half_offsets=(0,), kind=GIVEN_UP, offset=2)
    others = proof(500, half_offsets=(7,), name="OTHER")
    assert left([mine, others], given_up_2=200, half_7=400) == ({7}, set())
