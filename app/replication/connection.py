"""One connection of the port for standbys: greeting, proof, and the leader's side of the copy.

A standby of KiteMQ gets log and journal in pieces, a slave of RocketMQ the log's bytes. What it has
not read yet is bounded by the transport's buffer and one piece. Files are read on other threads.
"""

import asyncio
import logging
import secrets
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from app.listen_address import reached_at
from app.network import connection_limits
from app.network.connection_limits import ConnectionSlot
from app.network.connection_monitor import ConnectionMonitor, MonitoredConnection
from app.network.keep_alive import keep_alive
from app.replication.database_copy import DatabaseFeed, DatabasePiece
from app.replication.frames import STATE, FrameTooLong, LeaderRefusal, encode, read_frame
from app.services.standbys import KITEMQ, ROCKETMQ, StandbyLink
from app.tasks import end_tasks
from engine.errors import Busy, EngineError, Refused
from engine.host import socket_text
from engine.replication.cursor import LeaderCursor, LogCursor
from engine.replication.pieces import ReplicaCut, StandbyState
from protocol.replication import (
    GREETING,
    NONCE_BYTES,
    PROOF_BYTES,
    REFUSED,
    REPORT,
    frame,
    is_same_proof,
    leader_proof,
    standby_proof,
)

if TYPE_CHECKING:
    from app.replication.port import StandbyPort

log = logging.getLogger("kitemq.replication")

GREETING_S = 10.0  # from the connection to the first piece
HEARTBEAT_S = 5.0  # RocketMQ's own, in both directions
SILENCE_S = 20.0  # without a report, after which it is cut off
LOOK_S = 0.1  # between two looks at a journal that nobody writes
ROUND_S = 0.002  # between two cuts: what comes meanwhile goes together
PIECE_BYTES = 64 * 1024
SLAVE_BYTES = 32 * 1024
ENDED = (OSError, TimeoutError, asyncio.IncompleteReadError)


Serve = Callable[[StandbyLink], Coroutine[Any, Any, None]]


class StandbyProgress:
    """Which cuts a standby has taken: it reports once for each frame, after it took that.

    What lies before a cut is there with all that the journal says of it.
    """

    def __init__(self, port: "StandbyPort") -> None:
        self._port = port
        self._frames = self._reports = 0
        self._cuts: deque[tuple[int, ReplicaCut]] = deque()  # with the numbers of their frames
        self._is_in_step = False
        self.cut: ReplicaCut | None = None  # the last one that was taken

    def note_frame(self, cut: ReplicaCut | None) -> None:
        """A frame is sent: a cut, or another one."""
        self._frames += 1
        if cut is not None:
            self._cuts.append((self._frames, cut))

    def note_report(self) -> None:
        """A report came."""
        self._reports += 1
        replicas = self._port.broker.replicas
        while self._cuts and self._cuts[0][0] <= self._reports:
            _, self.cut = self._cuts.popleft()
            if not self._is_in_step:
                self._is_in_step = True
                replicas.join()
            replicas.report(self.cut.log_end)

    def close(self) -> None:
        """The standby is gone."""
        if self._is_in_step:
            self._is_in_step = False
            self._port.broker.replicas.leave()


