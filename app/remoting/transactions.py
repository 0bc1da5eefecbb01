"""Decisions of producers about their transactions."""

from typing import TYPE_CHECKING

from app.eager import eager
from app.remoting.call import RemotingCall
from app.remoting.errors import OK, ErrorResponse, RemotingRefusal
from app.remoting.message_queries import position_in
from app.security.access import Action, Kind, require_decision
from engine.broker import Decider, TransactionDecision
from engine.errors import MessageNotFound
from engine.message import PGROUP, REAL_TOPIC, TRANSACTION_ID
from protocol.remoting.codes import ResponseCode, SysFlag

if TYPE_CHECKING:
    from app.remoting.backend import RemotingBackend

DECISIONS = {
    SysFlag.TRANSACTION_COMMIT: TransactionDecision.COMMIT,
    SysFlag.TRANSACTION_ROLLBACK: TransactionDecision.ROLLBACK,
}


@eager
async def end_transaction(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """Commit or roll back a half message by the position in the answer to its send.

    "Unknown" decides nothing: the transaction is checked later.
    """
    group = call.text("producerGroup")
    decision = DECISIONS.get(
        SysFlag(call.number("commitOrRollback") & SysFlag.TRANSACTION_ROLLBACK)
    )
    if decision is None:
        return OK
    try:
        half = await backend.messaging.message_at(call.number("commitLogOffset"))
    except MessageNotFound:
        raise RemotingRefusal(ResponseCode.SYSTEM_ERROR, "the half message is not there") from None
    properties = half.properties
    transaction_id, topic = properties.get(TRANSACTION_ID, ""), properties.get(REAL_TOPIC, "")
    if not transaction_id or properties.get(PGROUP) != group:
        raise RemotingRefusal(
            ResponseCode.SYSTEM_ERROR, f"no half message of producer group {group!r} lies there"
        )
    call.require(Action.PRODUCE, Kind.TOPIC, topic)
    require_decision(call.principal, topic, by_hand=False)
    by = Decider.CHECK if call.is_true("fromTransactionCheck") else Decider.PRODUCER
    await backend.services.transactions.decide(transaction_id, decision, group, by)
    return OK


async def resume_check(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """Check a transaction again that was given up, by the offset id of its message; audited."""
    half = await backend.message_at(position_in(call.text("msgId")))
    transaction_id = half.properties.get(TRANSACTION_ID, "")
    topic = half.properties.get(REAL_TOPIC, "")
    if not transaction_id or not topic:
        raise RemotingRefusal(ResponseCode.SYSTEM_ERROR, "the message is of no transaction")
    call.require(Action.PRODUCE, Kind.TOPIC, topic)
    require_decision(call.principal, topic, by_hand=True)
    group = half.properties.get(PGROUP, "")
    await backend.services.transactions.resume(call.actor, transaction_id, group)
    return OK
