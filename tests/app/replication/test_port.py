"""The port for standbys: the log for slaves of RocketMQ, log and journal for standbys."""

import asyncio
import struct
from pathlib import Path
from typing import Any

import msgspec
import pytest

from app.replication import connection
from app.replication.link import LeaderLink
from app.settings import SettingsError, load
from engine.broker import TopicConfig
from engine.clock import SystemClock
from engine.config import EngineConfig
from engine.errors import Refused
from engine.message import Message
from engine.replication.comparison import DataDirectory, compare
from engine.replication.standby import Standby
from engine.store.files import OsFiles
from engine.store.pool import InlinePool
from engine.store.record import decode
from tests.app.replication.conftest import LIMIT_S, Leader, Opened

pytestmark = pytest.mark.anyio
SECRET = "a secret of two servers"


class Slave:
    """What Apache RocketMQ's slave sends and expects, byte by byte."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def connect(cls, leader: Leader, offset: int) -> "Slave":
        slave = cls(*await asyncio.open_connection("127.0.0.1", leader.port))
        slave.report(offset)
        return slave

    def report(self, offset: int) -> None:
        self._writer.write(struct.pack(">q", offset))

    async def frame(self) -> tuple[int, bytes]:
        async with asyncio.timeout(LIMIT_S):
            offset, size = struct.unpack(">qi", await self._reader.readexactly(12))
            return offset, await self._reader.readexactly(size)

    async def is_closed(self) -> bool:
        async with asyncio.timeout(LIMIT_S):
            return not await self._reader.read(1)

    def close(self) -> None:
        self._writer.close()


def standby_in(path: Path, **changes: int) -> Standby:
    config = EngineConfig(data=path, disk_free_min_bytes=0, **changes)
    return Standby(config, clock=SystemClock(), pool=InlinePool())


async def drain(link: LeaderLink) -> None:
    """Read until the leader refuses, or closes."""
    while True:
        await link.next()


async def test_a_slave_of_rocketmq_gets_the_log_in_its_own_frames(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "HEARTBEAT_S", 0.1)
    async with opened() as leader:
        leader.send(b"one", b"two")
        slave = await Slave.connect(leader, 0)
        offset, data = await slave.frame()
        assert offset == 0
        first = decode(data, 0)
        assert (first.body, decode(data, first.size_bytes).body) == (b"one", b"two")
        assert len(data) == leader.broker.log_end
        slave.report(len(data))
        assert await slave.frame() == (len(data), b"")  # a heartbeat
        leader.send(b"three")
        while not (given := await slave.frame())[1]:
            continue
        offset, more = given
        assert offset == len(data)
        assert decode(more, 0).body == b"three"
        assert [link.kind for link in leader.links] == ["rocketmq"]
        slave.close()


async def test_a_slave_that_has_nothing_begins_with_the_last_segment(opened: Opened) -> None:
    async with opened(segment_bytes=4096) as leader:
        leader.send(*[b"x" * 1000] * 6)
        slave = await Slave.connect(leader, 0)
        offset, data = await slave.frame()
        assert offset == leader.broker.log_end // 4096 * 4096 > 0
        assert offset + len(data) == leader.broker.log_end
        slave.close()


async def test_a_slave_goes_on_where_it_is_and_over_the_end_of_a_segment(opened: Opened) -> None:
    async with opened(segment_bytes=4096) as leader:
        leader.send(*[b"x" * 1000] * 6)
        slave = await Slave.connect(leader, 100)
        offset, copied = 100, b""
        while offset < leader.broker.log_end:
            at, data = await slave.frame()
            assert at == offset
            offset, copied = at + len(data), copied + data
        path = leader.app.services.settings.data / "commitlog"
        log = b"".join(file.read_bytes() for file in sorted(path.iterdir()))
        assert copied == log[100:offset]
        slave.close()


@pytest.mark.parametrize("offset", [-1, 1_000_000])
async def test_a_slave_with_an_impossible_position_is_closed(opened: Opened, offset: int) -> None:
    async with opened() as leader:
        leader.send(b"one")
        slave = await Slave.connect(leader, offset)
        assert await slave.is_closed()
        slave.close()


async def test_with_a_secret_no_slave_gets_a_byte(opened: Opened) -> None:
    async with opened(ha_secret=SECRET) as leader:
        leader.send(b"one")
        slave = await Slave.connect(leader, 0)
        assert await slave.is_closed()
        slave.close()


async def test_a_standby_is_filled_over_the_port(opened: Opened, tmp_path: Path) -> None:
    async with opened() as leader:
        leader.send(*[b"%d" % number for number in range(500)])
        leader.broker.create_topic(TopicConfig("empty"))
        standby = standby_in(tmp_path / "standby")
        await leader.fill(standby)
        leader.send(b"later")
        await leader.fill(standby)
        standby.close()
    found = compare(*(DataDirectory(OsFiles(), tmp_path / name) for name in ("leader", "standby")))
    assert found.differences == []
    assert found.changes


async def test_the_leader_knows_how_far_its_standby_is(opened: Opened, tmp_path: Path) -> None:
    async with opened() as leader:
        leader.send(b"one")
        standby, link = standby_in(tmp_path / "standby"), await leader.link()
        link.begin(standby.state())
        async with asyncio.timeout(LIMIT_S):
            while not leader.links:
                await asyncio.sleep(0.01)
            (seen,) = leader.links
            assert (seen.kind, seen.lag_bytes(leader.broker.log_end)) == (
                "kitemq",
                leader.broker.log_end,
            )
            link.report(leader.broker.log_end)
            while seen.lag_bytes(leader.broker.log_end):
                await asyncio.sleep(0.01)
            link.close()
            while leader.links:
                await asyncio.sleep(0.01)
        standby.close()


async def test_who_does_not_know_the_secret_gets_nothing(opened: Opened) -> None:
    async with opened(ha_secret=SECRET) as leader:
        leader.send(b"one")
        for secret in ("", "another secret than that"):
            with pytest.raises(Refused, match="does not take this server's ha_secret") as refusal:
                await leader.link(secret)
            assert refusal.value.field == "ha_secret"
        (await leader.link(SECRET)).close()


async def test_a_standby_refuses_a_leader_that_does_not_know_the_secret() -> None:
    async def pretend(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(bytes(32))
        await reader.readexactly(8 + 64)
        writer.write(bytes(32))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(pretend, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(Refused, match="does not know this server's ha_secret"):
            await LeaderLink.open("127.0.0.1", port, SECRET)


async def test_a_standby_that_is_no_copy_is_told_why(opened: Opened, tmp_path: Path) -> None:
    async with opened() as leader:
        leader.send(b"one")
        link = await leader.link()
        standby = standby_in(tmp_path / "standby", segment_bytes=8192)
        link.begin(standby.state())
        with pytest.raises(Refused, match="segments have 8192 bytes") as refusal:
            await link.next()
        assert (refusal.value.code, refusal.value.field) == ("conflict", "segment_bytes")
        assert "8192" in leader.app.services.standbys.refusal
        link.close()
        standby.close()


@pytest.mark.parametrize(
    "changes",
    [
        {"journal_tail_bytes": 1 << 50},
        {"journal": (-1, 1 << 60), "journal_tail_bytes": 4096},
        {"journal": (0, -(1 << 60)), "journal_tail_bytes": 1},
        {"log_end": -1},
        {"log_tail_bytes": 4096, "log_end": 1},
        {"segment_bytes": "x"},
    ],
    ids=str,
)
async def test_a_state_that_cannot_be_is_refused_and_the_port_goes_on(
    opened: Opened, tmp_path: Path, changes: dict[str, Any]
) -> None:
    async with opened() as leader:
        leader.send(b"one")
        standby, link = standby_in(tmp_path / "standby"), await leader.link()
        link.begin(msgspec.structs.replace(standby.state(), **changes))
        with pytest.raises((Refused, ConnectionError)):
            await drain(link)
        link.close()
        await leader.fill(standby)
        standby.close()


async def test_no_more_standbys_than_permitted_are_served(opened: Opened, tmp_path: Path) -> None:
    async with opened(ha_standbys_max=1) as leader:
        standby = standby_in(tmp_path / "standby")
        first, second = await leader.link(), await leader.link()
        first.begin(standby.state())
        await first.next()
        second.begin(standby.state())
        with pytest.raises(Refused, match="ha_standbys_max"):
            await second.next()
        first.close()
        second.close()
        standby.close()


async def test_a_standby_that_reads_nothing_holds_up_no_memory(
    opened: Opened, tmp_path: Path
) -> None:
    async with opened() as leader:
        for _ in range(40):
            leader.broker.send([Message("orders", bytes(1024 * 1024))])
        slave = await Slave.connect(leader, 0)
        async with asyncio.timeout(LIMIT_S):
            while not (stalled := [*leader.monitor._stalled]):
                await asyncio.sleep(0.01)
        assert 0 < stalled[0].transport.get_write_buffer_size() < 512 * 1024
        slave.close()


def test_a_port_that_others_reach_needs_a_secret(tmp_path: Path) -> None:
    base = {"data": str(tmp_path), "ha_listen": "0.0.0.0:10912"}
    with pytest.raises(SettingsError, match="set 'ha_secret' too"):
        load(base, environ={})
    assert load({**base, "ha_secret": SECRET}, environ={}).ha_secret == SECRET
    with pytest.raises(SettingsError, match="16 characters or more"):
        load({**base, "ha_secret": "short"}, environ={})
    with pytest.raises(SettingsError, match="expected off, HOST:PORT or PORT"):
        load({**base, "ha_listen": "auto"}, environ={})
