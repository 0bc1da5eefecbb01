"""Frames of transactions: a producer that answers checks, and decisions.

Half messages themselves are sent over CALL; so is everything else that the REST interface can do.
"""

import struct
from typing import Self

from kitemq.protocol.columns import put_text, take_byte, take_text
from kitemq.protocol.frames import Frame, ended, unpack

UNWANTED = struct.Struct(">I")  # request number of the CHECKS_WANTED
CHECK = struct.Struct(">HIqqI")  # number, queue, born ms, stored ms, property bytes
assert (UNWANTED.size, CHECK.size) == (4, 26)

COMMIT, ROLLBACK, UNKNOWN = 1, 2, 3
DECISIONS = {COMMIT: "commit", ROLLBACK: "rollback", UNKNOWN: "unknown"}


class ChecksWantedFrame(Frame, frozen=True):
    """Register the connection as a live producer of `group` that answers checks. | group text |

    Answer: RESULT without rows, then CHECKs under the same request number, by turns with the
    group's other connections; first those without a producer before.
    """

    TYPE = 16
    group: str

    def payload(self) -> bytes:
        return put_text(self.group)

    @classmethod
    def parse(cls, data: bytes, at: int) -> Self:
        group, at = take_text(data, at)
        ended(data, at)
        return cls(group)


class ChecksUnwantedFrame(Frame, frozen=True):
    """No more checks for that CHECKS_WANTED. Answer: RESULT without rows. | wanted u32 |"""

    TYPE = 17
    wanted: int

    def payload(self) -> bytes:
        return UNWANTED.pack(self.wanted)

    @classmethod
    def parse(cls, data: bytes, at: int) -> Self:
        (request,) = unpack(UNWANTED, data, at)
        ended(data, at + UNWANTED.size)
        return cls(request)


class DecideFrame(Frame, frozen=True):
    """A producer's decision, as the answer to a CHECK or without one. Answer: DECIDED.

    | decision u8: 1 commit, 2 roll back, 3 unknown | is check u8 | group text | transaction text |

    An empty group leaves it to the id alone.
    """

    TYPE = 18
    transaction_id: str
    decision: int
    group: str = ""
    is_check: bool = False

    def payload(self) -> bytes:
        head = bytes((self.decision, self.is_check))
        return head + put_text(self.group) + put_text(self.transaction_id)

    @classmethod
    def parse(cls, data: bytes, at: int) -> Self:
        decision, is_check = take_byte(data, at), take_byte(data, at + 1)
        group, at = take_text(data, at + 2)
        transaction_id, at = take_text(data, at)
        ended(data, at)
        return cls(transaction_id, decision, group, is_check > 0)


class CheckFrame(Frame, frozen=True):
    """Asks for the state of a transaction; its message as it would be delivered.

    | number u16 | queue u32 | born ms i64 | stored ms i64 | property bytes u32 | group text |
    | transaction text | topic text | properties | body |

    `number` counts the checks from 1; properties are the stored string, name 0x01 value 0x02 ….
    """

    TYPE = 80
    transaction_id: str
    group: str
    number: int
    topic: str
    queue: int
    born_ms: int
    stored_ms: int
    properties: bytes
    body: bytes

    def payload(self) -> bytes:
        times = (self.born_ms, self.stored_ms)
        head = CHECK.pack(self.number, self.queue, *times, len(self.properties))
        texts = b"".join(map(put_text, (self.group, self.transaction_id, self.topic)))
        return b"".join((head, texts, self.properties, self.body))

    @classmethod
    def parse(cls, data: bytes, at: int) -> Self:
        number, queue, born_ms, stored_ms, size = unpack(CHECK, data, at)
        group, at = take_text(data, at + CHECK.size)
        transaction_id, at = take_text(data, at)
        topic, at = take_text(data, at)
        properties, body = data[at : at + size], data[at + size :]
        return cls(
            transaction_id, group, number, topic, queue, born_ms, stored_ms, properties, body
        )


class DecidedFrame(Frame, frozen=True):
    """The state of the transaction. | state text |

    One of pending, committed, rolled_back and given_up.
    """

    TYPE = 81
    state: str

    def payload(self) -> bytes:
        return put_text(self.state)

    @classmethod
    def parse(cls, data: bytes, at: int) -> Self:
        state, at = take_text(data, at)
        ended(data, at)
        return cls(state)
