"""Connections that cost something below the application: silent ones, slow ones, large heads."""

import http.client
import json
import socket

import pytest

from tests.attack.attack import Attacker, withstand
from tests.attack.target import Target


def test_a_server_that_nobody_attacks_withstands_that(target: Target) -> None:
    """The measure itself: what others do under the limits, with nothing beside it."""
    withstand(target, lambda attacker: attacker.rest(10.0), attack_s=10.0)


def test_a_thousand_silent_connections_stop_no_write(target: Target) -> None:
    def stay_silent(attacker: Attacker) -> None:
        for _ in range(1100):
            attacker.connect()
        attacker.rest(attacker.left_s)

    withstand(target, stay_silent)


def test_a_server_with_users_serves_those_who_know_them(closed_target: Target) -> None:
    """The measure with a login, and that gRPC's library starts within the limits."""

    def greet(attacker: Attacker) -> None:
        link = attacker.connect(closed_target.grpc_port)
        link.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0)))
        link.settimeout(30)
        assert link.recv(1024), "gRPC's server did not answer"
        attacker.rest(5.0)

    withstand(closed_target, greet, attack_s=10.0)


def test_half_sent_headers_do_not_stay(target: Target) -> None:
    """Slow loris: heads that never end, a header a second, from 1,100 connections."""

    def dribble(attacker: Attacker) -> None:
        links: list[socket.socket] = []
        while not attacker.is_over:
            links = [link for link in links if said(link, b"X-a: b\r\n")]
            while len(links) < 1100 and not attacker.is_over:
                link = attacker.connect()
                if not said(link, b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n"):
                    attacker.drop(link)
                    break
                links.append(link)
            attacker.rest(1.0)

    withstand(target, dribble)


def test_a_flood_of_small_headers_takes_no_memory(target: Target) -> None:
    """Two hundred megabytes of them took three gigabytes."""

    def flood(attacker: Attacker) -> None:
        piece = b"".join(b"a%d: b\r\n" % number for number in range(20_000))
        while not attacker.is_over:
            links = [attacker.connect() for _ in range(20)]
            for link in links:
                said(link, b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n")
            for _ in range(50):
                for link in links:
                    said(link, piece)
            for link in links:
                attacker.drop(link)
            attacker.rest(0.02)

    withstand(target, flood, growth_mib_max=128.0)


@pytest.mark.parametrize("begin", [b"GET /", b"GET / HTTP/1.1\r\nX-long: "], ids=["url", "header"])
def test_one_long_line_does_not_stop_the_loop(target: Target, begin: bytes) -> None:
    def send_long(attacker: Attacker) -> None:
        piece = b"a" * 1_000_000
        while not attacker.is_over:
            link = attacker.connect()
            said(link, begin)
            for _ in range(64):
                if not said(link, piece):
                    break
            attacker.drop(link)
            attacker.rest(0.02)

    withstand(target, send_long, growth_mib_max=128.0)


def test_who_reads_no_answers_does_not_keep_them_in_memory(target: Target) -> None:
    def ask_and_not_read(attacker: Attacker) -> None:
        fill(attacker, count=40, size_bytes=200_000)
        path = b"/api/v1/topics/heavy/messages?queue=0&offset=0&limit=32"
        question = b"GET %b HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % (path, target.port)
        while not attacker.is_over:
            for _ in range(300):
                link = attacker.connect()
                link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                said(link, question)
            attacker.rest(5.0)

    withstand(target, ask_and_not_read, growth_mib_max=320.0)


def test_many_requests_at_once_on_one_connection_take_no_memory(target: Target) -> None:
    def pipeline(attacker: Attacker) -> None:
        question = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % target.port
        while not attacker.is_over:
            links = [attacker.connect() for _ in range(20)]
            for link in links:
                said(link, question * 5000)
            for link in links:
                attacker.drop(link)
            attacker.rest(0.1)

    withstand(target, pipeline, growth_mib_max=128.0)


def test_bodies_that_come_a_byte_at_a_time_do_not_stay(target: Target) -> None:
    def dribble(attacker: Attacker) -> None:
        head = b"POST /api/v1/topics/x/messages HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n" % target.port
        head += b"Content-Type: application/json\r\nContent-Length: 1000000\r\n\r\n"
        links: list[socket.socket] = []
        while not attacker.is_over:
            links = [link for link in links if said(link, b" ")]
            while len(links) < 1100 and not attacker.is_over:
                link = attacker.connect()
                if not said(link, head):
                    attacker.drop(link)
                    break
                links.append(link)
            attacker.rest(1.0)

    withstand(target, dribble)


def test_silent_connections_to_the_grpc_port_stop_no_write(target: Target) -> None:
    def stay_silent(attacker: Attacker) -> None:
        while not attacker.is_over:
            for _ in range(400):
                link = attacker.connect(target.grpc_port)
                said(link, b"P" if attacker.left_s % 2 < 1 else b"\x16")
            attacker.rest(12.0)

    withstand(target, stay_silent)


def said(link: socket.socket, data: bytes) -> bool:
    """Whether it could be sent; a connection that takes no more for a second counts as gone."""
    link.settimeout(1.0)
    try:
        link.sendall(data)
    except OSError:
        return False
    return True


def fill(attacker: Attacker, *, count: int, size_bytes: int) -> None:
    """Messages that make large answers."""
    target = attacker.target
    body = json.dumps({"messages": [{"body": "x" * size_bytes, "queue": 0}]})
    for _ in range(count):
        link = http.client.HTTPConnection("127.0.0.1", target.port, timeout=10)
        link.request(
            "POST", "/api/v1/topics/heavy/messages", body, {"Content-Type": "application/json"}
        )
        answer = link.getresponse()
        assert answer.status < 300, answer.read()
        link.close()
