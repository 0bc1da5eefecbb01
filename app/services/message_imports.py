"""Sends the messages of a file: a check of each line first, then the result of each line.

Results are kept in memory, for the owner alone: the newest 16 runs, until the server stops.
"""

import asyncio
import secrets
import time
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from app.messaging import Messaging
from app.pause import Pause
from app.services import message_files
from app.services.message_files import FileMessage
from app.services.new_message import message_of
from engine.clock import Clock
from engine.errors import EngineError, Invalid, NotFound
from engine.message import Message

BUDGET_S = 20.0
BATCH_MAX = 100
BATCH_BYTES_MAX = 1024 * 1024
RUNS_MAX = 16
# In the order in which they are counted: what needs a person comes first.
OUTCOMES = ("refused", "unsent", "ready", "sent")


@dataclass(frozen=True)
class LineResult:
    """A line of the file and its outcome: refused with a reason, unsent, ready, or sent.

    A sent message that is not in its topic's queue yet is scheduled or a half message; then
    `place` is empty.
    """

    number: int
    outcome: str
    message: Message | None = None
    message_id: str = ""
    place: str = ""
    field: str = ""
    detail: str = ""
    remedy: str = ""


@dataclass(frozen=True)
class ImportRun:
    """A file that was sent: to which topic, by whom and when, with a result for each line."""

    id: str
    owner: str
    topic: str
    at_ms: int
    lines: Sequence[LineResult]


class MessageImports:
    """Checks and sends files of messages."""

    def __init__(self, messaging: Messaging, clock: Clock) -> None:
        self._clock = clock
        self._messaging = messaging
        self._runs: OrderedDict[str, ImportRun] = OrderedDict()

    async def check(self, topic: str, content: str, born_host: str = "") -> list[LineResult]:
        """Each line as ready or refused; Invalid for a file that cannot be read."""
        lines = await asyncio.to_thread(message_files.read, content)
        now_ms = self._clock.now_ms()
        results: list[LineResult] = []
        pause = Pause()
        for line in lines:
            results.append(await self._check(topic, line, born_host, now_ms))
            await pause.when_due()
        return results

    async def send(self, owner: str, topic: str, lines: Sequence[LineResult]) -> ImportRun:
        """Send the ready lines in order; what is not reached within 20 seconds stays unsent."""
        end_s = time.monotonic() + BUDGET_S
        results = {line.number: line for line in lines}
        for batch in _batches(line for line in lines if line.outcome == "ready"):
            if time.monotonic() >= end_s:
                results.update((line.number, replace(line, outcome="unsent")) for line in batch)
            else:
                results.update((line.number, line) for line in await self._send(topic, batch))
        # Without the messages, which may be megabytes.
        lines = [replace(line, message=None) for line in results.values()]
        run = ImportRun(secrets.token_hex(8), owner, topic, self._clock.now_ms(), lines)
        self._runs[run.id] = run
        while len(self._runs) > RUNS_MAX:
            self._runs.popitem(last=False)
        return run

    def get(self, owner: str, topic: str, run_id: str) -> ImportRun:
        """A run of this owner; NotFound once newer ones or a restart took its place."""
        run = self._runs.get(run_id)
        if run is None or (run.owner, run.topic) != (owner, topic):
            raise NotFound(
                "the results of this file are gone",
                field="run",
                remedy="search the topic for the messages; do not send the file again unchecked",
            )
        return run

    async def _check(
        self, topic: str, line: FileMessage, born_host: str, now_ms: int
    ) -> LineResult:
        result = LineResult(line.number, "refused")
        try:
            if line.new is None:
                raise line.fault or Invalid("the line is no message")
            message = message_of(topic, line.new, born_host, "", now_ms)
            await self._messaging.check_message(message)
        except EngineError as error:
            return _refused(result, error)
        return replace(result, outcome="ready", message=message)

    async def _send(self, topic: str, batch: Sequence[LineResult]) -> list[LineResult]:
        """Send together, or one by one where that is refused."""
        messages = [line.message for line in batch if line.message is not None]
        try:
            sent = await self._messaging.send(messages)
        except EngineError as error:
            if len(batch) == 1:
                return [_refused(batch[0], error)]
            return [result for line in batch for result in await self._send(topic, [line])]
        return [
            replace(
                line,
                outcome="sent",
                message_id=message.message_id,
                place=f"{message.queue}/{offset}" if message.topic == topic else "",
            )
            for line, message, offset in zip(batch, sent.messages, sent.offsets, strict=True)
        ]


def counted(lines: Iterable[LineResult]) -> dict[str, int]:
    """The number of lines by outcome, without zeros."""
    counts = dict.fromkeys(OUTCOMES, 0)
    for line in lines:
        counts[line.outcome] += 1
    return {outcome: count for outcome, count in counts.items() if count}


def _batches(lines: Iterable[LineResult]) -> Iterable[list[LineResult]]:
    """Runs of lines that one send takes."""
    batch: list[LineResult] = []
    size_bytes = 0
    for line in lines:
        length = 0 if line.message is None else len(line.message.body)
        if batch and (len(batch) == BATCH_MAX or size_bytes + length > BATCH_BYTES_MAX):
            yield batch
            batch, size_bytes = [], 0
        batch.append(line)
        size_bytes += length
    if batch:
        yield batch


def _refused(line: LineResult, error: EngineError) -> LineResult:
    return replace(
        line, outcome="refused", field=error.field, detail=error.detail, remedy=error.remedy
    )
