"""What the HTTP port puts up with, over a real server process: each limit, and what it leaves."""

import json
import re
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.app.test_serve import LIMIT_S, serving
from tests.patience import until

# Short enough to wait for; a server looks at its connections once a second.
SHORT = (
    *("--header-timeout-s", "1.5", "--body-timeout-s", "1.5", "--keep-alive-s", "1"),
    *("--write-timeout-s", "1.5", "--transfer-bytes-per-s-min", "2000"),
    *("--address-connections-max", "20", "--connections-max", "30", "--grpc-listen", "off"),
)
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n"


class Served:
    """A server's address, and what can be said to it."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.port = urlsplit(url).port or 0
        self.links: list[socket.socket] = []

    def connect(self, source: str = "127.0.0.1") -> socket.socket:
        link = socket.create_connection(
            ("127.0.0.1", self.port), LIMIT_S, source_address=(source, 0)
        )
        link.settimeout(LIMIT_S)
        self.links.append(link)
        return link

    def close(self) -> None:
        """Close what the test left open."""
        while self.links:
            self.links.pop().close()

    def ask(self, *pieces: bytes, source: str = "127.0.0.1") -> bytes:
        """All that comes back until the server closes."""
        with closing(self.connect(source)) as link:
            for piece in pieces:
                link.sendall(piece)
            return rest_of(link)

    def refused(self, reason: str) -> int:
        """How many connections were refused or closed for a reason."""
        # From an address of its own: that of the test may be full.
        head = b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
        answers: list[bytes] = []

        def is_answered() -> bool:  # not while connections that were closed still have a place
            answers.append(self.ask(head, source="127.0.0.9"))
            return bool(answers[-1])

        until(is_answered)
        text = answers[-1].decode()
        found = re.search(rf'kitemq_connections_refused_total{{reason="{reason}"}} (\d+)', text)
        assert found is not None, text
        return int(found[1])


def rest_of(link: socket.socket) -> bytes:
    """What comes until the end; a connection that is broken off has ended as well."""
    data = b""
    while True:
        try:
            piece = link.recv(65536)
        except ConnectionError:
            return data
        if not piece:
            return data
        data += piece


def answer_of(link: socket.socket) -> bytes:
    """One answer with a body in JSON, in however many pieces it comes."""
    answer = b""
    while (piece := link.recv(65536)) and not (answer := answer + piece).endswith(b"}"):
        continue
    return answer


def is_served(link: socket.socket) -> bool:
    """Whether a connection is alive: it gets an answer."""
    try:
        link.sendall(HEALTH + b"\r\n")
        return b" 200 " in answer_of(link)
    except ConnectionError:
        return False


@contextmanager
def served_with(data: Path, *options: str) -> Iterator[Served]:
    with serving(data, *options) as (_, url):
        served = Served(url)
        try:
            yield served
        finally:
            served.close()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.app.test_serve.GUARD_S", 300)  # for all tests of this module
        with served_with(tmp_path_factory.mktemp("network") / "data", *SHORT) as found:
            yield found


@pytest.fixture
def lasting(tmp_path: Path) -> Iterator[Served]:
    """A server with few connections, which stay open while a test looks at them."""
    few = ("--address-connections-max", "20", "--connections-max", "30", "--grpc-listen", "off")
    with served_with(tmp_path / "data", *few, "--header-timeout-s", "60") as found:
        yield found


@pytest.fixture(autouse=True)
def _quiet_before(request: pytest.FixtureRequest) -> None:
    """What the test before left open is closed by now."""
    if "served" in request.fixturenames:
        served: Served = request.getfixturevalue("served")
        served.close()
        until(lambda: is_alone(served), "connections of the test before stayed open")


def is_alone(served: Served) -> bool:
    head = b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
    return b"\nkitemq_connections 1\n" in served.ask(head, source="127.0.0.9")


# -- heads -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "head",
    [HEALTH + b"X-long: " + b"a" * 40_000, HEALTH + b"a: b\r\n" * 8000],
    ids=["one header", "many headers"],
)
def test_a_head_above_the_limit_is_a_431_that_says_so(served: Served, head: bytes) -> None:
    answer = served.ask(head)
    assert answer.startswith(b"HTTP/1.1 431 ")
    problem = json.loads(answer.partition(b"\r\n\r\n")[2])
    assert (problem["code"], "32768 bytes" in problem["detail"]) == ("headers_too_large", True)


def test_a_url_above_the_limit_is_a_414(served: Served) -> None:
    answer = served.ask(b"GET /" + b"a" * 40_000)
    assert answer.startswith(b"HTTP/1.1 414 ")
    assert b"url_too_long" in answer


def test_a_head_just_below_the_limit_is_served_however_it_comes(served: Served) -> None:
    head = HEALTH + b"X-long: " + b"a" * 32_000 + b"\r\nConnection: close\r\n\r\n"
    for size in (len(head), 1000, 7):
        pieces = [head[at : at + size] for at in range(0, len(head), size)]
        assert served.ask(*pieces).startswith(b"HTTP/1.1 200 "), size


def test_the_limit_holds_for_each_head_and_not_for_what_went_before(served: Served) -> None:
    with closing(served.connect()) as link:
        for _ in range(5):
            link.sendall(HEALTH + b"X-long: " + b"a" * 20_000 + b"\r\n\r\n")
            assert b" 200 " in answer_of(link)


def test_a_head_that_is_not_complete_in_time_is_a_408(served: Served) -> None:
    before = served.refused("header_timeout")
    assert served.ask(HEALTH).startswith(b"HTTP/1.1 408 ")
    assert served.ask() == b"", "who says nothing is told nothing"
    assert served.refused("header_timeout") == before + 2


def test_a_head_that_goes_on_for_ever_is_a_408_as_well(served: Served) -> None:
    with closing(served.connect()) as link:
        end_s = time.monotonic() + LIMIT_S
        link.sendall(HEALTH)
        link.settimeout(0.2)
        answer = b""
        while not answer and time.monotonic() < end_s:
            link.sendall(b"a: b\r\n")
            try:
                answer = link.recv(65536)
            except TimeoutError:
                continue
    assert answer.startswith(b"HTTP/1.1 408 ")


def test_what_is_no_http_is_a_problem_and_not_a_line_in_the_log(tmp_path: Path) -> None:
    options = ("--log-level", "info", "--grpc-listen", "off")
    with serving(tmp_path / "data", *options) as (process, url):
        served = Served(url)
        for _ in range(50):
            answer = served.ask(b"\x00\x01 nonsense\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 400 ")
        assert served.refused("malformed") == 50
        process.terminate()
        assert process.stderr is not None
        lines = process.stderr.read().splitlines()
    assert len([line for line in lines if "malformed" in line]) == 1
    assert len(lines) < 10, lines


# -- bodies ----------------------------------------------------------------------------------------


def post(length: int) -> bytes:
    return (
        b"POST /api/v1/topics/t/messages HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % length
    )


def test_a_body_that_does_not_come_is_a_408(served: Served) -> None:
    before = served.refused("body_timeout")
    assert served.ask(post(1000) + b"{").startswith(b"HTTP/1.1 408 ")
    assert served.refused("body_timeout") == before + 1


def test_a_body_that_comes_slowly_enough_is_taken_whole(served: Served) -> None:
    body = json.dumps({"body": "x" * 20_000}).encode()
    with closing(served.connect()) as link:
        link.sendall(post(len(body)))
        for at in range(0, len(body), 2000):
            link.sendall(body[at : at + 2000])
            time.sleep(0.3)
        assert answer_of(link).split(b" ", 2)[1] in {b"200", b"201"}


def test_a_rest_of_a_body_that_nobody_waits_for_does_not_keep_the_connection(
    served: Served,
) -> None:
    """It is answered at once, as its topic's name is not valid; what should follow never does."""
    head = post(1000).replace(b"/topics/t/", b"/topics/%01/")
    assert served.ask(head + b"{").startswith(b"HTTP/1.1 4")


