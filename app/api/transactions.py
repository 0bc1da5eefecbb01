"""REST for transactions: commit, rollback, inspection and checks."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from app.api.framework.operation import Call, Operations, encode
from app.api.framework.paging import PAGE_DEFAULT, Limit
from app.api.messages.messages import fields_of, message_view
from app.capabilities import require
from app.security.access import READ_SERVER, Action, Kind, Needs, Principal, require_decision
from app.security.message_rights import visible
from app.services import bodies
from engine.broker import Callback, Decider, Transaction, TransactionCheck, TransactionDecision
from kitemq.model.conversion import convert
from kitemq.model.messages import Encoding, Stored
from kitemq.model.transactions import (
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

operations = Operations("transactions", id="$TRANSACTION")
# Rights over the topic of a transaction, which handlers look up.
DECIDE, RESUME = Needs(Action.PRODUCE, Kind.TOPIC), Needs(Action.ADMINISTER, Kind.TOPIC)
GROUP = "Only of this producer group; needed where groups share an id."

Group = Annotated[str, Meta(description=GROUP)]


class TransactionQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Filters of the list of transactions."""

    group: Annotated[str, Meta(description="Only of this producer group.")] = ""
    given_up: Annotated[
        bool, Meta(description="Those whose checks were given up, instead of those checked.")
    ] = False
    after: Annotated[str, Meta(description="A page's `next`.")] = ""
    limit: Limit = PAGE_DEFAULT
    encoding: Encoding = Encoding.AUTO


class ShowTransactionQuery(msgspec.Struct, forbid_unknown_fields=True):
    """The transaction and the encoding of its body."""

    group: Group = ""
    encoding: Encoding = Encoding.AUTO


class DecisionQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Whose decision."""

    group: Group = ""
    by: Annotated[
        Decider, Meta(description="An operator's decision is written into the audit trail.")
    ] = Decider.PRODUCER


class GroupQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Of which producer group."""

    group: Group = ""


def check_document(check: TransactionCheck) -> bytes:
    """The body that a callback is sent."""
    return encode(_check_out(check))


def _check_out(check: TransactionCheck) -> PendingCheck:
    return convert(check, PendingCheck, message=Stored(*fields_of(check.message)))


def _transaction_info(
    who: Principal, transaction: Transaction, encoding: Encoding
) -> TransactionInfo:
    return convert(
        transaction,
        TransactionInfo,
        half_offset_id=transaction.message.offset_id,
        message=message_view(visible(who, transaction.message), encoding),
    )


async def _check_right(call: Call[Any, Any], *, by_hand: bool) -> None:
    if call.who.is_open:
        return  # not even looked up: an open server restricts no decision
    transactions = call.messaging.transactions
    transaction = await transactions.get(call.path("id"), group=call.query.group)
    require_decision(call.who, transaction.topic, by_hand=by_hand)


async def _decide(
    call: Call[DecisionQuery, None], decision: TransactionDecision
) -> DecidedTransaction:
    service = call.services.transactions
    name, query = call.path("id"), call.query
    await _check_right(call, by_hand=query.by is Decider.OPERATOR)
    if query.by is Decider.OPERATOR:
        done = await service.decide_by_hand(call.actor, name, decision, query.group)
    else:
        done = await service.decide(name, decision, query.group, query.by)
    return convert(done, DecidedTransaction)


@operations.get(
    "/transactions",
    capability="transaction_queries",
    needs=READ_SERVER,
    example="?group=billing&limit=10",
)
async def list_transactions(call: Call[TransactionQuery, None]) -> UndecidedTransactions:
    """List undecided transactions.

    The oldest first: those that are still checked, or with `given_up` those that are not.
    """
    query, transactions = call.query, call.messaging.transactions
    listed = transactions.given_up if query.given_up else transactions.pending
    page = await listed(group=query.group, after=query.after, count_max=query.limit)
    await bodies.decompress([item.message for item in page.items])
    items = [_transaction_info(call.who, item, query.encoding) for item in page.items]
    total = None if page.unknown else page.count
    return UndecidedTransactions(items, page.next, total, page.unknown)


