"""The documents that a leader and its standby exchange, and how they travel."""

import asyncio

import msgspec

from app.following import LeaderProfile
from app.replication.database_copy import DatabasePiece
from engine.replication.epochs import EpochHistory, TakeOver
from engine.replication.pieces import Piece, StandbyState
from protocol.replication import BODY_BYTES_MAX, HEAD


class LeaderRefusal(msgspec.Struct, frozen=True, tag="refusal", array_like=True):
    """Why a leader gives nothing; the connection ends behind it."""

    code: str
    detail: str
    field: str = ""
    remedy: str = ""


Given = Piece | DatabasePiece | EpochHistory | LeaderProfile | LeaderRefusal | TakeOver
GIVEN: msgspec.msgpack.Decoder[Given] = msgspec.msgpack.Decoder(Given)
STATE = msgspec.msgpack.Decoder(StandbyState)
encode = msgspec.msgpack.Encoder().encode


class FrameTooLong(ValueError):
    """What came is no frame of this protocol."""


async def read_frame(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """Position and body of the next frame; FrameTooLong, IncompleteReadError."""
    position, size = HEAD.unpack(await reader.readexactly(HEAD.size))
    if position < 0 or not 0 <= size <= BODY_BYTES_MAX:
        raise FrameTooLong(f"a frame of {size} bytes at {position}")
    return position, await reader.readexactly(size)
