"""The methods of the gRPC service: authentication, the handler, and errors as statuses.

A handler that is cancelled because its client disconnected undoes its work.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing, contextmanager, suppress
from functools import partial
from typing import Any

from google.protobuf.message import DecodeError

from app.errors import ProblemError
from app.grpc import pulling, routing, sending, telemetry, workarounds
from app.grpc.backend import GrpcBackend
from app.grpc.call import GrpcCall, client_of
from app.grpc.codes import GrpcRefusal, status_of
from app.grpc.http2_stream import GrpcStatus, Http2Stream, Messages
from app.grpc.receiving import Receives
from app.grpc.signature import GrpcSignatures
from app.security.byte_budget import DETAILS, RefusalReason
from app.security.request_limits import RequestLimits
from engine.errors import EngineError
from protocol.rocketmq.messages import METHODS, SERVICE, Method
from protocol.rocketmq.numbers import Code

log = logging.getLogger("kitemq.grpc")

Unary = Callable[[GrpcCall, Any], Awaitable[Any]]
Streaming = Callable[[GrpcCall, Any], AsyncGenerator[Any, None]]
CODE_NAMES = {int(code): code.name for code in Code}
STREAM_ENDS = {
    Code.UNAUTHORIZED: GrpcStatus.UNAUTHENTICATED,
    Code.FORBIDDEN: GrpcStatus.PERMISSION_DENIED,
    Code.TOO_MANY_REQUESTS: GrpcStatus.RESOURCE_EXHAUSTED,
    Code.INTERNAL_SERVER_ERROR: GrpcStatus.INTERNAL,
}
FIRST_S = 3.0  # for the first command of a stream that is refused
POLL_BYTES_MAX = 64 * 1024  # of the request of a poll, which is held while it waits
EXPECTED = (GrpcRefusal, EngineError, ProblemError)
PATHS = {f"/{SERVICE}/{name}": method for name, method in METHODS.items()}
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
        self, backend: GrpcBackend, signatures: GrpcSignatures, limits: RequestLimits
    ) -> None:
        self._backend = backend
        self._signatures = signatures
        self.limits = limits
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

    def begin(self, stream: Http2Stream) -> None:
        """Serve a call whose headers have arrived; no byte of a stranger's request is kept."""
        method = PATHS.get(stream.path)
        if method is None:
            stream.finish(GrpcStatus.UNIMPLEMENTED, f"there is no method {stream.path}")
        elif method.is_client_stream:
            stream.run_later(self._telemetry(stream, _Commands(stream.messages())))
        else:
            pending = PendingCall(self, method, stream)
            stream.receiver = pending
            pending.begin()

    def call(self, stream: Http2Stream) -> GrpcCall:
        """The authenticated call; raises GrpcRefusal."""
        metadata = stream.metadata
        principal = self._signatures.identify(metadata)
        stream.identify(principal.caller)
        return GrpcCall(principal, stream.origin, client_of(metadata), metadata, stream.limit_s)

    async def answer(self, pending: "PendingCall", call: GrpcCall, data: bytes) -> None:
        """Answer a call whose request is whole."""
        method, stream = pending.method, pending.stream
        try:
            request = _parsed(method, data)
            with self._holding(call, len(data)):
                response = await self._unary[method.name](call, request)
        except Exception as error:
            response = method.response(status=_status_for(call, error))
        finally:
            pending.leave()
        self.count(method, response.status.code)
        stream.answer(response.SerializeToString())

    async def answer_in_parts(self, pending: "PendingCall", call: GrpcCall, data: bytes) -> None:
        """The same for a poll: it counts by itself (`GrpcBackend.polling`)."""
        method, stream, has_begun = pending.method, pending.stream, False
        pending.leave()
        try:
            request = _parsed(method, data)
            with self._holding(call, len(data)):
                async with aclosing(self._streaming[method.name](call, request)) as responses:
                    async for response in responses:
                        if not has_begun:
                            self.count(method, response.status.code)
                        has_begun = True
                        stream.send(response.SerializeToString())
                        await stream.drained()
        except Exception as error:
            if has_begun:
                log.exception("a call of the client %r failed", call.client)
                stream.finish(GrpcStatus.INTERNAL, "the server failed; its log says why")
                return
            failure = _status_for(call, error)
            self.count(method, failure.code)
            stream.send(method.response(status=failure).SerializeToString())
        stream.finish(GrpcStatus.OK)

    def refuse(
        self, method: Method, stream: Http2Stream, call: GrpcCall | None, error: Exception
    ) -> None:
        """Answer a call that comes to no handler."""
        failure = _status_for(call, error)
        self.count(method, failure.code)
        stream.answer(method.response(status=failure).SerializeToString())

    def count(self, method: Method, code: int) -> None:
        """Count an answer."""
        self._backend.figures.calls[method.name, CODE_NAMES[code]] += 1

    async def _telemetry(self, stream: Http2Stream, commands: "_Commands") -> None:
        method, call = METHODS["Telemetry"], None
        try:
            call = self.call(stream)
            with self._backend.streaming(call):
                answers = telemetry.telemetry(self._backend, call, commands)
                async with aclosing(answers):
                    async for command in answers:
                        stream.send(command.SerializeToString())
                        await stream.drained()
        except EXPECTED as error:
            failure = _status_for(call, error)
            self.count(method, failure.code)
            if call is not None and failure.code == Code.FORBIDDEN:
                await commands.begun()
            # Node waits for one: see `workarounds.py`.
            stream.send(method.response(status=failure).SerializeToString())
            await stream.drained()
            grpc_status = STREAM_ENDS.get(failure.code, GrpcStatus.INVALID_ARGUMENT)
            stream.finish(grpc_status, failure.message)
        except Exception:
            log.exception("a telemetry stream failed")
            stream.finish(GrpcStatus.INTERNAL, "the server failed; its log says why")
        else:
            self.count(method, Code.OK)
            stream.finish(GrpcStatus.OK)

    @contextmanager
    def _holding(self, call: GrpcCall, size_bytes: int) -> Iterator[None]:
        """Count the request's bytes in the server's budget; raises ProblemError."""
        give_back = self.limits.hold(call.origin.host, call.principal.caller, size_bytes)
        try:
            yield
        finally:
            give_back()