@operations.post(
    "/transactions/checks",
    needs=Needs(Action.PRODUCE, Kind.GROUP),
    example_body='{"group": "billing"}',
)
async def poll_checks(call: Call[None, NewCheckPoll]) -> PendingChecks:
    """Poll for checks that no connection or callback takes.

    They are reserved for the caller until the next check is due (`transaction_check_interval_s`).
    Producers with a connection or a callback are asked without polling.
    """
    body = call.body
    call.require(Action.PRODUCE, Kind.GROUP, body.group)
    checks = await call.messaging.transactions.checks(body.group, body.max)
    return PendingChecks(list(map(_check_out, checks)))


@operations.get("/transactions/callbacks", needs=READ_SERVER)
async def list_callbacks(call: Call[None, None]) -> CallbackList:
    """List the callbacks of producer groups."""
    transactions = call.services.transactions
    return CallbackList(list(map(transactions.described, transactions.callbacks.all())))


@operations.get("/transactions/callbacks/{group}", needs=Action.READ)
async def get_callback(call: Call[None, None]) -> TransactionCallback:
    """Look at the callback of a producer group."""
    transactions = call.services.transactions
    return transactions.described(transactions.callbacks.get(call.path("group")))


@operations.put(
    "/transactions/callbacks/{group}",
    needs=Action.ADMINISTER,
    not_found=False,
    example_body='{"url": "http://127.0.0.1:9000/check"}',
)
async def set_callback(call: Call[None, NewCallback]) -> TransactionCallback:
    """Register a producer group's callback.

    Each check is POSTed there as JSON; the answer is 200 with
    `{"decision": "commit" | "rollback" | "unknown"}`. Redirects are not followed. Link-local
    addresses, loopback and this machine's own are refused, unless `callback_allow` names them.
    Answers show the address with `***` for what could be a secret, which stays when it is sent
    back so.
    """
    # The address gets the group's half messages, bodies included.
    call.require(Action.READ_MESSAGES, Kind.GROUP, call.path("group"))
    service = call.services.transactions
    callback = Callback(call.path("group"), call.body.url, call.body.timeout_ms)
    return service.described(await service.set_callback(call.actor, callback))


@operations.delete("/transactions/callbacks/{group}", needs=Action.ADMINISTER)
async def delete_callback(call: Call[None, None]) -> None:
    """Call a producer group no more."""
    await call.services.transactions.delete_callback(call.actor, call.path("group"))


@operations.get("/transactions/{id}", needs=READ_SERVER, errors=(409,))
async def get_transaction(call: Call[ShowTransactionQuery, None]) -> TransactionInfo:
    """Look at one transaction, decided or not.

    By the message's id, or the offset id of its half message.
    """
    query = call.query
    require(call.messaging.capabilities, "transaction_queries", field="id")
    transactions = call.messaging.transactions
    transaction = await transactions.get(call.path("id"), group=query.group)
    await bodies.decompress([transaction.message])
    return _transaction_info(call.who, transaction, query.encoding)


@operations.post("/transactions/{id}/commit", needs=DECIDE, errors=(409,))
async def commit_transaction(call: Call[DecisionQuery, None]) -> DecidedTransaction:
    """Deliver the message of a transaction.

    Idempotent; 409 if it was rolled back. Also after its checks were given up. A decision is final,
    and stored when this answers.
    """
    return await _decide(call, TransactionDecision.COMMIT)


@operations.post("/transactions/{id}/rollback", needs=DECIDE, errors=(409,))
async def roll_back_transaction(call: Call[DecisionQuery, None]) -> DecidedTransaction:
    """Never deliver the message of a transaction.

    409 where it was committed. A decision is final, and kept when this answers.
    """
    return await _decide(call, TransactionDecision.ROLLBACK)


@operations.post("/transactions/{id}/unknown", needs=DECIDE, errors=(409,))
async def leave_transaction(call: Call[DecisionQuery, None]) -> DecidedTransaction:
    """Say that nothing is known yet.

    Nothing changes: the transaction is checked again. The answer says how it stands.
    """
    await _check_right(call, by_hand=False)
    service = call.services.transactions
    done = await service.decide(call.path("id"), TransactionDecision.UNKNOWN, call.query.group)
    return convert(done, DecidedTransaction)


@operations.post("/transactions/{id}/resume", needs=RESUME, errors=(409,))
async def resume_transaction(call: Call[GroupQuery, None]) -> DecidedTransaction:
    """Check a given-up transaction again, from the first check on."""
    await _check_right(call, by_hand=True)
    done = await call.services.transactions.resume(call.actor, call.path("id"), call.query.group)
    return convert(done, DecidedTransaction)
