"""The methods of the gRPC service: authentication, the handler, and errors as statuses.

A handler that is cancelled because its client disconnected undoes its work.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any
from urllib.parse import unquote

import grpc
import grpc.aio

from app.errors import ProblemError
from app.grpc import pulling, routing, sending, telemetry, workarounds
from app.grpc.backend import GrpcBackend
from app.grpc.call import GrpcCall, client_of
from app.grpc.codes import GrpcRefusal, status_of
from app.grpc.connection import GrpcConnection
from app.grpc.receiving import Receives
from app.grpc.signature import GrpcSignatures
from app.security.byte_budget import RefusalReason
from app.security.request_limits import RequestLimits
from engine.errors import EngineError
from protocol.rocketmq.messages import METHODS, SERVICE, Method
from protocol.rocketmq.numbers import Code

Unary = Callable[[GrpcCall, Any], Awaitable[Any]]
Streaming = Callable[[GrpcCall, Any], AsyncIterator[Any]]
OriginOf = Callable[[str], GrpcConnection | None]
CODE_NAMES = {int(code): code.name for code in Code}
STREAM_ENDS = {
    Code.UNAUTHORIZED: grpc.StatusCode.UNAUTHENTICATED,
    Code.FORBIDDEN: grpc.StatusCode.PERMISSION_DENIED,
    Code.TOO_MANY_REQUESTS: grpc.StatusCode.RESOURCE_EXHAUSTED,
    Code.INTERNAL_SERVER_ERROR: grpc.StatusCode.INTERNAL,
}
FIRST_S = 3.0  # for the first command of a stream that is refused
REQUEST_S = 120.0  # for a call's request to arrive whole
POLL_BYTES_MAX = 64 * 1024  # of the request of a poll, which is held while it waits
EXPECTED = (GrpcRefusal, EngineError, ProblemError)
UNARY: dict[str, Callable[[GrpcBackend, GrpcCall, Any], Awaitable[Any]]] = {
    "QueryRoute": routing.query_route,
    "QueryAssignment": routing.query_assignment,
    "Heartbeat": telemetry.heartbeat,
    "NotifyClientTermination": telemetry.notify_client_termination,
    "SendMessage": sending.send_message,
    "RecallMessage": sending.recall_message,
    "EndTransaction": sending.end_transaction,
    "UpdateOffset": pulling.update_offset,
    "GetOffset": pulling.get_offset,
    "QueryOffset": pulling.query_offset,
    "SyncLiteSubscription": telemetry.sync_lite_subscription,
}


class MessagingService:
    """Every RPC of `apache.rocketmq.v2.MessagingService`."""

    def __init__(
        self,
        backend: GrpcBackend,
        signatures: GrpcSignatures,
        limits: RequestLimits,
        origin_of: OriginOf,
    ) -> None:
        """`origin_of` finds the connection by gRPC's name of the peer; None if unknown."""
        self._backend = backend
        self._signatures = signatures
        self._limits = limits
        self._origin_of = origin_of
        receives = Receives(backend)
        self._unary: dict[str, Unary] = {
            **{name: partial(handler, backend) for name, handler in UNARY.items()},
            "AckMessage": receives.ack_message,
            "ChangeInvisibleDuration": receives.change_invisible_duration,
            "ForwardMessageToDeadLetterQueue": receives.forward_message_to_dead_letter_queue,
        }
        self._streaming: dict[str, Streaming] = {
            "ReceiveMessage": receives.receive_message,
            "PullMessage": partial(pulling.pull_message, backend),
        }

    def handler(self) -> Any:
        """The handler for a gRPC server."""
        handlers = {name: self._method(method) for name, method in METHODS.items()}
        return grpc.method_handlers_generic_handler(SERVICE, handlers)

    def _method(self, method: Method) -> Any:
        coding = {
            "request_deserializer": method.request.FromString,
            "response_serializer": method.response.SerializeToString,
        }
        if method.is_client_stream:
            return grpc.stream_stream_rpc_method_handler(self._telemetry, **coding)
        # Registered as streams of requests, as the library would read the request of a unary call
        # before it is authenticated.
        if method.is_server_stream:
            streamed = self._answer_stream(method, self._streaming[method.name])
            return grpc.stream_stream_rpc_method_handler(streamed, **coding)
        unary = self._answer_unary(method, self._unary[method.name])
        return grpc.stream_unary_rpc_method_handler(unary, **coding)

    def _answer_unary(self, method: Method, handler: Unary) -> Any:
        async def answer(_requests: Any, context: Any) -> Any:
            call = None
            try:
                call = self._call(context)
                with self._counted(call):
                    request = await self._request(call, context)
                    with self._poll_slot(call, request.ByteSize()):
                        response = await handler(call, request)
            except Exception as error:
                response = method.response(status=_status_for(call, error))
            self._count(method, response.status.code)
            return response

        return answer

    def _answer_stream(self, method: Method, handler: Streaming) -> Any:
        async def answer(_requests: Any, context: Any) -> AsyncIterator[Any]:
            call, has_begun = None, False
            try:
                call = self._call(context)
                with self._counted(call):  # later polls count by themselves (`GrpcBackend.polling`)
                    request = await self._request(call, context, is_poll=True)
                with self._poll_slot(call, request.ByteSize()):
                    async for response in handler(call, request):
                        if not has_begun:
                            self._count(method, response.status.code)
                        has_begun = True
                        yield response
            except Exception as error:
                if has_begun:
                    raise
                failure = _status_for(call, error)
                self._count(method, failure.code)
                yield method.response(status=failure)

        return answer

    async def _telemetry(self, requests: AsyncIterator[Any], context: Any) -> AsyncIterator[Any]:
        method, call, commands = METHODS["Telemetry"], None, _CommandStream(requests)
        try:
            call = self._call(context)
            with self._backend.streaming(call):
                async for command in telemetry.telemetry(self._backend, call, commands):
                    yield command
            self._count(method, Code.OK)
        except EXPECTED as error:
            status = _status_for(call, error)
            self._count(method, status.code)
            if call is not None and status.code == Code.FORBIDDEN:
                await commands.begun()
            yield method.response(status=status)  # Node waits for one: see `workarounds.py`
            grpc_code = STREAM_ENDS.get(status.code, grpc.StatusCode.INVALID_ARGUMENT)
            await context.abort(grpc_code, status.message)

    def _call(self, context: Any) -> GrpcCall:
        """The authenticated call; raises GrpcRefusal."""
        origin = self._origin_of(unquote(context.peer()))
        if origin is None:
            raise GrpcRefusal(
                Code.UNAUTHORIZED, "the call did not come through the server's own port"
            )
        metadata = {
            name: value for name, value in context.invocation_metadata() if isinstance(value, str)
        }
        principal = self._signatures.identify(metadata)
        origin.bytes.name(principal.caller)
        return GrpcCall(principal, origin, client_of(metadata), metadata, context.time_remaining())

    async def _request(self, call: GrpcCall, context: Any, *, is_poll: bool = False) -> Any:
        """The call's one request; raises GrpcRefusal for none, several, or after REQUEST_S."""
        reading = call.origin.bytes.reading
        limit = asyncio.timeout(REQUEST_S)
        try:
            async with limit:
                reading.begin(limit)
                request = await context.read()
                if request is grpc.aio.EOF:
                    raise GrpcRefusal(Code.BAD_REQUEST, "the call has no request")
                if is_poll:
                    _check_poll(request.ByteSize())
                    # A second request would stay in memory while the poll waits.
                    if await context.read() is not grpc.aio.EOF:
                        raise GrpcRefusal(Code.BAD_REQUEST, "the call has more than one request")
        except TimeoutError:
            if reading.end(limit):
                raise GrpcRefusal(
                    Code.TOO_MANY_REQUESTS,
                    "too many bytes of unfinished requests; send fewer at once, or try again later",
                ) from None
            self._limits.budget.refuse(RefusalReason.SLOW)
            raise GrpcRefusal(
                Code.REQUEST_TIMEOUT, f"the request did not arrive within {REQUEST_S:.0f} s"
            ) from None
        finally:
            reading.end(limit)
        return request

    @contextmanager
    def _counted(self, call: GrpcCall) -> Any:
        """Count the call among all requests under way, with those of REST."""
        address = call.origin.host
        self._limits.enter(address)
        try:
            yield
        finally:
            self._limits.leave(address)

    @contextmanager
    def _poll_slot(self, call: GrpcCall, size_bytes: int) -> Any:
        """Count the request's bytes in the server's budget."""
        hold = self._limits.budget.reserve(call.origin.host, call.principal.caller, _nothing)
        hold.settle()
        self._limits.take(hold, size_bytes)
        try:
            yield
        finally:
            hold.close()

    def _count(self, method: Method, code: int) -> None:
        self._backend.figures.calls[method.name, CODE_NAMES[code]] += 1


