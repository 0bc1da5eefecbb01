"""One connection as a live producer: the checks that it is sent, and the decisions that it sends.

A check that never reaches its client is no loss: the transaction is checked again.
"""

import asyncio
import logging
from collections.abc import Callable

from app.messaging import TransactionVerbs
from app.services import bodies
from app.services.transactions import Ask, Transactions
from app.ws.shapes import error_frame
from engine.broker import Decider, TransactionCheck, TransactionDecision
from engine.errors import Busy, Conflict, EngineError, Invalid
from kitemq.protocol import batches, frames, transactions

log = logging.getLogger("kitemq.socket")

DECISIONS = {code: TransactionDecision(name) for code, name in transactions.DECISIONS.items()}
FLUSHES_MAX = 1024  # decisions that wait for the disk at once

OnAnswer = Callable[[int, frames.Frame, bool], None]


class Producers:
    """The producer groups that one connection answers for; `leave` ends all of them."""

    def __init__(
        self,
        verbs: TransactionVerbs,
        service: Transactions,
        *,
        requests_max: int,
        on_answer: OnAnswer,
        has_room: Callable[[], bool],
    ) -> None:
        """`on_answer` writes a frame under a request number; `has_room` whether more may be."""
        self._verbs = verbs
        self._service = service
        self._requests_max = requests_max
        self._on_answer = on_answer
        self._has_room = has_room
        self._check_requests: dict[int, tuple[str, Ask]] = {}
        self._flushes: set[asyncio.Task[None]] = set()

    async def want(self, request: int, group: str, *, is_text: bool) -> None:
        """Send checks of `group` under this request number from now on, and what waited first."""
        if request in self._check_requests:
            raise Conflict("this request number already wants checks", field="id")
        if not group:
            raise Invalid("no producer group is named", field="group", remedy="name one")
        if len(self._check_requests) >= self._requests_max:
            raise Busy(f"one connection wants checks of at most {self._requests_max} groups")

        def ask(check: TransactionCheck) -> bool:
            if not self._has_room():
                return False
            self._on_answer(request, check_frame(check), is_text)
            return True

        waiting = await self._verbs.checks(group)
        self._check_requests[request] = (group, ask)
        self._service.producers.enter(group, ask)
        self._on_answer(request, batches.ResultFrame([], []), is_text)
        for check in waiting:
            if bodies.is_small([check.message]):
                self._on_answer(request, check_frame(check), is_text)
            else:
                self._service.producers.ask(check)

    def unwant(self, request: int) -> None:
        """No more checks for that wish; nothing where it is over."""
        entry = self._check_requests.pop(request, None)
        if entry is not None:
            self._service.producers.leave(*entry)

    def leave(self) -> None:
        """No more checks at all."""
        for request in list(self._check_requests):
            self.unwant(request)

    async def close(self) -> None:
        """Stop answering checks; the connection is gone."""
        for task in self._flushes:
            task.cancel()
        await asyncio.gather(*self._flushes, return_exceptions=True)
        # Their owner knows these producers: without a cycle it leaves nothing to the collector.
        del self._on_answer, self._has_room

    def decide(self, request: int, frame: transactions.DecideFrame, *, is_text: bool) -> None:
        """Handle a DECIDE; its answer comes when the decision is durable."""
        decision = DECISIONS.get(frame.decision)
        if decision is None:
            raise Invalid("the decision is unknown", field="decision", remedy="1, 2 or 3")
        if len(self._flushes) >= FLUSHES_MAX:
            raise Busy("too many decisions wait for the disk")
        task = asyncio.get_running_loop().create_task(
            self._decide(request, frame, decision, is_text)
        )
        self._flushes.add(task)
        task.add_done_callback(self._flushes.discard)

    async def _decide(
        self,
        request: int,
        frame: transactions.DecideFrame,
        decision: TransactionDecision,
        is_text: bool,
    ) -> None:
        by = Decider.CHECK if frame.is_check else Decider.PRODUCER
        try:
            done = await self._service.decide(frame.transaction_id, decision, frame.group, by)
            answer: frames.Frame = transactions.DecidedFrame(done.state.value)
        except EngineError as error:
            answer = error_frame(error)
        except Exception:
            log.exception("a decision failed")
            answer = frames.ErrorFrame("internal_error", "the server failed; its log says why")
        self._on_answer(request, answer, is_text)


def check_frame(check: TransactionCheck) -> transactions.CheckFrame:
    """A check as a frame."""
    message = check.message
    return transactions.CheckFrame(
        transaction_id=check.transaction_id,
        group=check.producer_group,
        number=check.number,
        topic=message.topic,
        queue=message.queue,
        born_ms=message.born_ms,
        stored_ms=message.stored_ms,
        properties=message.property_block,
        body=message.plain.body,
    )
