"""Places of connections: in all, by address, within the open files; a listener without files."""

import asyncio
import errno
import logging
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.bounds import complaint
from app.connection_settings import ConnectionSettings
from app.errors import problem_of
from app.grpc.certificate import own_certificate
from app.grpc.quotas import ConnectionQuota
from app.network import connection_limits
from app.network.acceptor import Acceptor
from app.network.connection_limits import ConnectionLimits
from app.network.log_limits import LINES_MAX, RepeatFilter
from app.network.open_files import FileShares, file_shares, log_files, queue_files
from app.security.login_limits import network_of
from app.security.proxies import TrustedProxies
from app.services.rpc_figures import RpcFigures

pytestmark = pytest.mark.anyio


def places_of(
    files: int = 100,
    trusted: tuple[str, ...] = (),
    clock_s: Callable[[], float] = lambda: 0.0,
    **changes: Any,
) -> ConnectionLimits:
    settings = ConnectionSettings(**changes)
    shares = FileShares(files + 50, files)
    return ConnectionLimits(
        settings, shares, clock_s, is_trusted=TrustedProxies(tuple(trusted)).trusts
    )


def test_one_address_gets_at_most_half_of_the_files_of_connections() -> None:
    found = places_of(files=10)
    held = [found.take("10.0.0.1") for _ in range(6)]
    assert [place is not None for place in held] == [True] * 5 + [False]
    assert found.take("10.0.0.2") is not None
    assert found.refusals.counts[connection_limits.BY_ADDRESS] == 1


def test_a_place_is_given_back_once() -> None:
    found = places_of(address_connections_max=1)
    place = found.take("10.0.0.1")
    assert place is not None
    assert found.take("10.0.0.1") is None
    place.release()
    place.release()
    assert found.count == 0
    assert found.take("10.0.0.1") is not None


def test_a_grpc_connection_takes_a_place_of_all_ports_and_one_of_its_own() -> None:
    found, figures = places_of(files=4), RpcFigures()
    quota = ConnectionQuota(found, figures, each_max=10, all_max=3)
    places = [quota.take(f"10.0.0.{number}") for number in range(4)]
    assert [place is not None for place in places] == [True] * 3 + [False]
    assert (found.count, figures.connections_refused) == (3, 1)
    other = found.take("10.0.0.9")
    assert other is not None
    assert places[0] is not None
    places[0].release()
    places[0].release()
    assert found.count == 3
    assert found.take("10.0.0.10") is not None
    assert quota.take("10.0.0.1") is None, "no file is left"
    other.release()
    assert quota.take("10.0.0.1") is not None, "and its own place was given back"


def test_what_has_no_room_in_all_is_refused_for_that_reason() -> None:
    found = places_of(files=4)
    for number in range(4):
        assert found.take(f"10.0.0.{number}") is not None
    assert found.take("10.0.0.9") is None
    assert found.refusals.counts[connection_limits.NO_FILES] == 1
    found = places_of(connections_max=1)
    assert found.take("10.0.0.1") is not None
    assert found.take("10.0.0.2") is None
    assert found.refusals.counts[connection_limits.IN_ALL] == 1


def test_fewer_connections_are_taken_where_others_have_many_files_open() -> None:
    found = places_of(files=100)
    found.make_room(others=100)
    assert found.count_max < 50
    found.make_room(others=10)
    assert found.count_max == 100


def test_a_trusted_proxy_is_not_limited_like_one_client() -> None:
    found = places_of(trusted=("10.0.0.0/8",), address_connections_max=1)
    assert all(found.take("10.1.2.3") for _ in range(50))
    assert found.take("192.0.2.1") is not None
    assert found.take("192.0.2.1") is None


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("2001:db8::1", "2001:db8::ffff:2", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("192.0.2.1", "192.0.2.2", False),
        ("fe80::1%eth0", "fe80::2%eth0", True),
    ],
)
def test_an_address_is_ipv4_or_a_network_that_one_host_has(
    one: str, other: str, is_same: bool
) -> None:
    assert (network_of(one) == network_of(other)) is is_same