class _CommandStream:
    """The commands of a client's stream."""

    def __init__(self, requests: AsyncIterator[Any]) -> None:
        self._requests = requests
        self._commands: AsyncIterator[Any] | None = None  # opened at the first read
        self._has_begun = False

    def __aiter__(self) -> "_CommandStream":
        return self

    async def __anext__(self) -> Any:
        if self._commands is None:
            self._commands = aiter(self._requests)
        command = await anext(self._commands)
        self._has_begun = True
        return command

    async def begun(self) -> None:
        """Wait for the first command, at most `FIRST_S`: see `workarounds.py`, on Java."""
        if not self._has_begun:
            with suppress(TimeoutError, StopAsyncIteration):
                async with asyncio.timeout(FIRST_S):
                    await anext(self)


def _status_for(call: GrpcCall | None, error: Exception) -> Any:
    """The status for `error`, with a code that the client knows."""
    status = status_of(error)
    if call is not None:
        status.code = workarounds.known_code(Code(status.code), call.speaks, call.version)
    return status


def _check_poll(size_bytes: int) -> None:
    """Raise GrpcRefusal for a poll whose request is too large to stay in memory."""
    if size_bytes > POLL_BYTES_MAX:
        raise GrpcRefusal(
            Code.PAYLOAD_TOO_LARGE,
            f"the request has {size_bytes} bytes, {POLL_BYTES_MAX} are the most for a poll",
        )


def _nothing() -> None:
    """A whole request is never evicted."""
