"""Transactions as the server knows them: undecided ones, decisions, checks."""

from collections.abc import AsyncIterator, Sequence

from kitemq.async_api.connection import AsyncApi
from kitemq.model.transactions import (
    CALLBACK_MS,
    POLL_MAX,
    CallbackList,
    DecidedTransaction,
    NewCallback,
    NewCheckPoll,
    PendingCheck,
    PendingChecks,
    TransactionCallback,
    TransactionInfo,
    UndecidedTransactions,
)
from kitemq.rest import PAGE, segment


class AsyncTransactionsApi(AsyncApi):
    """`client.transactions`: where transactions stand; `TransactionProducer` begins them."""

    async def list(
        self, *, group: str = "", given_up: bool = False
    ) -> AsyncIterator[TransactionInfo]:
        """Undecided transactions, oldest first: those checked, or those that were `given_up`."""
        after: str | None = ""
        kind = "true" if given_up else "false"
        while after is not None:
            params = {"group": group, "given_up": kind, "limit": PAGE, "after": after}
            page = await self._rest.fetch(
                UndecidedTransactions, "GET", "/transactions", params=params
            )
            for item in page.items:
                yield item
            after = page.next

    async def get(self, transaction_id: str, *, group: str = "") -> TransactionInfo:
        """The state of a transaction, decided or not; NotFound."""
        path, params = f"/transactions/{segment(transaction_id)}", {"group": group}
        return await self._rest.fetch(TransactionInfo, "GET", path, params=params)

    async def decide(
        self, transaction_id: str, decision: str, *, group: str = "", by: str = "producer"
    ) -> DecidedTransaction:
        """Decision is commit, rollback, unknown or resume; `by` operator is audited."""
        params = {"group": group} if decision == "resume" else {"group": group, "by": by}
        path = f"/transactions/{segment(transaction_id)}/{segment(decision)}"
        return await self._rest.fetch(DecidedTransaction, "POST", path, params=params)

    # -- callbacks ------------------------------------------------------------------------------

    async def callbacks(self) -> Sequence[TransactionCallback]:
        """The callbacks of producer groups, by group."""
        return (await self._rest.fetch(CallbackList, "GET", "/transactions/callbacks")).items

    async def callback(self, group: str) -> TransactionCallback:
        """The callback of a producer group; NotFound."""
        return await self._rest.fetch(TransactionCallback, "GET", _callback(group))

    async def set_callback(
        self, group: str, url: str, *, timeout_ms: int = CALLBACK_MS
    ) -> TransactionCallback:
        """Let the server ask `url` about a group's transactions; `timeout_ms` at most 30,000."""
        body = NewCallback(url, timeout_ms)
        return await self._rest.fetch(TransactionCallback, "PUT", _callback(group), body=body)

    async def delete_callback(self, group: str) -> None:
        """Ask a producer group no more."""
        await self._rest.call("DELETE", _callback(group))

    # -- polling --------------------------------------------------------------------------------

    async def checks(self, group: str, *, max: int = POLL_MAX) -> Sequence[PendingCheck]:
        """Poll for checks that no connection or callback takes; answer with `decide`."""
        body = NewCheckPoll(group, max)
        return (
            await self._rest.fetch(PendingChecks, "POST", "/transactions/checks", body=body)
        ).checks


def _callback(group: str) -> str:
    return f"/transactions/callbacks/{segment(group)}"