class PendingCall:
    """A call that waits for its one request, counted among all requests under way."""

    is_waiting = True
    is_full = False

    def __init__(self, service: MessagingService, method: Method, stream: Http2Stream) -> None:
        self._service = service
        self.method = method
        self.stream = stream
        self._call: GrpcCall | None = None
        self._counted = ""  # the address for which it counts
        self._request: bytes | None = None

    def begin(self) -> None:
        """Authenticate the caller, or refuse it."""
        try:
            call = self._call = self._service.call(self.stream)
            self._service.limits.enter(call.origin.host)
            self._counted = call.origin.host
        except Exception as error:
            self._refuse(error)

    def leave(self) -> None:
        """End the count of the call."""
        if self._counted:
            self._service.limits.leave(self._counted)
            self._counted = ""

    cancel = leave

    def message(self, data: bytes) -> None:
        if not self.method.is_server_stream:
            self._run(data)
        elif self._request is not None:
            # It would stay in memory while the poll waits.
            self._refuse(GrpcRefusal(Code.BAD_REQUEST, "the call has more than one request"))
        elif len(data) > POLL_BYTES_MAX:
            text = f"the request has {len(data)} bytes, {POLL_BYTES_MAX} are the most for a poll"
            self._refuse(GrpcRefusal(Code.PAYLOAD_TOO_LARGE, text))
        else:
            self._request = data

    def end(self) -> None:
        if self._request is None:
            self._refuse(GrpcRefusal(Code.BAD_REQUEST, "the call has no request"))
        else:
            self._run(self._request)

    def refuse(self, reason: RefusalReason) -> bool:
        if reason is RefusalReason.SLOW:
            code, text = Code.REQUEST_TIMEOUT, DETAILS[reason]
        else:
            code = Code.TOO_MANY_REQUESTS
            text = f"{DETAILS[reason]}; send fewer at once, or try again later"
        self._refuse(GrpcRefusal(code, text))
        return True

    def _run(self, data: bytes) -> None:
        call, stream = self._call, self.stream
        assert call is not None, "it was authenticated"
        stream.receiver = None
        if self.method.is_server_stream:
            stream.run(self._service.answer_in_parts(self, call, data))
        else:
            stream.run(self._service.answer(self, call, data))

    def _refuse(self, error: Exception) -> None:
        self.leave()
        self._service.refuse(self.method, self.stream, self._call, error)


class _Commands:
    """The commands of a client's stream."""

    def __init__(self, messages: Messages) -> None:
        self._messages = messages
        self._has_begun = False

    def __aiter__(self) -> "_Commands":
        return self

    async def __anext__(self) -> Any:
        data = await anext(self._messages)
        self._has_begun = True
        return _parsed(METHODS["Telemetry"], data)

    async def begun(self) -> None:
        """Wait for the first command, at most `FIRST_S`: see `workarounds.py`, on Java."""
        if not self._has_begun:
            with suppress(TimeoutError, StopAsyncIteration):
                async with asyncio.timeout(FIRST_S):
                    await anext(self)


def _parsed(method: Method, data: bytes) -> Any:
    """The request; raises GrpcRefusal."""
    try:
        return method.request.FromString(data)
    except DecodeError:
        raise GrpcRefusal(
            Code.BAD_REQUEST, f"the request of {method.name} is no valid message"
        ) from None


def _status_for(call: GrpcCall | None, error: Exception) -> Any:
    """The status for `error`, with a code that the client knows."""
    status = status_of(error)
    if call is not None:
        status.code = workarounds.known_code(Code(status.code), call.speaks, call.version)
    return status
