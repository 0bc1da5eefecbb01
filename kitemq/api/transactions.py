# Made from kitemq/async_api/transactions.py by `python -m tools.synchronous`: change that file.
"""Transactions as the server knows them: undecided ones, decisions, checks."""

from collections.abc import Iterator, Sequence

from kitemq.api.connection import Api
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


class TransactionsApi(Api):
    """`client.transactions`: where transactions stand; `TransactionProducer` begins them."""

    def list(self, *, group: str = "", given_up: bool = False) -> Iterator[TransactionInfo]:
        """Undecided transactions, oldest first: those checked, or those that were `given_up`."""
        after: str | None = ""
        kind = "true" if given_up else "false"
        while after is not None:
            params = {"group": group, "given_up": kind, "limit": PAGE, "after": after}
            page = self._rest.fetch(UndecidedTransactions, "GET", "/transactions", params=params)
            yield from page.items
            after = page.next

    def get(self, transaction_id: str, *, group: str = "") -> TransactionInfo:
        """The state of a transaction, decided or not; NotFound."""
        path, params = f"/transactions/{segment(transaction_id)}", {"group": group}
        return self._rest.fetch(TransactionInfo, "GET", path, params=params)

    def decide(
        self, transaction_id: str, decision: str, *, group: str = "", by: str = "producer"
    ) -> DecidedTransaction:
        """Decision is commit, rollback, unknown or resume; `by` operator is audited."""
        params = {"group": group} if decision == "resume" else {"group": group, "by": by}
        path = f"/transactions/{segment(transaction_id)}/{segment(decision)}"
        return self._rest.fetch(DecidedTransaction, "POST", path, params=params)

    # -- callbacks ------------------------------------------------------------------------------

    def callbacks(self) -> Sequence[TransactionCallback]:
        """The callbacks of producer groups, by group."""
        return (self._rest.fetch(CallbackList, "GET", "/transactions/callbacks")).items

    def callback(self, group: str) -> TransactionCallback:
        """The callback of a producer group; NotFound."""
        return self._rest.fetch(TransactionCallback, "GET", _callback(group))

    def set_callback(
        self, group: str, url: str, *, timeout_ms: int = CALLBACK_MS
    ) -> TransactionCallback:
        """Let the server ask `url` about a group's transactions; `timeout_ms` at most 30,000."""
        body = NewCallback(url, timeout_ms)
        return self._rest.fetch(TransactionCallback, "PUT", _callback(group), body=body)

    def delete_callback(self, group: str) -> None:
        """Ask a producer group no more."""
        self._rest.call("DELETE", _callback(group))

    # -- polling --------------------------------------------------------------------------------

    def checks(self, group: str, *, max: int = POLL_MAX) -> Sequence[PendingCheck]:
        """Poll for checks that no connection or callback takes; answer with `decide`."""
        body = NewCheckPoll(group, max)
        return (self._rest.fetch(PendingChecks, "POST", "/transactions/checks", body=body)).checks


def _callback(group: str) -> str:
    return f"/transactions/callbacks/{segment(group)}"