class StandbyConnection(MonitoredConnection, asyncio.StreamReaderProtocol):
    """A connection that a task serves until one side ends it."""

    def __init__(
        self, port: "StandbyPort", slot: ConnectionSlot, monitor: ConnectionMonitor
    ) -> None:
        self._enter(slot, monitor)
        self._reader = asyncio.StreamReader(limit=PIECE_BYTES)
        super().__init__(self._reader, self._begin)
        self._port = port
        self._task: asyncio.Task[None] | None = None
        self._taken = StandbyProgress(port)
        self._feed: DatabaseFeed | None = None
        self._copying: asyncio.Task[DatabasePiece | None] | None = None
        self._is_greeted = False  # by a standby of KiteMQ, which can be told things
        self.address = self._ha_listen = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        super().connection_made(transport)

    async def stop(self) -> None:
        """End it at once."""
        await end_tasks(self._task)

    def _begin(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self.address = socket_text(writer.get_extra_info("peername"))
        if (accepted := writer.get_extra_info("socket")) is not None:
            keep_alive(accepted)
        self._task = asyncio.get_running_loop().create_task(self._serve())

    async def _serve(self) -> None:
        try:
            await self._greet()
        except ENDED as error:
            log.info("the standby %s left: %s", self.address, str(error) or type(error).__name__)
        except (FrameTooLong, msgspec.MsgspecError) as error:
            log.warning("%s speaks no protocol of a standby: %s", self.address, error)
            self._port.limits.refusals.note(connection_limits.MALFORMED, self._slot.address)
        except EngineError as error:
            await self._refuse(error)
        except Exception:
            log.exception("serving the standby %s failed", self.address)
        finally:
            self._taken.close()
            self._writer.close()

    async def _refuse(self, error: EngineError) -> None:
        """Tell a standby why it gets nothing."""
        log.warning("the standby %s is refused: %s", self.address, error.detail)
        self._port.standbys.refusal = f"{self.address}: {error.detail}"
        if self._is_greeted:
            refusal = LeaderRefusal(error.code, error.detail, error.field, error.remedy)
            with suppress(*ENDED):
                await self._send(frame(0, encode(refusal)))

    async def _send(self, data: bytes) -> None:
        if self._writer.is_closing():
            raise ConnectionResetError("the standby closed the connection")
        self._writer.write(data)
        await self._writer.drain()

    async def _greet(self) -> None:
        async with asyncio.timeout(GREETING_S):
            first = await self._reader.readexactly(len(GREETING))
            self._is_greeted = first == GREETING
            cursor = await self._prove() if self._is_greeted else None
        if cursor is not None:
            await self._copy(KITEMQ, cursor.position, partial(self._give, cursor), self._hear)
        elif not self._is_greeted:
            await self._greet_slave(*REPORT.unpack(first))

    async def _greet_slave(self, position: int) -> None:
        if position < 0:
            raise FrameTooLong(f"a report of {position}")
        if self._port.secret:
            log.warning(
                "the slave %s is refused: with ha_secret only standbys that know it get the log",
                self.address,
            )
            return
        copied = self._port.broker.log_cursor(position)
        give = partial(self._give_log, copied)
        await self._copy(ROCKETMQ, copied.position, give, self._hear_slave)

    async def _prove(self) -> LeaderCursor | None:
        """Exchange proofs, and take the standby's state; None where it does not know the secret."""
        secret, nonce = self._port.secret, secrets.token_bytes(NONCE_BYTES)
        await self._send(nonce)
        answer = await self._reader.readexactly(NONCE_BYTES + PROOF_BYTES)
        nonces = nonce, answer[:NONCE_BYTES]
        if not is_same_proof(answer[NONCE_BYTES:], standby_proof(secret, *nonces)):
            log.warning("the standby %s does not know this server's ha_secret", self.address)
            return None
        await self._send(leader_proof(secret, *nonces))
        for each in (self._port.leadership.state.history, self._port.profile()):
            await self._send(frame(self._port.broker.log_end, encode(each)))
        state = STATE.decode((await read_frame(self._reader))[1])
        await self._check_epoch(state)
        self._feed = self._port.database_feed(state.database)
        cursor = self._port.broker.cursor_for(state)
        await asyncio.to_thread(cursor.check)
        return cursor

    async def _check_epoch(self, state: StandbyState) -> None:
        """Refused where this leader's epoch is over, Conflict for another leader's standby."""
        leadership = self._port.leadership
        own = leadership.state.history
        own.check_same(state.cluster)
        own.check_standby(state, f"the standby {self.address}")
        peer = self._writer.get_extra_info("peername")[0]
        self._ha_listen = reached_at(state.ha_listen, peer)
        if state.epoch == own.epoch:
            await self._port.handover.returned(self._ha_listen)
        if state.epoch > own.epoch and state.cluster == own.cluster:
            if not await self._port.handover.heard(self._ha_listen, state.epoch):
                await leadership.fence(state.epoch, self.address)
            raise Refused(
                f"there is a leader of epoch {state.epoch}: this one, of epoch {own.epoch}, stops",
                remedy="follow the new leader",
                code="fenced",
            )

    async def _copy(self, kind: str, position: int, give: Serve, hear: Serve) -> None:
        """Give until one side ends it, and hear reports meanwhile."""
        standbys, now_ms = self._port.standbys, self._port.now_ms()
        if len(standbys.links) >= self._port.standbys_max:
            raise Busy("as many standbys as ha_standbys_max permits are connected")
        link = StandbyLink(self.address, kind, now_ms, position, self._ha_listen)
        with standbys.connected(link):
            log.info("the standby %s (%s) copies from %d on", self.address, kind, position)
            loop = asyncio.get_running_loop()
            tasks = [loop.create_task(each) for each in (give(link), hear(link))]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                await end_tasks(*tasks)
        for task in tasks:
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error

    async def _report(self, link: StandbyLink) -> int:
        """The next report, of a standby perhaps an answer, which is negative."""
        async with asyncio.timeout(SILENCE_S):
            (position,) = REPORT.unpack(await self._reader.readexactly(REPORT.size))
        if position > self._port.broker.log_end:
            raise FrameTooLong(f"a report of {position}")
        if position >= 0:
            link.position = position
        return int(position)

    async def _hear_slave(self, link: StandbyLink) -> None:
        while (position := await self._report(link)) >= 0:
            pass
        raise FrameTooLong(f"a report of {position}")

    async def _hear(self, link: StandbyLink) -> None:
        handover = self._port.handover
        while True:
            position = await self._report(link)
            if position == REFUSED:
                await handover.returned(self._ha_listen)
            elif position < 0:
                if not await handover.heard(self._ha_listen, -position):
                    raise FrameTooLong(f"a report of {position}")
            else:
                self._taken.note_report()
                if (cut := self._taken.cut) is not None:
                    link.end = cut.log_end, cut.journal

    async def _give(self, cursor: LeaderCursor, link: StandbyLink) -> None:
        try:
            await self._give_pieces(cursor, link)
        finally:
            await end_tasks(self._copying)
            if self._feed is not None:
                await asyncio.to_thread(self._feed.close)

    async def _give_pieces(self, cursor: LeaderCursor, link: StandbyLink) -> None:
        broker, loop = self._port.broker, asyncio.get_running_loop()
        beat_s = loop.time()
        while True:
            was_given = await self._give_database()
            if cursor.plan():
                piece = await asyncio.to_thread(cursor.read, PIECE_BYTES)
                self._taken.note_frame(piece if isinstance(piece, ReplicaCut) else None)
                await self._send(frame(broker.log_end, encode(piece)))
                beat_s = loop.time() + HEARTBEAT_S
                if isinstance(piece, ReplicaCut):
                    await asyncio.sleep(ROUND_S)
                continue
            if was_given:
                continue
            if link.order is not None:
                await self._give_database(waits=True)  # what is under way is perhaps not the newest
                while await self._give_database(waits=True):
                    pass
            order, link.order = link.order, None
            if order is not None:
                await self._send(frame(broker.log_end, encode(order)))
            if loop.time() >= beat_s:
                self._taken.note_frame(None)
                await self._send(frame(broker.log_end))
                beat_s = loop.time() + HEARTBEAT_S
            await self._port.woken(LOOK_S)

    async def _give_database(self, *, waits: bool = False) -> bool:
        """Give a piece of the database's copy; False where there is none, or none yet.

        A copy is made and read beside the log's pieces, unless the caller `waits` for it.
        """
        if self._copying is None:
            if self._feed is None or not (waits or self._feed.is_due):
                return False
            copying = asyncio.to_thread(self._feed.next)
            self._copying = asyncio.get_running_loop().create_task(copying)
            self._copying.add_done_callback(lambda _: self._port.standbys.wake())
        if not (waits or self._copying.done()):
            return False
        piece = await self._copying
        self._copying = None
        if piece is None:
            return False
        self._taken.note_frame(None)
        await self._send(frame(self._port.broker.log_end, encode(piece)))
        return True

    async def _give_log(self, copied: LogCursor, _: StandbyLink) -> None:
        loop, beat_s = asyncio.get_running_loop(), 0.0
        while True:
            if copied.plan():
                position, data = await asyncio.to_thread(copied.read, SLAVE_BYTES)
                await self._send(frame(position, data))
                beat_s = loop.time() + HEARTBEAT_S
                continue
            if loop.time() >= beat_s:
                await self._send(frame(copied.position))
                beat_s = loop.time() + HEARTBEAT_S
            await self._port.woken(HEARTBEAT_S)
