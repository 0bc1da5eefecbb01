"""Inspects, queries and disconnects a single client.

Queries and disconnections are in the audit trail. An answer is awaited for `ASK_S` at most.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from app.administration import Administration
from app.capabilities import require
from app.db.rows import Actor
from app.messaging import Messaging
from app.services.audit import Audit
from app.services.connections import (
    AT_BROKERS,
    REST_ONLY,
    ClientEndpoint,
    ClientFacts,
    Connections,
    why_not,
)
from engine.broker import AckResult, Member
from engine.errors import EngineError, GroupNotFound, NotFound, Refused
from engine.message import StoredMessage
from kitemq.model.clients import Processing, ProcessingVerdict, SentAway, StackAnswer, ThreadStack
from kitemq.model.values import Int64

ASK_S = 5.0
STACK_CHARS_MAX = 256 * 1024
DETAIL_CHARS_MAX = 1000
RECEIPTS_MAX = 1000  # in one call of the engine
COMES_BACK_S = 1.0


@dataclass(frozen=True)
class Membership:
    """A client as a member of a group, and its unsettled messages; None if that is not told."""

    group: str
    member: Member
    in_flight: int | None


@dataclass(frozen=True)
class ClientState:
    """A client as its endpoints and groups know it.

    `why_no_stack` and `why_no_verify` are "" if it can be queried.
    """

    name: str
    endpoints: Sequence[ClientFacts]
    memberships: Sequence[Membership]
    why_no_stack: str
    why_no_verify: str

    @property
    def in_flight(self) -> int | None:
        counts = [each.in_flight for each in self.memberships]
        return None if None in counts else sum(filter(None, counts))

    @property
    def is_at_brokers(self) -> bool:
        """It has a connection, but none to this server."""
        return not self.endpoints and any(each.member.is_connected for each in self.memberships)

    @property
    def groups(self) -> list[str]:
        return [each.group for each in self.memberships]


class Clients:
    """Queries and disconnects clients on behalf of an actor, who is named in the trail."""

    def __init__(
        self,
        administration: Administration,
        messaging: Messaging,
        connections: Connections,
        audit: Audit,
    ) -> None:
        self._administration = administration
        self._messaging = messaging
        self._connections = connections
        self._audit = audit

    async def find(self, name: str) -> ClientState:
        """Find a client; NotFound if no endpoint or group knows the name."""
        endpoints = self._connections.find(name)
        memberships = await self._memberships(name)
        if not endpoints and not memberships:
            raise NotFound(
                f"no client named {name[:255]!r} is connected or a member of a group",
                field="client",
                remedy="see the list of clients; one that went silent is forgotten",
                code="client_not_found",
            )
        return _state(name, endpoints, memberships)

    async def offers(self, group: str) -> Iterator[ClientState]:
        """The members of a group one by one, as there may be thousands; none of a missing group.

        Their memberships are left out.
        """
        try:
            members = await self._administration.members.of(group)
        except GroupNotFound:
            return iter(())
        names = [member.client for member in members]
        each = zip(names, self._connections.of_each(names), strict=True)
        return (_state(name, endpoints) for name, endpoints in each)

    async def stack(self, actor: Actor, name: str) -> ThreadStack:
        """Ask a client what its threads do; NotFound, Refused where it offers none, Busy."""
        endpoint = self._endpoint(name, (await self.find(name)).why_no_stack)
        began_s = time.monotonic()
        async with self._audit.change(actor, "client.stack", name) as change:
            text, answer, detail = "", StackAnswer.ANSWERED, ""
            try:
                text = await endpoint.stack(name, ASK_S)
            except TimeoutError:
                answer, detail = StackAnswer.NO_ANSWER, _silent()
            cut, took_ms = text[:STACK_CHARS_MAX], _took_ms(began_s)
            thread_stack = ThreadStack(name, answer, cut, len(cut) < len(text), took_ms, detail)
            change.after = {"answer": thread_stack.answer, "characters": len(thread_stack.text)}
        return thread_stack

    async def verify(
        self, actor: Actor, name: str, group: str, topic: str, queue: int, offset: int
    ) -> Processing:
        """Let a client of a group process a stored message, whose place in the group stays.

        The client does with it whatever it does with messages. Raises NotFound, Refused where the
        client is no member or offers none, Busy.
        """
        client = await self.find(name)
        await self._administration.group(group)
        message = await self._messaging.message(topic, queue, offset)
        if group not in client.groups:
            raise Refused(
                f"{name[:255]!r} is no member of the group {group!r}",
                field="client",
                remedy="choose one of the group's clients",
            )
        endpoint = self._endpoint(name, client.why_no_verify)
        before = {"group": group, "topic": topic, "queue": queue, "offset": str(offset)}
        before["message_id"] = message.message_id
        began_s = time.monotonic()
        async with self._audit.change(actor, "client.verify", name, before=before) as change:
            verdict, code, detail = await _processed(endpoint, name, group, message)
            change.after = {"verdict": verdict, "code": code, "detail": detail}
        place = (name, group, topic, queue, Int64(offset))
        return Processing(*place, message.message_id, verdict, code, detail, _took_ms(began_s))

    async def disconnect(self, actor: Actor, name: str) -> SentAway:
        """End a client's connections and memberships; its messages return within a second.

        It may connect again. Raises NotFound.
        """
        client = await self.find(name)
        if client.memberships:
            require(self._messaging.capabilities, "member_shares", field="client")
        before: dict[str, Any] = {"endpoints": [each.endpoint for each in client.endpoints]}
        before["in_flight"] = {each.group: each.in_flight for each in client.memberships}
        async with self._audit.change(actor, "client.disconnect", name, before=before) as change:
            in_flight = {
                each.group: await self._messaging.held(each.group, name)
                for each in client.memberships
            }
            ended = self._connections.disconnect(name)
            returned = 0
            for group, receipts in in_flight.items():
                await self._leave(group, name)
                returned += await self._bring_back(group, receipts)
            remaining = sum(map(len, in_flight.values())) - returned
            done = SentAway(name, ended, list(in_flight), returned, remaining)
            change.after = {"connections": ended, "returned": returned, "kept": remaining}
        return done

    # -- inside ----------------------------------------------------------------------------------

    async def _memberships(self, name: str) -> list[Membership]:
        is_told = self._messaging.capabilities.member_shares
        return [
            Membership(
                group, member, len(await self._messaging.held(group, name)) if is_told else None
            )
            for group, member in await self._administration.members.memberships(name)
        ]

    def _endpoint(self, name: str, reason: str) -> ClientEndpoint:
        endpoint = self._connections.endpoint_of(name)
        if reason or endpoint is None:
            raise Refused(
                f"{name[:255]!r} cannot be asked: {reason or REST_ONLY}",
                field="client",
                remedy="ask a client of RocketMQ's protocols that is connected",
                code="not_offered",
            )
        return endpoint

    async def _leave(self, group: str, name: str) -> None:
        try:
            await self._messaging.members.leave(group, name)
        except GroupNotFound:
            return  # it was deleted meanwhile

    async def _bring_back(self, group: str, receipts: Sequence[Any]) -> int:
        """Expire deliveries within a second and return their number."""
        done = 0
        for start in range(0, len(receipts), RECEIPTS_MAX):
            part = receipts[start : start + RECEIPTS_MAX]
            try:
                results = await self._messaging.extend(group, part, COMES_BACK_S)
            except EngineError:
                return done  # they run out by themselves, later
            done += sum(each.result is AckResult.DONE for each in results)
        return done


async def _processed(
    endpoint: ClientEndpoint, name: str, group: str, message: StoredMessage
) -> tuple[ProcessingVerdict, str, str]:
    try:
        answer = await endpoint.verify(name, group, message, ASK_S)
    except TimeoutError:
        return ProcessingVerdict.NO_ANSWER, "", _silent()
    detail = answer.detail[:DETAIL_CHARS_MAX]
    return VERDICTS.get(answer.code, ProcessingVerdict.FAILED), answer.code, detail


VERDICTS = {
    "OK": ProcessingVerdict.CONSUMED,
    "CR_SUCCESS": ProcessingVerdict.CONSUMED,
    "CR_COMMIT": ProcessingVerdict.CONSUMED,
    "NOT_IMPLEMENTED": ProcessingVerdict.NOT_OFFERED,
    "UNSUPPORTED": ProcessingVerdict.NOT_OFFERED,
}


def _state(
    name: str, endpoints: Sequence[ClientFacts], memberships: Sequence[Membership] = ()
) -> ClientState:
    stack = why_not([each.why_no_stack for each in endpoints])
    verify = why_not([each.why_no_verify for each in endpoints])
    state = ClientState(name, endpoints, memberships, stack, verify)
    return (
        replace(state, why_no_stack=AT_BROKERS, why_no_verify=AT_BROKERS)
        if state.is_at_brokers
        else state
    )


def _took_ms(began_s: float) -> int:
    return round((time.monotonic() - began_s) * 1000)


def _silent() -> str:
    return (
        f"the client did not answer within {ASK_S:g} s: it is busy or stuck, or its library "
        "does not answer this question"
    )
