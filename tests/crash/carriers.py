"""Producers and consumers that live through changes of leaders, of each door that clients have.

Each sends bodies of its own to one topic, again until they are accepted, and consumes all.
"""

import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from kitemq import Consumer, KiteError, Producer, TimedOut
from tests.clients.conftest import require
from tests.clients.official import ClientError, Official, body_of
from tests.patience import until
from tests.remoting.test_java import Driver, driver_of
from tests.remoting.test_java_faults import Watched

PAUSE_S = 0.02
START_S = 90.0
JAVA, GRPC_JAVA = "5.5.0", "java"
POLL_MS = 1000  # in which classic clients read their routes


class Carrier(Protocol):
    """A producer and a consumer, between their making and `close`."""

    name: str

    def accepted(self) -> list[str]:
        """The bodies that were accepted so far."""

    def received(self) -> Counter[str]:
        """The bodies that were consumed so far, and how often."""

    def assert_runs(self) -> None:
        """AssertionError with what is known of it, where one of the two has ended by itself."""

    def end_producer(self) -> None:
        """Nothing more is sent."""

    def close(self) -> None:
        """End both."""


class Sends:
    """A thread that sends a number after the other; each again until it is accepted."""

    def __init__(self, prefix: str, errors: tuple[type[Exception], ...]) -> None:
        self.accepted: list[str] = []
        self._prefix, self._errors = prefix, errors
        self._stop = threading.Event()

    def begin(self, send: Callable[[str], object]) -> None:
        self._thread = threading.Thread(target=self._run, args=(send,), daemon=True)
        self._thread.start()

    def assert_runs(self) -> None:
        """AssertionError where it has ended by itself."""
        assert self._thread.is_alive(), f"the sends of {self._prefix}… have ended"

    def end(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self, send: Callable[[str], object]) -> None:
        for number in itertools.count():
            body = f"{self._prefix}{number}"
            while not self._stop.is_set():
                with suppress(*self._errors):  # nobody leads, or no standby is in step
                    send(body)
                    self.accepted.append(body)
                    break
                time.sleep(PAUSE_S)
            if self._stop.wait(PAUSE_S):
                return


class SdkCarrier:
    """KiteMQ's own SDK."""

    name = "sdk"

    def __init__(self, servers: str, topic: str) -> None:
        self._servers, self._topic = servers, topic
        self._received: Counter[str] = Counter()
        self._sends = Sends("s", (KiteError,))
        self._stop = threading.Event()
        self._producer = Producer(servers)
        self._producer.start()
        self._sends.begin(lambda body: self._producer.send(topic, body))
        self._consumer = threading.Thread(target=self._consume, daemon=True)
        self._consumer.start()

    def accepted(self) -> list[str]:
        return self._sends.accepted[:]

    def received(self) -> Counter[str]:
        return Counter(dict(self._received))

    def assert_runs(self) -> None:
        self._sends.assert_runs()
        assert self._consumer.is_alive(), "the SDK's consumer has ended"

    def end_producer(self) -> None:
        self._sends.end()

    def close(self) -> None:
        self._stop.set()
        self.end_producer()
        self._producer.stop()
        self._consumer.join()

    def _consume(self) -> None:
        with Consumer("sdk", self._topic, self._servers) as consumer:
            while not self._stop.is_set():
                with suppress(TimedOut):
                    message = consumer.receive(0.5)
                    assert message is not None
                    self._received[bytes(message.body).decode()] += 1
                    message.ack()


class ClassicCarrier:
    """Apache's classic Java client, with both servers as its name servers."""

    name = "classic"

    def __init__(self, name_servers: Iterable[str], topic: str, home: Path) -> None:
        options = (f"-Dpoll_ms={POLL_MS}", "-Dlimit_s=100000", "-Dpause_ms=20", "-Xmx512m")
        home.mkdir()
        driver = driver_of(JAVA, ";".join(name_servers), home, *options)
        self._producer = Watched(driver, "flood", topic)
        self._consumer = until(lambda: _member(driver, topic), "it never started", START_S)

    def accepted(self) -> list[str]:
        return self._producer.said("SENT")

    def received(self) -> Counter[str]:
        return Counter(self._consumer.said("GOT"))

    def assert_runs(self) -> None:
        self._producer.assert_runs()
        self._consumer.assert_runs()

    def end_producer(self) -> None:
        self._producer.kill()

    def close(self) -> None:
        self._producer.kill()
        self._consumer.kill()


def _member(driver: Driver, topic: str) -> Watched | None:
    """A consumer that runs; None where it gave up, as no name server's port is open yet."""
    consumer = Watched(driver, "member", "classic", topic)
    ended = consumer.process.poll
    until(lambda: ["STARTED"] in consumer.lines or ended() is not None, limit_s=START_S)
    if ended() is None:
        return consumer
    consumer.kill()
    return None


class GrpcCarrier:
    """Apache's gRPC client for Java, with both servers as its endpoints."""

    name = "grpc"

    def __init__(self, endpoints: Iterable[str], topic: str, home: Path) -> None:
        require(GRPC_JAVA)
        home.mkdir()
        self._official = Official(GRPC_JAVA, ";".join(endpoints), home, timeout_s=3)
        producer = self._official.producer(topic)
        self._consumer = self._official.push("grpc", {topic: "*"})
        self._sends = Sends("g", (ClientError,))
        self._sends.begin(lambda body: producer.send(topic, body))

    def accepted(self) -> list[str]:
        return self._sends.accepted[:]

    def received(self) -> Counter[str]:
        events = self._official.events(self._consumer.name)
        return Counter(body_of(each.message) for each in events)

    def assert_runs(self) -> None:
        self._sends.assert_runs()
        self._official.assert_runs()

    def end_producer(self) -> None:
        self._sends.end()

    def close(self) -> None:
        self.end_producer()
        self._official.close()
