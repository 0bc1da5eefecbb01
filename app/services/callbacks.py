"""Transaction checks over HTTP: a POST to the producer group's callback returns the decision.

Calls are bounded in number, time and memory; after a wrong answer, or none, the callback is called
again at the next check. `targets` decides which addresses are allowed.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from app.addresses import redacted_text, redacted_url
from app.messaging import TransactionVerbs
from app.services import bodies
from app.services.targets import TargetClient, TargetRefused, Targets
from app.tasks import end_tasks
from engine.broker import Callback, Decider, TransactionCheck, TransactionDecision
from engine.errors import EngineError

if TYPE_CHECKING:
    import httpx

log = logging.getLogger("kitemq.callbacks")

CALLS_MAX = 16  # at once
WAITING_MAX = 1000  # further ones, which wait for those ...
WAITING_BYTES_MAX = 16 * 1024 * 1024  # ... and what they hold
ANSWER_BYTES_MAX = 4096


class CallbackAnswer(msgspec.Struct):
    """A callback's answer."""

    decision: TransactionDecision


class CallbackError(Exception):
    """No usable answer; the text says why."""


class CallbackCaller:
    """Calls on the event loop; httpx is loaded at the first one."""

    def __init__(
        self,
        transactions: TransactionVerbs,
        document: Callable[[TransactionCheck], bytes],
        targets: Targets,
    ) -> None:
        self._transactions = transactions
        self._targets = targets
        self._document = document
        self._tasks: set[asyncio.Task[None]] = set()
        self._turns = asyncio.Semaphore(CALLS_MAX)
        self._size_bytes = 0
        self._client = TargetClient(targets, connections_max=CALLS_MAX)

    def check_url(self, url: str) -> None:
        """Raise Invalid unless it is an http or https address without credentials that the server
        may call."""
        self._targets.check_url(url)

    def ask(self, check: TransactionCheck) -> bool:
        """Begin a call, if the group has a callback and there is room; never waits."""
        callback = self._transactions.callbacks.find(check.producer_group)
        if callback is None or len(self._tasks) >= CALLS_MAX + WAITING_MAX:
            return False
        size_bytes = check.message.size_bytes
        if self._tasks and self._size_bytes + size_bytes > WAITING_BYTES_MAX:
            return False
        self._size_bytes += size_bytes
        task = asyncio.get_running_loop().create_task(self._call(callback, check))
        self._tasks.add(task)

        def done(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            self._size_bytes -= size_bytes

        task.add_done_callback(done)
        return True

    async def stop(self) -> None:
        """Cancel the calls under way."""
        await end_tasks(*self._tasks)
        await self._client.close()

    async def _call(self, callback: Callback, check: TransactionCheck) -> None:
        """Call, and apply the decision."""
        try:
            async with self._turns:
                client = await self._client.opened()
                async with asyncio.timeout(callback.timeout_ms / 1000):
                    decision = await self._post(client, callback.url, check)
            await self._transactions.decide(
                check.transaction_id, decision, group=check.producer_group, by=Decider.CHECK
            )
        except (CallbackError, TimeoutError) as error:
            detail = str(error) or f"no answer within {callback.timeout_ms} ms"
            log.warning("the callback of %s: %s", callback.group, detail)
        except EngineError as error:
            log.warning("transaction %s: %s", check.transaction_id, error.detail)

    async def _post(
        self, client: "httpx.AsyncClient", url: str, check: TransactionCheck
    ) -> TransactionDecision:
        import httpx  # loaded by now

        safe_url = redacted_url(url)
        headers = {"Content-Type": "application/json"}
        await bodies.decompress([check.message])
        content = self._document(check)
        try:
            async with client.stream("POST", url, content=content, headers=headers) as answer:
                if answer.status_code != httpx.codes.OK:
                    raise CallbackError(f"{safe_url} answered {answer.status_code}")
                body = b""
                async for (
                    part
                ) in answer.aiter_raw():  # what is unpacked may be a thousand times that
                    body += part
                    if len(body) > ANSWER_BYTES_MAX:
                        raise CallbackError(
                            f"{safe_url} answered more than {ANSWER_BYTES_MAX} bytes"
                        )
        except TargetRefused as error:
            raise CallbackError(f"{safe_url} is not called: {error}") from error
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            reason = redacted_text(f"{type(error).__name__}: {error}")
            raise CallbackError(f"{safe_url}: {reason}") from error
        try:
            return msgspec.json.decode(body, type=CallbackAnswer).decision
        except (msgspec.DecodeError, UnicodeError) as error:
            raise CallbackError(f"{safe_url} answered no decision: {error}") from error
