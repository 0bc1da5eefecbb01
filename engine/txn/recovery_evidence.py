"""Evidence in the log that a half message is finished, for recovery after the journal lost its end.

The SOURCE property of a committed message, of a roll-back's op record, and of a half message that
was given up or is checked again names the places that it leaves, and its root: the offset of the
transaction's first half message. Of all records with one root only the newest counts, so that a
power loss that takes one from the middle of a way does not bring back the one before.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from engine.message import SOURCE, StoredMessage
from engine.topic.names import GIVEN_UP_TOPIC, HALF_TOPIC
from engine.txn.half_messages import QUEUE
from engine.txn.journal import GIVEN_UP, HALVES

PREFIX = f"@{HALF_TOPIC}@{QUEUE}@"
PLACES_MAX = 4  # of each queue in one text: more only where a half message was sent again
KINDS = {HALF_TOPIC: HALVES, GIVEN_UP_TOPIC: GIVEN_UP}


class RecoveryEvidence(NamedTuple):
    """A record that took the place of others, and where it lies itself if that can be left."""

    root: int
    message_id: str
    half_offsets: tuple[int, ...]
    given_up: tuple[int, ...]
    kind: int | None
    offset: int
    position: int
    end: int


def source_text(leaving: Sequence[StoredMessage]) -> str:
    """The source text of a record that replaces these, the oldest first."""
    half_offsets = [str(each.offset) for each in leaving if each.topic == HALF_TOPIC]
    given_up = [str(each.offset) for each in leaving if each.topic == GIVEN_UP_TOPIC]
    places = (",".join(half_offsets[:PLACES_MAX]), ",".join(given_up[:PLACES_MAX]))
    return PREFIX + ";".join((str(root_of(leaving[0])), *places, leaving[0].message_id))


def root_of(stored: StoredMessage) -> int:
    """The offset of the first half message of the record's transaction."""
    source = stored.properties.get(SOURCE, "")
    if source.startswith(PREFIX):
        return int(source.removeprefix(PREFIX).partition(";")[0])
    return stored.offset if stored.topic == HALF_TOPIC else -1


def evidence_of(stored: StoredMessage) -> RecoveryEvidence | None:
    """The evidence in a record; None for one that came from no transaction."""
    source = stored.properties.get(SOURCE, "")
    if not source.startswith(PREFIX):
        return None
    root, half_offsets, given_up, message_id = source.removeprefix(PREFIX).split(";", 3)
    return RecoveryEvidence(
        root=int(root),
        message_id=message_id,
        half_offsets=_numbers(half_offsets),
        given_up=_numbers(given_up),
        kind=KINDS.get(stored.topic),
        offset=stored.offset,
        position=stored.position,
        end=stored.position + stored.size_bytes,
    )


def left_behind(
    proofs: Sequence[RecoveryEvidence], position_of: Callable[[int, int], int]
) -> tuple[set[int], set[int]]:
    """Offsets of half messages and of given-up ones that `proofs` show to be finished.

    `position_of` tells where the record of a queue's offset lies, a negative number for nowhere:
    a record proves nothing about one behind it, which got the offset after a power loss.
    """
    newest: dict[tuple[int, str], int] = {}
    for proof in proofs:
        key = (proof.root, proof.message_id)
        newest[key] = max(proof.position, newest.get(key, 0))
    left: tuple[set[int], set[int]] = (set(), set())
    for proof in proofs:
        last = newest[proof.root, proof.message_id]
        claims = [(HALVES, offset, proof.position) for offset in proof.half_offsets]
        claims += [(GIVEN_UP, offset, proof.position) for offset in proof.given_up]
        claims.append((HALVES, proof.root, last))
        if proof.kind is not None:
            claims.append((proof.kind, proof.offset, last))
        for kind, offset, position in claims:
            if 0 <= position_of(kind, offset) < position:
                left[kind].add(offset)
    return left


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(","))) if text else ()
