"""The service's methods on the wire: who calls, the handler, and errors as statuses.

A handler that is cancelled, because its client hung up, undoes what it had begun.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote

import grpc

from app.errors import DoorError
from app.grpc import pulling, routing, sending, telemetry
from app.grpc.call import Call, client_of
from app.grpc.codes import Refusal, status_of
from app.grpc.hub import Hub
from app.grpc.origin import Origin
from app.grpc.receiving import Receives
from app.grpc.signature import Signatures
from app.security.load import Load
from engine.errors import EngineError
from protocol.rocketmq.messages import METHODS, SERVICE, Method
from protocol.rocketmq.numbers import Code

Unary = Callable[[Call, Any], Awaitable[Any]]
Streaming = Callable[[Call, Any], AsyncIterator[Any]]
OriginOf = Callable[[str], Origin | None]
CODE_NAMES = {int(code): code.name for code in Code}
STREAM_ENDS = {
    Code.UNAUTHORIZED: grpc.StatusCode.UNAUTHENTICATED,
    Code.TOO_MANY_REQUESTS: grpc.StatusCode.RESOURCE_EXHAUSTED,
    Code.INTERNAL_SERVER_ERROR: grpc.StatusCode.INTERNAL,
}
POLL_BYTES_MAX = 64 * 1024  # of the request of a poll, which is held while it waits
EXPECTED = (Refusal, EngineError, DoorError)


class Service:
    """Every RPC of `apache.rocketmq.v2.MessagingService`."""

    def __init__(self, hub: Hub, signatures: Signatures, load: Load, origin_of: OriginOf) -> None:
        """`origin_of` tells the connection by gRPC's name of the peer; None for a stranger."""
        self._hub = hub
        self._signatures = signatures
        self._load = load
        self._origin_of = origin_of
        receives = Receives(hub)
        self._unary: dict[str, Unary] = {
            "QueryRoute": self._with_hub(routing.query_route),
            "QueryAssignment": self._with_hub(routing.query_assignment),
            "Heartbeat": self._with_hub(telemetry.heartbeat),
            "NotifyClientTermination": self._with_hub(telemetry.notify_client_termination),
            "SendMessage": self._with_hub(sending.send_message),
            "RecallMessage": self._with_hub(sending.recall_message),
            "EndTransaction": self._with_hub(sending.end_transaction),
            "AckMessage": receives.ack_message,
            "ChangeInvisibleDuration": receives.change_invisible_duration,
            "ForwardMessageToDeadLetterQueue": receives.forward_message_to_dead_letter_queue,
            "UpdateOffset": self._with_hub(pulling.update_offset),
            "GetOffset": self._with_hub(pulling.get_offset),
            "QueryOffset": self._with_hub(pulling.query_offset),
            "SyncLiteSubscription": self._with_hub(telemetry.sync_lite_subscription),
        }
        self._streaming: dict[str, Streaming] = {
            "ReceiveMessage": receives.receive_message,
            "PullMessage": lambda call, request: pulling.pull_message(hub, call, request),
        }

    def handler(self) -> Any:
        """What a gRPC server is given."""
        handlers = {name: self._method(method) for name, method in METHODS.items()}
        return grpc.method_handlers_generic_handler(SERVICE, handlers)

    def _with_hub(self, handler: Callable[[Hub, Call, Any], Awaitable[Any]]) -> Unary:
        return lambda call, request: handler(self._hub, call, request)

    def _method(self, method: Method) -> Any:
        coding = {
            "request_deserializer": method.request.FromString,
            "response_serializer": method.response.SerializeToString,
        }
        if method.is_client_stream:
            return grpc.stream_stream_rpc_method_handler(self._telemetry, **coding)
        if method.is_server_stream:
            streamed = self._answer_stream(method, self._streaming[method.name])
            return grpc.unary_stream_rpc_method_handler(streamed, **coding)
        unary = self._answer_unary(method, self._unary[method.name])
        return grpc.unary_unary_rpc_method_handler(unary, **coding)

    def _answer_unary(self, method: Method, handler: Unary) -> Any:
        async def answer(request: Any, context: Any) -> Any:
            try:
                call = self._call(context)
                with self._counted(call, request.ByteSize()):
                    response = await handler(call, request)
            except Exception as error:
                response = method.response(status=status_of(error))
            self._count(method, response.status.code)
            return response

        return answer

    def _answer_stream(self, method: Method, handler: Streaming) -> Any:
        async def answer(request: Any, context: Any) -> AsyncIterator[Any]:
            begun = False
            try:
                call = self._call(context)
                with self._held(request.ByteSize()):
                    async for response in handler(call, request):
                        if not begun:
                            self._count(method, response.status.code)
                        begun = True
                        yield response
            except Exception as error:
                if begun:
                    raise
                failure = status_of(error)
                self._count(method, failure.code)
                yield method.response(status=failure)

        return answer

    async def _telemetry(self, requests: AsyncIterator[Any], context: Any) -> AsyncIterator[Any]:
        method = METHODS["Telemetry"]
        try:
            call = self._call(context)
            with self._hub.streaming(call):
                async for command in telemetry.telemetry(self._hub, call, requests):
                    yield command
            self._count(method, Code.OK)
        except EXPECTED as error:
            found = status_of(error)
            self._count(method, found.code)
            yield method.response(status=found)  # Node waits for one: see `quirks.py`
            known = STREAM_ENDS.get(found.code, grpc.StatusCode.INVALID_ARGUMENT)
            await context.abort(known, found.message)

    def _call(self, context: Any) -> Call:
        """Who calls; a Refusal where that is not known."""
        origin = self._origin_of(unquote(context.peer()))
        if origin is None:
            raise Refusal(Code.UNAUTHORIZED, "the call did not come through the server's own port")
        metadata = {
            name: value for name, value in context.invocation_metadata() if isinstance(value, str)
        }
        who = self._signatures.identify(metadata)
        return Call(who, origin, client_of(metadata), metadata, context.time_remaining())

    @contextmanager
    def _counted(self, call: Call, size_bytes: int) -> Any:
        """The call counts among all that are under way, of REST as well."""
        address = call.origin.host
        self._load.enter(address)
        held = 0
        try:
            held = self._load.hold(size_bytes, 0)
            yield
        finally:
            self._load.leave(address, held)

    @contextmanager
    def _held(self, size_bytes: int) -> Any:
        """Polls count by themselves (`Hub.polling`), their requests' bytes with all others'."""
        if size_bytes > POLL_BYTES_MAX:
            raise Refusal(
                Code.PAYLOAD_TOO_LARGE,
                f"the request has {size_bytes} bytes, {POLL_BYTES_MAX} are the most for a poll",
            )
        held = self._load.hold(size_bytes, 0)
        try:
            yield
        finally:
            self._load.release(held)

    def _count(self, method: Method, code: int) -> None:
        self._hub.figures.calls[method.name, CODE_NAMES[code]] += 1
