"""RocketMQ's HA protocol: a leader's log on its way to those who keep a copy, as bytes.

A slave reports how far its log goes (8 bytes), again and again; the leader answers with frames: a
position (8), a size (4), and so many bytes of the log. Size 0 is a heartbeat. All are big endian.

KiteMQ's own standby begins with `GREETING`, a report that no slave makes as it is negative. Both
sides prove that they know the secret; then the body of a frame is one document, as the position
of a frame says how far the leader's log goes by now. A standby that is told to take over answers
with a negative report: the epoch that it has begun, or `REFUSED`.
"""

import hmac
import struct

HEAD = struct.Struct(">qi")  # position in the log, size of what follows
REPORT = struct.Struct(">q")  # position up to which the sender has the log
GREETING = b"\xffKITEHA\x01"
REFUSED = -(1 << 63)  # as a report: the standby takes over nothing
assert HEAD.size == 12
assert REPORT.size == len(GREETING) == 8

NONCE_BYTES = 32
PROOF_BYTES = 32
BODY_BYTES_MAX = 1024 * 1024


def frame(position: int, body: bytes = b"") -> bytes:
    """A frame of the leader."""
    return HEAD.pack(position, len(body)) + body


def standby_proof(secret: str, leader_nonce: bytes, standby_nonce: bytes) -> bytes:
    """What a standby sends to show that it knows the secret."""
    return _proof(secret, b"standby", leader_nonce + standby_nonce)


def leader_proof(secret: str, leader_nonce: bytes, standby_nonce: bytes) -> bytes:
    """What a leader sends then: a standby takes bytes of nobody else."""
    return _proof(secret, b"leader", leader_nonce + standby_nonce)


def is_same_proof(one: bytes, other: bytes) -> bool:
    """Whether two proofs are equal, in a time that does not depend on where they differ."""
    return hmac.compare_digest(one, other)


def _proof(secret: str, side: bytes, nonces: bytes) -> bytes:
    return hmac.digest(secret.encode(), side + nonces, "sha256")
