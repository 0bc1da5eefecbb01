"""Clients that go on while their server is killed, and a book of what they know for sure."""

import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

from kitemq import Client, KiteError, Message
from tests.crash.process import ServerProcess

PLAIN, LINE, GROUP = "plain", "line", "g"
LANES = ("red", "green", "blue")
RETRY_S = 0.02
SEND_EVERY_S = 0.01
LANE_SEND_EVERY_S = 0.06  # at most one message of a lane is handed out at a time
INVISIBLE_S = 0.5
FORGETS = 0.03
FAILS = 0.1


@dataclass
class Book:
    """What was answered. Bodies are "lane:number".

    `asked` were acknowledged without the answer having come yet; `unsure` are those whose answer
    was lost with the server.
    """

    accepted: set[str] = field(default_factory=set)
    done_s: dict[str, float] = field(default_factory=dict)
    asked: set[str] = field(default_factory=set)
    unsure: set[str] = field(default_factory=set)
    came_back: list[str] = field(default_factory=list)
    out_of_order: list[str] = field(default_factory=list)
    sent_in: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def missing(self) -> set[str]:
        return self.accepted - self.done_s.keys() - self.unsure

    def accept(self, body: str) -> None:
        with self.lock:
            self.accepted.add(body)
            lane, number = body.split(":")
            self.sent_in[lane].append(int(number))

    def deliver(self, body: str, asked_s: float) -> None:
        """Check a delivery whose request was made at `asked_s`."""
        with self.lock:
            if self.done_s.get(body, asked_s) < asked_s:
                self.came_back.append(body)
            lane, number = body.split(":")
            if lane not in LANES:
                return
            for earlier in reversed(self.sent_in[lane]):
                before = f"{lane}:{earlier}"
                if earlier < int(number):
                    if not any(before in known for known in (self.done_s, self.asked, self.unsure)):
                        self.out_of_order.append(f"{body} before {before}")
                    return

    def settle(self, body: str, result: str) -> None:
        with self.lock:
            self.asked.discard(body)
            if result == "done":
                self.done_s.setdefault(body, time.monotonic())


class Load:
    """Producers and consumers in threads, over the SDK."""

    def __init__(self, server: ServerProcess, seed: int) -> None:
        self._server = server
        self.book = Book()
        self._is_sending = True
        self._is_ended = False
        self.errors: list[BaseException] = []
        lanes = ("plain", *LANES)
        duties = [self._producer(lane) for lane in lanes]
        duties += [self._consumer(random.Random(seed + number)) for number in range(2)]
        # Daemons, so that a test which fails before `finish` does not keep the whole run alive.
        self._threads = [
            threading.Thread(target=self._guard, args=(duty,), daemon=True) for duty in duties
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def finish(self, drained_by_s: float, *, accepted_min: int) -> None:
        """Send until so many are accepted; consume until nothing is missing or the time is over."""
        until_s = time.monotonic() + drained_by_s
        while len(self.book.accepted) < accepted_min and time.monotonic() < until_s:
            time.sleep(RETRY_S)
        self._is_sending = False
        while self.book.missing and time.monotonic() < until_s:
            time.sleep(RETRY_S)
        self._is_ended = True
        for thread in self._threads:
            thread.join()

    def _guard(self, duty: Callable[[], None]) -> None:
        try:
            duty()
        except BaseException as error:
            self.errors.append(error)
            raise

    def _producer(self, lane: str) -> Callable[[], None]:
        def produce() -> None:
            number = 0
            with self._server.client() as client:
                while self._is_sending:
                    number += 1
                    body = f"{lane}:{number}"
                    try:
                        client.messages.send(
                            LINE if lane in LANES else PLAIN, [_message(lane, body)]
                        )
                    except KiteError:
                        time.sleep(RETRY_S)  # whether it was stored is not known
                    else:
                        self.book.accept(body)
                        time.sleep(LANE_SEND_EVERY_S if lane in LANES else SEND_EVERY_S)

        return produce

    def _consumer(self, chance: random.Random) -> Callable[[], None]:
        def consume() -> None:
            with self._server.client() as client:
                while not self._is_ended:
                    try:
                        self._turn(client, chance)
                    except KiteError:
                        time.sleep(RETRY_S)

        return consume

    def _turn(self, client: Client, chance: random.Random) -> None:
        asked_s = time.monotonic()
        found = client.deliveries.receive(
            GROUP, {PLAIN: "*", LINE: "*"}, max=16, invisible_s=INVISIBLE_S, wait_s=0.2
        )
        for item in found:
            self.book.deliver(item.body, asked_s)
        if not found or chance.random() < FORGETS:
            return  # forgotten: it comes again when its time is over
        bodies = {item.receipt: item.body for item in found}
        if chance.random() < FAILS:
            client.deliveries.nack(GROUP, list(bodies), error="not now", delay_s=0.0)
            return
        with self.book.lock:
            self.book.asked.update(bodies.values())
        try:
            results = client.deliveries.ack(GROUP, list(bodies))
        except KiteError:
            self.book.unsure.update(bodies.values())
            raise
        for result in results:
            self.book.settle(bodies[result.receipt], result.result)


def _message(lane: str, body: str) -> Message:
    return Message(body=body, message_group=lane if lane in LANES else "")
