"""Receiving in ordinary threads: by iteration, or with a handler on several threads."""

import logging
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Self

from kitemq.background import Background
from kitemq.consumer_core import ConsumerCore
from kitemq.consumer_rules import ConsumerRules, consumer_rules
from kitemq.errors import Invalid, KiteError, TimedOut
from kitemq.received import Received

log = logging.getLogger("kitemq")

Handler = Callable[[Received], None]


class _ThreadShelf:
    """Queue of delivered messages between the loop's thread and the handlers."""

    def __init__(self) -> None:
        self._messages: deque[Received] = deque()
        self._filled = threading.Condition()
        self.is_ended = False
        self.error: KiteError | None = None

    def put(self, messages: list[Received]) -> None:
        with self._filled:
            self._messages.extend(messages)
            self._filled.notify(len(messages))

    def clear(self) -> list[Received]:
        with self._filled:
            messages = list(self._messages)
            self._messages.clear()
            return messages

    def end(self, error: KiteError | None) -> None:
        with self._filled:
            self.is_ended = True
            self.error = error
            self._filled.notify_all()

    def take(self, timeout_s: float | None) -> Received | None:
        """The next message; None at the end. Raises queue.Empty after `timeout_s`."""
        with self._filled:
            if not self._filled.wait_for(lambda: self._messages or self.is_ended, timeout_s):
                raise queue.Empty
            if self._messages:
                return self._messages.popleft()
            if self.error is not None:
                raise self.error
            return None


class Consumer:
    """Receives the messages of a consumer group; use it with `with`, or `start` and `stop` it.

    The settings are those of `AsyncConsumer`, and so are the promises and errors. Messages may be
    handled and settled on any thread.
    """

    def __init__(
        self,
        group: str,
        topics: str | Mapping[str, str],
        server: str = "",
        *,
        prefetch: int = 256,
        invisible_s: float = 60.0,
        extend_max_s: float = 3600.0,
        client: str = "",
        ca: str = "",
    ) -> None:
        rules = consumer_rules(
            group, topics, prefetch=prefetch, invisible_s=invisible_s, extend_max_s=extend_max_s
        )
        self._shelf = _ThreadShelf()
        self._background = Background("kitemq-consumer")
        try:
            self._core = self._background.call(self._make(server, rules, client, ca))
        except BaseException:
            self._background.close()
            raise

    def start(self) -> None:
        """Connect and subscribe; raises Unreachable, or what is wrong with group or topics."""
        try:
            self._background.call(self._core.start())
        except BaseException:
            self._background.close()
            raise

    def stop(self, timeout_s: float = 10.0) -> None:
        """Take no more, let handlers finish for `timeout_s`, put back the rest, and leave.

        May be called from any thread but a handler's own; ends `run` and iterations.
        """
        if self._background.is_alive:
            try:
                self._background.call(self._core.stop(timeout_s))
            finally:
                self._background.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop(timeout_s=0.0 if kind else 10.0)

    def receive(self, timeout_s: float | None = None) -> Received | None:
        """The next message; None once stopped. Raises TimedOut when none came in time."""
        try:
            while True:
                message = self._shelf.take(timeout_s)
                if message is None or self._core.is_held(message):
                    return message
        except queue.Empty:
            raise TimedOut(f"no message within {timeout_s:g} s") from None

    def __iter__(self) -> Iterator[Received]:
        """Messages until the consumer is stopped; settle each."""
        while (message := self.receive()) is not None:
            yield message

    def run(self, handler: Handler, *, concurrency: int = 1) -> None:
        """Call `handler` for each message until stopped, on `concurrency` threads (1 to 256).

        A message is acknowledged when its handler returns, and fails (to come again) with the
        error's text when it raises; a handler may settle it itself. Raises what ended the
        subscription, if not `stop`.
        """
        if not 1 <= concurrency <= 256:
            raise Invalid(
                f"concurrency is {concurrency}", field="concurrency", remedy="give 1 to 256"
            )
        threads = [
            threading.Thread(target=self._work_quietly, args=(handler,), daemon=True)
            for _ in range(concurrency - 1)
        ]
        for thread in threads:
            thread.start()
        self._work(handler)
        for thread in threads:
            thread.join()

    def _work(self, handler: Handler) -> None:
        while (message := self.receive()) is not None:
            try:
                handler(message)
            except Exception as error:
                log.exception("the handler failed for %s", message.message_id)
                message.nack(f"{type(error).__name__}: {error}")
            else:
                message.ack()

    def _work_quietly(self, handler: Handler) -> None:
        try:
            self._work(handler)
        except KiteError:
            return  # `run` itself raises it, on the thread of its caller

    async def _make(self, server: str, rules: ConsumerRules, client: str, ca: str) -> ConsumerCore:
        def schedule(work: Callable[[], None]) -> None:
            if self._background.is_alive:
                self._background.loop.call_soon_threadsafe(work)

        return ConsumerCore(server, rules, self._shelf, client=client, schedule=schedule, ca=ca)
