"""Asking single clients, and sending one away."""

from app.api.framework.operation import Call, Operations
from app.security.access import ADMINISTER_SERVER, Action
from kitemq.model.clients import NamedClient, Processing, SentAway, ThreadStack, ToVerify

operations = Operations("clients")


@operations.post(
    "/clients/stack",
    needs=ADMINISTER_SERVER,
    errors=(404, 409, 503),
    example_body='{"client": "w1"}',
)
async def ask_stack(call: Call[None, NamedClient]) -> ThreadStack:
    """Get the stack traces of a client's threads.

    Clients of the RocketMQ 5 protocol can be asked while their telemetry stream is open; others
    are a 409 (`not_offered`). Waits at most 5 s. Audited.
    """
    return await call.services.clients.stack(call.actor, call.body.client)


@operations.post(
    "/clients/disconnect",
    needs=ADMINISTER_SERVER,
    errors=(404, 409, 503),
    example_body='{"client": "w1"}',
)
async def disconnect_client(call: Call[None, NamedClient]) -> SentAway:
    """End a client's connections and its memberships.

    Its telemetry stream and connection (unless other clients share it), its WebSockets; a client
    that only makes requests loses its membership. Its messages in flight return within a second,
    their attempt counted. It is not locked out: it may connect again. Audited.
    """
    return await call.services.clients.disconnect(call.actor, call.body.client)


@operations.post(
    "/groups/{group}/members/verify",
    needs=Action.ADMINISTER,
    errors=(409, 503),
    example_body='{"client": "w1", "topic": "orders", "queue": 0, "offset": "7"}',
)
async def verify_message(call: Call[None, ToVerify]) -> Processing:
    """Let one client of a group process a stored message, apart from its delivery.

    Its listener is called as with any message, whatever that does; the group's place, attempts and
    dead letters stay as they are. Push consumers of RocketMQ's protocols offer it; others are a
    409 (`not_offered`). Waits at most 5 s. Audited.
    """
    body = call.body
    return await call.services.clients.verify(
        call.actor, body.client, call.path("group"), body.topic, body.queue, int(body.offset)
    )
