"""A standby's connection to its leader's port: greeting, proof, then what the leader gives."""

import asyncio
import secrets
import ssl
from typing import TypeVar

import msgspec

from app.following import LeaderProfile
from app.replication.database_copy import DatabasePiece
from app.replication.frames import GIVEN, FrameTooLong, LeaderRefusal, encode, read_frame
from engine.errors import Refused
from engine.replication.epochs import EpochHistory, TakeOver
from engine.replication.pieces import Piece, StandbyState
from protocol.replication import (
    GREETING,
    NONCE_BYTES,
    PROOF_BYTES,
    REPORT,
    frame,
    is_same_proof,
    leader_proof,
    standby_proof,
)

GREETING_S = 10.0
SILENCE_S = 20.0  # a leader with nothing to give sends a heartbeat every 5 s
BUFFER_BYTES = 64 * 1024
NO_PROOF = "give both servers the same ha_secret"
T = TypeVar("T", EpochHistory, LeaderProfile)
Taken = Piece | DatabasePiece | TakeOver


class LeaderLink:
    """An open connection; `close` it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self.history = EpochHistory()  # the leader's, once it is open; so is what it says of itself
        self.profile: LeaderProfile

    @classmethod
    async def open(
        cls, host: str, port: int, secret: str, tls: ssl.SSLContext | None = None
    ) -> "LeaderLink":
        """Connect, and prove on both sides who one is.

        Refused where the other side does not know the secret; OSError, TimeoutError.
        """
        async with asyncio.timeout(GREETING_S):
            streams = await asyncio.open_connection(host, port, ssl=tls, limit=BUFFER_BYTES)
            link = cls(*streams)
            try:
                await link._prove(secret)
                link.history = await link._hear(EpochHistory)
                link.profile = await link._hear(LeaderProfile)
            except BaseException:
                link.close()
                raise
        return link

    async def _prove(self, secret: str) -> None:
        self._writer.write(GREETING)
        nonces = await self._read(NONCE_BYTES), secrets.token_bytes(NONCE_BYTES)
        self._writer.write(nonces[1] + standby_proof(secret, *nonces))
        try:
            proof = await self._read(PROOF_BYTES)
        except ConnectionError:
            detail = "the leader does not take this server's ha_secret"
            raise Refused(detail, field="ha_secret", remedy=NO_PROOF) from None
        if not is_same_proof(proof, leader_proof(secret, *nonces)):
            detail = "the leader does not know this server's ha_secret"
            raise Refused(detail, field="ha_secret", remedy=NO_PROOF)

    async def _hear(self, kind: type[T]) -> T:
        given = (await self._next())[1]
        if not isinstance(given, kind):
            raise ConnectionAbortedError("the leader is of another version")
        return given

    def begin(self, state: StandbyState) -> None:
        """Say where the leader has to go on."""
        self._writer.write(frame(state.log_end, encode(state)))

    async def next(self) -> tuple[int, Taken | None]:
        """Where the leader's log ends now, and the next piece or order; None with a heartbeat.

        Refused with the leader's reason; OSError, TimeoutError.
        """
        async with asyncio.timeout(SILENCE_S):
            log_end, given = await self._next()
        if isinstance(given, EpochHistory | LeaderProfile):
            raise ConnectionAbortedError("the leader greeted twice")
        return log_end, given

    async def _next(self) -> tuple[int, Taken | EpochHistory | LeaderProfile | None]:
        try:
            log_end, body = await read_frame(self._reader)
            given = GIVEN.decode(body) if body else None
        except asyncio.IncompleteReadError:
            raise ConnectionResetError("the leader closed the connection") from None
        except (FrameTooLong, msgspec.MsgspecError) as error:
            raise ConnectionAbortedError(f"the leader sent what is no piece: {error}") from error
        if isinstance(given, LeaderRefusal):
            raise Refused(given.detail, field=given.field, remedy=given.remedy, code=given.code)
        return log_end, given

    def report(self, position: int) -> None:
        """Say how far the log goes here, once after each frame; ConnectionError.

        The answer to an order is the epoch that was begun, made negative, or `REFUSED`.
        """
        if self._writer.is_closing():
            raise ConnectionResetError("the leader closed the connection")
        self._writer.write(REPORT.pack(position))

    def close(self) -> None:
        self._writer.close()

    async def _read(self, size_bytes: int) -> bytes:
        try:
            return await self._reader.readexactly(size_bytes)
        except asyncio.IncompleteReadError:
            raise ConnectionResetError("the leader closed the connection") from None


async def tls_context(ca: str) -> ssl.SSLContext | None:
    """What a leader's certificate is checked with; None without a file of authorities.

    Raises ValueError for a file that is none.
    """
    if not ca:
        return None
    try:
        return await asyncio.to_thread(ssl.create_default_context, cafile=ca)
    except OSError as error:  # ssl.SSLError is one
        raise ValueError(f"follow_ca {ca} cannot be used: {error}") from error