# -- connections -----------------------------------------------------------------------------------


def test_an_idle_connection_is_closed_and_one_that_waits_is_not(served: Served) -> None:
    idle = served.connect()
    assert is_served(idle)
    poll = b'{"topic": "t", "wait_ms": 4000}'
    head = post(len(poll)).replace(b"/topics/t/messages", b"/groups/g/receive")
    with closing(served.connect()) as waiting, closing(idle):
        waiting.sendall(head + poll)
        assert rest_of(idle) == b""
        assert b"deliveries" in answer_of(waiting)


def test_one_address_gets_so_many_connections_and_others_get_in(lasting: Served) -> None:
    before = lasting.refused("address_connections_max")
    links = [lasting.connect() for _ in range(20)]
    assert all(map(is_served, links))
    assert lasting.ask(HEALTH) == b""
    other = lasting.connect("127.0.0.2")
    assert is_served(other)
    assert lasting.refused("address_connections_max") == before + 1
    links.pop().close()
    until(lambda: is_served(lasting.connect()), "the place of a closed connection is not free")
    for link in (*links, other):
        link.close()


def test_all_together_get_so_many_connections(lasting: Served) -> None:
    links = [lasting.connect(f"127.0.0.{2 + number % 3}") for number in range(30)]
    assert all(map(is_served, links))
    assert lasting.ask(HEALTH, source="127.0.0.7") == b""
    for link in links:
        link.close()
    assert lasting.refused("connections_max") >= 1


