"""Asking single clients, and sending one away."""

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from app.api.framework.operation import API, Call, operation
from app.api.groups.members import ClientId
from app.api.topics.topics import actor_of
from app.security.access import ADMINISTER_SERVER, Action, Kind, Needs
from app.services.clients import Answer, Disconnected, Verdict, Verified

TAG = "clients"


class NamedClient(msgspec.Struct, forbid_unknown_fields=True):
    """A client by its name: that of its heartbeats, its HELLO or its `x-mq-client-id`."""

    client: ClientId


class ToVerify(msgspec.Struct, forbid_unknown_fields=True):
    """Which stored message a client of the group is to process."""

    client: ClientId
    topic: str
    queue: Annotated[int, Meta(ge=0, le=65535)]
    offset: Annotated[str, Meta(pattern="^[0-9]{1,18}$")]


class ThreadStack(msgspec.Struct):
    """What a client's threads do, in its own words: at most 256 KiB of them (`is_cut`).

    `no_answer`: nothing came within 5 s, and `detail` says what that can mean.
    """

    client: str
    answer: Answer
    text: str
    is_cut: bool
    took_ms: int
    detail: str


class Processing(msgspec.Struct):
    """What a client made of the message.

    `not_offered`: it answered that its library has no such thing. `no_answer`: nothing came
    within 5 s; it may have processed the message all the same. `code` is RocketMQ's.
    """

    client: str
    group: str
    topic: str
    queue: int
    offset: str
    message_id: str
    verdict: Verdict
    code: str
    detail: str
    took_ms: int


class SentAway(msgspec.Struct):
    """What was ended; `returned` messages come back within a second as failed attempts.

    `kept` are those that were settled meanwhile, or stay until their time is up.
    """

    client: str
    connections: int
    groups: Sequence[str]
    returned: int
    kept: int


@operation(
    "POST",
    f"{API}/clients/stack",
    tag=TAG,
    needs=ADMINISTER_SERVER,
    body=NamedClient,
    answer=ThreadStack,
    errors=(404, 409, 503),
    example="curl -X POST $URL/api/v1/clients/stack -H 'Content-Type: application/json' "
    """-d '{"client": "w1"}'""",
)
async def ask_stack(call: Call[None, NamedClient]) -> ThreadStack:
    """Ask a client what its threads do.

    Clients of the RocketMQ 5 protocol can be asked while their telemetry stream is open; others
    are a 409 (`not_offered`). Waits at most 5 s. Audited.
    """
    found = await call.services.clients.stack(actor_of(call), call.body.client)
    return ThreadStack(
        found.client, found.answer, found.text, found.is_cut, found.took_ms, found.detail
    )


@operation(
    "POST",
    f"{API}/clients/disconnect",
    tag=TAG,
    needs=ADMINISTER_SERVER,
    body=NamedClient,
    answer=SentAway,
    errors=(404, 503),
    example="curl -X POST $URL/api/v1/clients/disconnect -H 'Content-Type: application/json' "
    """-d '{"client": "w1"}'""",
)
async def disconnect_client(call: Call[None, NamedClient]) -> SentAway:
    """End a client's connections and its memberships.

    Its telemetry stream and connection (unless other clients share it), its WebSockets; who only
    makes requests is a member no more. What it holds comes back within a second, its attempt
    counted. It is not locked out: it may connect again. Audited.
    """
    done: Disconnected = await call.services.clients.disconnect(actor_of(call), call.body.client)
    return SentAway(done.client, done.connections, done.groups, done.returned, done.kept)


@operation(
    "POST",
    f"{API}/groups/{{group}}/members/verify",
    tag=TAG,
    needs=Needs(Action.ADMINISTER, Kind.GROUP, "group"),
    body=ToVerify,
    answer=Processing,
    errors=(404, 409, 503),
    example="curl -X POST $URL/api/v1/groups/billing/members/verify "
    "-H 'Content-Type: application/json' "
    """-d '{"client": "w1", "topic": "orders", "queue": 0, "offset": "7"}'""",
)
async def verify_message(call: Call[None, ToVerify]) -> Processing:
    """Let one client of a group process a stored message, apart from its delivery.

    Its listener is called as with any message, whatever that does; the group's place, attempts and
    dead letters stay as they are. Push consumers of the RocketMQ 5 protocol offer it; others are a
    409 (`not_offered`). Waits at most 5 s. Audited.
    """
    asked = call.body
    done: Verified = await call.services.clients.verify(
        actor_of(call),
        asked.client,
        call.path("group"),
        asked.topic,
        asked.queue,
        int(asked.offset),
    )
    return Processing(
        done.client,
        done.group,
        done.topic,
        done.queue,
        str(done.offset),
        done.message_id,
        done.verdict,
        done.code,
        done.detail,
        done.took_ms,
    )


OPERATIONS = (ask_stack, disconnect_client, verify_message)
