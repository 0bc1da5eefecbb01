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

    def sink(self, first: int, count: int) -> "PartSink":
        """What takes the results of `count` messages from the `first` on, each once."""
        return PartSink(self, first, count)

    def take(self, first: int, results: list[SendResult]) -> None:
        """The results of neighbouring messages."""
        if self.future.done():  # the batch failed, or its sender was cancelled
            return
        self._results[first : first + len(results)] = results
        self._missing -= len(results)
        if not self._missing:
            self.future.set_result([each for each in self._results if each is not None])


class PartSink:
    """The sink of some neighbouring messages of one call; see `kitemq.lane.Sink`."""

    __slots__ = ("_batch", "_first", "count")

    def __init__(self, batch: BatchResults, first: int, count: int) -> None:
        self._batch = batch
        self._first = first
        self.count = count

    def set_results(self, results: list[SendResult]) -> None:
        self._batch.take(self._first, results)

    def set_exception(self, error: KiteError) -> None:
        if not self._batch.future.done():
            self._batch.future.set_exception(error)

    def part(self, start: int, end: int) -> "PartSink":
        return PartSink(self._batch, self._first + start, end - start)