@pytest.mark.parametrize("limit", [64, 256, 1024, 20_000])
def test_files_are_left_for_the_engine_whatever_the_limit(limit: int) -> None:
    queues = queue_files(512, limit)
    shares = file_shares(ConnectionSettings(), queues, limit)
    assert 0 < shares.connections <= limit - queues
    assert shares.reserved >= min(160, limit // 4)


@pytest.mark.parametrize(
    ("wanted", "reserved", "files"), [(64, 160, 64), (1000, 160, 80), (64, 10, 5), (64, 0, 1)]
)
def test_half_of_what_is_reserved_is_not_for_files_of_the_log(
    wanted: int, reserved: int, files: int
) -> None:
    assert log_files(wanted, reserved) == files


def test_refusals_are_a_line_a_minute_for_each_reason(caplog: pytest.LogCaptureFixture) -> None:
    now_s = 0.0
    found = places_of(clock_s=lambda: now_s, address_connections_max=1)
    found.take("10.0.0.1")
    with caplog.at_level(logging.WARNING, "kitemq.network"):
        for _ in range(1000):
            found.take("10.0.0.1")
        assert len(caplog.records) == 1
        now_s = 61.0
        found.take("10.0.0.1")
    assert "1000 connections were refused or closed (address_connections_max)" in caplog.text


def test_a_library_repeats_itself_only_so_often(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("noisy")
    quiet = RepeatFilter()
    logger.addFilter(quiet)
    with caplog.at_level(logging.WARNING, "noisy"):
        for number in range(100):
            logger.warning("a client sent %d", number)
        logger.warning("something else")
    assert len(caplog.records) == LINES_MAX + 1
    logger.removeFilter(quiet)


def test_no_file_left_is_a_503_also_where_the_file_was_not_the_engines() -> None:
    problem = problem_of(OSError(errno.EMFILE, "Too many open files", "x"))
    assert (problem.status, problem.code) == (503, "out_of_files")
    assert "Too many open files" in problem.detail


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"connections_max": 0}, "connections_max"),
        ({"header_bytes_max": 100}, "header_bytes_max"),
        ({"write_timeout_s": 0.0}, "write_timeout_s"),
    ],
)
def test_a_limit_that_would_stop_the_server_is_refused(changes: Any, name: str) -> None:
    assert name in complaint(ConnectionSettings(**changes))


class Failing:
    """A listener without files."""

    def __init__(self, listener: socket.socket) -> None:
        self.listener = listener
        self.is_failing = True
        self.tries = 0

    def accept(self) -> Any:
        self.tries += 1
        if self.is_failing:
            raise OSError(errno.EMFILE, "Too many open files")
        return self.listener.accept()

    def fileno(self) -> int:
        return self.listener.fileno()


def listening() -> socket.socket:
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(8)
    listener.setblocking(False)
    return listener


async def test_a_listener_without_files_rests_instead_of_trying_again_and_again() -> None:
    found = places_of()
    with listening() as listener:
        failing: Any = Failing(listener)
        made = Acceptor(
            failing,
            found,
            lambda place: asyncio.Protocol(),
            certificate=None,
            handshake_s=1,
            takes_plain=True,
        )
        made.start()
        _, writer = await asyncio.open_connection(*listener.getsockname())
        await asyncio.sleep(0.3)
        assert 1 <= failing.tries < 10
        failing.is_failing = False
        async with asyncio.timeout(10):
            while not found.count:
                await asyncio.sleep(0.01)
        writer.close()
        await made.stop()
    assert found.refusals.counts[connection_limits.SHORT_OF_FILES] >= 1


async def test_a_silent_tls_handshake_holds_a_place_and_gives_it_back(tmp_path: Path) -> None:
    found = places_of()
    with listening() as listener:
        acceptor = Acceptor(
            listener,
            found,
            lambda place: asyncio.Protocol(),
            certificate=own_certificate(tmp_path, "127.0.0.1"),
            handshake_s=0.3,
            takes_plain=False,
        )
        acceptor.start()
        _, writer = await asyncio.open_connection(*listener.getsockname())
        async with asyncio.timeout(10):
            while not found.count:
                await asyncio.sleep(0.01)
            while found.count:
                await asyncio.sleep(0.01)
        assert found.refusals.counts[connection_limits.TLS] == 1
        writer.close()
        await acceptor.stop()
