"""Limits of one connection of `/ws/v1`; sent to the client in WELCOME."""

from dataclasses import dataclass

from engine.message import BATCH_COUNT_MAX

MIB = 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class SocketLimits:
    """Sizes in bytes; every one of them bounds memory that a client could make us hold."""

    frame_bytes_max: int = 8 * MIB  # one WebSocket message
    count_max: int = BATCH_COUNT_MAX  # messages or receipts in one frame
    inflight_bytes_max: int = 16 * MIB  # of sends without their answer; then reading stops
    # Answers that a slow reader has not taken; then reading stops. More than what deliveries may
    # take, so that a client can settle messages while others are on their way to it.
    outbox_bytes_max: int = 8 * MIB
    push_bytes_max: int = 1 * MIB  # deliveries that a slow reader has not taken; then pushing stops
    subscriptions_max: int = 64
    credit_max: int = 65_536
    deliver_count_max: int = 256  # messages in one DELIVER; the engine keeps it to 4 MiB
    calls_max: int = 64  # under way at once on one connection
    client_chars_max: int = 128  # of a client's name
