"""The results of many messages that are sent by one call: one future for all of them."""

import asyncio

from kitemq.errors import KiteError
from kitemq.message import SendResult


class BatchResults:
    """`future` gets the results of `count` messages in their order, or the first error.

    A future for each message, and their gathering, would cost as much as sending them.
    """

    def __init__(self, count: int) -> None:
        self.future: asyncio.Future[list[SendResult]]
        self.future = asyncio.get_running_loop().create_future()
        self._results: list[SendResult | None] = [None] * count
        self._missing = count
        if not count:
            self.future.set_result([])

    def sink(self, number: int) -> "MessageSink":
        """What takes the result of one message."""
        return MessageSink(self, number)

    def take(self, number: int, result: SendResult) -> None:
        """One result, each once."""
        self._results[number] = result
        self._missing -= 1
        if not self._missing:
            self.future.set_result([each for each in self._results if each is not None])


class MessageSink:
    """As a future of one message, as far as a lane needs one."""

    __slots__ = ("_batch", "_number")

    def __init__(self, batch: BatchResults, number: int) -> None:
        self._batch = batch
        self._number = number

    def done(self) -> bool:
        """Whether nobody waits for it any more: the batch failed, or its sender was cancelled."""
        return self._batch.future.done()

    def set_result(self, result: SendResult) -> None:
        self._batch.take(self._number, result)

    def set_exception(self, error: KiteError) -> None:
        self._batch.future.set_exception(error)