def test_a_websocket_and_a_grpc_connection_count_as_well(tmp_path: Path) -> None:
    options = ("--port", str(port_pair()), "--address-connections-max", "3")
    with served_with(tmp_path / "data", *options) as served:
        handshake = (
            b"GET /ws/v1 HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            b"Connection: Upgrade\r\nUpgrade: websocket\r\n"
            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
        )
        socket_link = served.connect()
        socket_link.sendall(handshake)
        assert b" 101 " in socket_link.recv(65536)
        grpc = socket.create_connection(("127.0.0.1", served.port + 1), LIMIT_S)
        third = served.connect()
        assert is_served(third)
        assert served.ask(HEALTH) == b""
        for link in (socket_link, grpc):
            link.close()
        until(lambda: is_served(served.connect()), "a place was not given back")
        third.close()


def port_pair() -> int:
    """A port that is free, and so is the one after it."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port: int = first.getsockname()[1]
            try:
                second.bind(("127.0.0.1", port + 1))
            except (OSError, OverflowError):
                continue
            return port


def test_a_few_requests_may_be_sent_ahead_and_are_answered_in_order(served: Served) -> None:
    last = HEALTH + b"Connection: close\r\n\r\n"
    answer = served.ask((HEALTH + b"\r\n") * 9 + last)
    assert answer.count(b"HTTP/1.1 200 ") == 10


def test_hundreds_of_requests_sent_ahead_end_the_connection(served: Served) -> None:
    before = served.refused("pipelined")
    answer = served.ask((HEALTH + b"\r\n") * 500)
    assert answer.count(b"HTTP/1.1 200 ") < 500
    assert served.refused("pipelined") == before + 1


# -- readers ---------------------------------------------------------------------------------------


def asked_for_much(served: Served) -> socket.socket:
    """A connection whose client asks for twelve megabytes and reads nothing.

    The system itself holds some three of them.
    """
    body = json.dumps({"body": "x" * 3_000_000, "queue": 0}).encode()
    head = post(len(body)).replace(b"Host", b"Connection: close\r\nHost")
    head = head.replace(b"/topics/t/", b"/topics/much/")
    assert b" 20" in served.ask(head, body)
    link = socket.socket()
    served.links.append(link)
    link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    link.connect(("127.0.0.1", served.port))
    wanted = b"GET /api/v1/topics/much/messages?queue=0&offset=0&limit=1 HTTP/1.1\r\n"
    link.sendall((wanted + b"Host: 127.0.0.1\r\n\r\n") * 4)
    return link


def test_who_does_not_read_loses_the_connection(served: Served) -> None:
    before = served.refused("slow_reader")
    with closing(asked_for_much(served)):
        until(lambda: served.refused("slow_reader") > before, "it was put up with")


def test_what_waits_for_slow_readers_is_bounded_in_all(tmp_path: Path) -> None:
    options = ("--unread-bytes-max", "500000", "--grpc-listen", "off")
    with served_with(tmp_path / "data", *options) as served:
        links = [asked_for_much(served) for _ in range(4)]
        until(lambda: served.refused("unread_bytes_max"), "all of it was kept")
        assert served.refused("slow_reader") == 0, "long before their time is over"
        for link in links:
            link.close()


# -- files -----------------------------------------------------------------------------------------


def started_under(words: str, data: Path) -> str:
    """The metrics of a server that a shell started after `words`, its log before them."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [
        *("sh", "-c", f'{words} && exec "$@"', "kitemq"),
        *("python", "-m", "app.serve", "--port", str(port), "--grpc-listen", "off"),
        *("--data", str(data)),
    ]
    return _metrics_of(command, port)


def _metrics_of(command: list[str], port: int) -> str:
    command[command.index("python")] = sys.executable
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            url = f"http://127.0.0.1:{port}/metrics"
            text = until(lambda: _read(url), "it did not start")
        finally:
            process.terminate()
        assert process.stderr is not None
        return process.stderr.read() + text


def _read(url: str) -> str:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return str(answer.read().decode())
    except OSError:
        return ""


def test_a_start_raises_the_soft_limit_of_open_files_to_the_hard_one(tmp_path: Path) -> None:
    text = started_under("ulimit -Sn 256 && ulimit -Hn 4000", tmp_path / "data")
    # A quarter for the queues would be more than the 512 of the setting; 160 are reserved.
    assert "\nkitemq_connections_max 3328\n" in text


def test_where_few_files_may_be_open_fewer_connections_are_taken_and_it_is_said(
    tmp_path: Path,
) -> None:
    text = started_under("ulimit -n 1024", tmp_path / "data")
    assert "1024 files may be open: 608 connections are taken at once, 304 of one address" in text
    assert "\nkitemq_connections_max 608\n" in text
