"""Keeps a standby of an Apache RocketMQ master fed: its log as its slaves get it, and its tables.

Tables are taken over once the log has all that the master had when it gave them, and written to the
disk behind it: what they call done has left its records there.
"""

import asyncio
from zlib import crc32

from app.cluster.errors import ClusterError
from app.cluster.master import ClusterMaster, LogEnds, MasterPlace
from app.container import Services
from app.listen_address import host_and_port
from app.replication.follower import BUSY_S, Follower
from app.replication.master_link import MasterLink
from app.replication_settings import rocketmq_peer
from app.tasks import end_tasks
from engine.errors import Busy, Conflict
from engine.handover.master_tables import MasterTables, parse
from engine.replication.epochs import EpochHistory
from engine.replication.pieces import LogPiece
from engine.replication.rocketmq_standby import RocketmqStandby

TABLES_S = 3.0  # from one reading of the tables to the next, as RocketMQ's own slaves
STALL_S = 20.0  # without a byte though the master has more


class MasterFollower(Follower):
    """Feeds the engine of a standby between `start` and `stop`."""

    def __init__(self, services: Services) -> None:
        super().__init__(services)
        self._settings = services.settings
        self._taking = asyncio.Lock()  # by one of both tasks at a time
        self._news = asyncio.Event()
        self._writing: asyncio.Future[None] | None = None

    async def start(self) -> None:
        """Begin to follow."""
        settings = self._settings
        peer = rocketmq_peer(settings.follow)
        assert peer is not None, "the settings were checked"
        self._master = ClusterMaster(
            peer.name_servers,
            peer.broker,
            access_key=settings.follow_access_key,
            secret_key=settings.follow_secret_key,
        )
        await super().start()

    async def stop(self) -> None:
        """End the connections; what was taken is kept."""
        await super().stop()
        if self._writing is not None:
            await asyncio.wait([self._writing])
        await self._master.close()

    @property
    def _standby(self) -> RocketmqStandby:
        standby = self._host.standby_broker.standby
        assert isinstance(standby, RocketmqStandby)
        return standby

    async def _follow(self) -> None:
        """Take what the master gives, until a connection is lost."""
        try:
            await self._follow_master()
        except ClusterError as error:
            raise Busy(str(error)) from error

    async def _follow_master(self) -> None:
        place = await self._master.find()
        address = host_and_port(place.ha_address, "")
        if address is None:
            raise Busy(f"the master's HA address is {place.ha_address!r}")
        self._standby.begin_again()
        begin = self._begin(place, await self._master.ends())
        await self._leadership.adopt(EpochHistory(), self._following.leader)
        link = await MasterLink.open(*address, begin)
        loop = asyncio.get_running_loop()
        tasks = [loop.create_task(each) for each in (self._copy_log(link), self._copy_tables())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await end_tasks(*tasks)
            link.close()
        for task in tasks:
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error

    def _begin(self, place: MasterPlace, ends: LogEnds) -> int:
        """From where the log is asked for; Conflict where that master cannot be followed."""
        own = self._settings.segment_bytes
        if place.segment_bytes != own:
            raise Conflict(
                f"the master's mappedFileSizeCommitLog is {place.segment_bytes}, the setting "
                f"segment_bytes is {own}: start with --segment-bytes {place.segment_bytes}",
                field="segment_bytes",
            )
        written = self._standby.end[0]
        self._following.leader_end = ends.end
        if ends.end < written:
            raise Conflict(
                f"the master's log ends at {ends.end}, this one's at {written}: the master has "
                "lost what came last. Promote this standby; or move its data directory away, and "
                "an empty one is filled anew"
            )
        if 0 < written < ends.oldest:
            raise Conflict(
                f"this log ends at {written}, the master's begins at {ends.oldest}: its retention "
                "took what lay between. Move the data directory away: an empty one is filled anew"
            )
        return max(self._standby.overlap, ends.oldest)

    async def _copy_log(self, link: MasterLink) -> None:
        following = self._following
        while True:
            position, data = await link.next()
            if data:
                async with self._taking:
                    self._standby.take(LogPiece(position, data, crc32(data)))
                    await self._show()
                following.leader_end = max(following.leader_end, position + len(data))
                self._news.set()
            link.report(self._standby.end[0])

    async def _show(self) -> None:
        while self._standby.is_busy:
            self._standby.show()
            await asyncio.sleep(BUSY_S if self._standby.is_waiting else 0)

    async def _copy_tables(self) -> None:
        while True:
            before = await self._master.ends()
            tables = MasterTables(await self._master.tables(), before.end)
            state = await asyncio.to_thread(parse, tables)
            after = await self._master.ends()
            self._following.leader_end = after.end
            self._connected()
            await self._reach(after.end)
            async with self._taking:
                for _ in self._standby.apply(state):
                    await asyncio.sleep(0)
                await self._show()
                self._standby.expire(after.oldest)
            await self._host.flushed(self._standby.end[0])
            await self._write(tables)
            await asyncio.sleep(TABLES_S)

    async def _reach(self, position: int) -> None:
        """Wait until the log has all before a position of the master's."""
        while self._standby.end[0] < position:
            self._news.clear()
            try:
                async with asyncio.timeout(STALL_S):
                    await self._news.wait()
            except TimeoutError:
                end = self._standby.end[0]
                detail = f"the master's log goes to {position}, and nothing comes behind {end}"
                raise Busy(detail) from None

    async def _write(self, tables: MasterTables) -> None:
        """Write the tables' files; a stop waits for it."""
        write = asyncio.to_thread(self._standby.table_files.write, tables)
        self._writing = asyncio.ensure_future(write)
        await asyncio.shield(self._writing)
