"""What goes on during an attack: a producer and a consumer over REST, and how long each call took.

They are a process of their own (`python -m tests.attack.traffic`), so that the attacker's threads
do not slow them down, and come from 127.0.0.2. Each renews its connection now and then: who comes
anew must get in as well. The process ends when its standard input does and prints its book.
"""

import http.client
import json
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from tests.attack.target import Target

SOURCE = "127.0.0.2"
TOPIC, GROUP = "attacked", "attacked-readers"
PAUSE_S = 0.02
RENEW_AFTER = 50  # calls on one connection
FLUSHED_EVERY = 10  # one send in so many waits for the disk
CALL_TIMEOUT_S = 15.0
FAILURES_KEPT = 20
DRAIN_S = 10.0


@dataclass
class Book:
    """Milliseconds of each call by its kind, what failed, and the bodies sent and received."""

    ms: dict[str, list[float]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    failure_count: int = 0
    sent: set[int] = field(default_factory=set)
    got: set[int] = field(default_factory=set)

    def p99_ms(self, *kinds: str) -> float:
        """The time that 99 of 100 calls of these kinds (all, where none is given) stay under."""
        known = kinds or tuple(self.ms)
        times = sorted(value for kind in known for value in self.ms.get(kind, ()))
        return times[min(len(times) - 1, len(times) * 99 // 100)] if times else float("inf")

    def worst_ms(self) -> float:
        return max((max(times) for times in self.ms.values() if times), default=float("inf"))


class Traffic:
    """Starts the process; a context manager. After it, `book` tells what happened."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._process: subprocess.Popen[str] | None = None
        self.book = Book()

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.attack.traffic", str(self._target.port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{self._target.token}\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline() == "begun\n", "the traffic did not begin"
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        out, _none = self._process.communicate("", timeout=DRAIN_S + 4 * CALL_TIMEOUT_S)
        found = json.loads(out)
        found["sent"], found["got"] = set(found["sent"]), set(found["got"])
        self.book = Book(**found)


class Caller:
    """One of the two: calls on a connection of its own, with their times."""

    def __init__(self, port: int, token: str, book: Book, is_over: threading.Event) -> None:
        self._port = port
        self._headers = {"Content-Type": "application/json"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        self._book = book
        self._is_over = is_over
        self._connection: http.client.HTTPConnection | None = None
        self._calls = 0

    def call(self, kind: str, path: str, body: Any) -> Any:
        """POST; the answer, or None where it failed, which is in the book."""
        began_s = time.perf_counter()
        try:
            status, answer = self._ask(path, json.dumps(body))
        except (OSError, http.client.HTTPException) as error:
            self._fail(f"{kind}: {type(error).__name__} {error}")
            self.close()
            return None
        self._book.ms.setdefault(kind, []).append(1000 * (time.perf_counter() - began_s))
        if status >= 300:
            self._fail(f"{kind}: {status} {answer[:300]!r}")
            return None
        return json.loads(answer)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _ask(self, path: str, body: str) -> tuple[int, bytes]:
        self._calls += 1
        if self._calls % RENEW_AFTER == 0:
            self.close()
        if self._connection is None:
            self._connection = http.client.HTTPConnection(
                "127.0.0.1", self._port, timeout=CALL_TIMEOUT_S, source_address=(SOURCE, 0)
            )
        self._connection.request("POST", path, body, self._headers)
        answer = self._connection.getresponse()
        return answer.status, answer.read()

    def _fail(self, what: str) -> None:
        self._book.failure_count += 1
        if len(self._book.failures) < FAILURES_KEPT:
            self._book.failures.append(what)


class Producer(Caller):
    """Sends numbers, each tenth with the durability flushed."""

    def run(self) -> None:
        number = 0
        while not self._is_over.wait(PAUSE_S):
            number += 1
            is_flushed = number % FLUSHED_EVERY == 0
            body = {"messages": [{"body": str(number)}]}
            if is_flushed:
                body["durability"] = "flushed"
            kind = "send flushed" if is_flushed else "send"
            if self.call(kind, f"/api/v1/topics/{TOPIC}/messages", body) is not None:
                self._book.sent.add(number)


class Consumer(Caller):
    """Receives and acknowledges until nothing is missing."""

    def run(self) -> None:
        drained_by_s = 0.0
        while True:
            if self._is_over.wait(PAUSE_S):
                time.sleep(PAUSE_S)
                drained_by_s = drained_by_s or time.monotonic() + DRAIN_S
                if self._book.sent <= self._book.got or time.monotonic() > drained_by_s:
                    return
            path = f"/api/v1/groups/{GROUP}"
            found = self.call("receive", f"{path}/receive", {"topic": TOPIC, "max": 32})
            deliveries = (found or {}).get("deliveries", [])
            self._book.got.update(int(each["body"]) for each in deliveries)
            if deliveries:
                receipts = [each["receipt"] for each in deliveries]
                self.call("ack", f"{path}/ack", {"receipts": receipts})


def main() -> None:
    """Go on until standard input ends, then print the book as JSON."""
    port, token = int(sys.argv[1]), sys.stdin.readline().strip()
    book, is_over, is_sent = Book(), threading.Event(), threading.Event()
    first = Producer(port, token, book, is_over)
    # The first send makes the topic, and the first receive the group: they are not measured.
    first.call("first", f"/api/v1/topics/{TOPIC}/messages", {"messages": [{"body": "0"}]})
    first.call("first", f"/api/v1/groups/{GROUP}/receive", {"topic": TOPIC, "invisible_ms": 1000})
    first.close()
    book.ms.clear()
    producer = Producer(port, token, book, is_over)
    consumer = Consumer(port, token, book, is_sent)
    threads = [threading.Thread(target=duty) for duty in (producer.run, consumer.run)]
    for thread in threads:
        thread.start()
    sys.stdout.write("begun\n")
    sys.stdout.flush()
    sys.stdin.read()
    for thread, event in zip(threads, (is_over, is_sent), strict=True):
        event.set()  # the consumer's once the producer has ended
        thread.join()
    for caller in (producer, consumer):
        caller.close()
    shown = dict(vars(book), sent=sorted(book.sent), got=sorted(book.got))
    sys.stdout.write(json.dumps(shown))


if __name__ == "__main__":
    main()
