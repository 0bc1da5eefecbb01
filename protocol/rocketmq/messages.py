"""The messages of `apache.rocketmq.v2` as classes, built from `rocketmq.binpb` beside this file.

They live in a descriptor pool of their own: the official client brings the same names in files of
other names, and protobuf's common pool refuses to hold both in one process. The classes are made
at import, as those of generated code are. `tools/rocketmq_descriptors.sh` makes the binary form
from the .proto files, which are Apache's (LICENSE, NOTICE).
"""

from pathlib import Path
from typing import Any, NamedTuple

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

FOLDER = Path(__file__).parent
PACKAGE = "apache.rocketmq.v2"
SERVICE = f"{PACKAGE}.MessagingService"


class Method(NamedTuple):
    """One RPC of the service: its classes, and which of its sides are streams."""

    name: str
    request: Any
    response: Any
    is_client_stream: bool
    is_server_stream: bool


def _load() -> Any:
    pool = descriptor_pool.DescriptorPool()
    files = descriptor_pb2.FileDescriptorSet.FromString((FOLDER / "rocketmq.binpb").read_bytes())
    for file in files.file:
        pool.AddSerializedFile(file.SerializeToString())
    return pool


POOL = _load()


def _class(name: str) -> Any:
    return message_factory.GetMessageClass(POOL.FindMessageTypeByName(f"{PACKAGE}.{name}"))


def _methods() -> dict[str, Method]:
    methods = {}
    for each in POOL.FindServiceByName(SERVICE).methods:
        methods[each.name] = Method(
            each.name,
            message_factory.GetMessageClass(each.input_type),
            message_factory.GetMessageClass(each.output_type),
            each.client_streaming,
            each.server_streaming,
        )
    return methods


METHODS = _methods()

Resource = _class("Resource")
Status = _class("Status")
Endpoints = _class("Endpoints")
Broker = _class("Broker")
MessageQueue = _class("MessageQueue")
Assignment = _class("Assignment")
Message = _class("Message")
SystemProperties = _class("SystemProperties")
FilterExpression = _class("FilterExpression")
Settings = _class("Settings")
RetryPolicy = _class("RetryPolicy")

QueryRouteRequest = _class("QueryRouteRequest")
QueryRouteResponse = _class("QueryRouteResponse")
QueryAssignmentRequest = _class("QueryAssignmentRequest")
QueryAssignmentResponse = _class("QueryAssignmentResponse")
HeartbeatRequest = _class("HeartbeatRequest")
HeartbeatResponse = _class("HeartbeatResponse")
NotifyClientTerminationRequest = _class("NotifyClientTerminationRequest")
NotifyClientTerminationResponse = _class("NotifyClientTerminationResponse")
SendMessageRequest = _class("SendMessageRequest")
SendMessageResponse = _class("SendMessageResponse")
SendResultEntry = _class("SendResultEntry")
EndTransactionRequest = _class("EndTransactionRequest")
EndTransactionResponse = _class("EndTransactionResponse")
RecallMessageRequest = _class("RecallMessageRequest")
RecallMessageResponse = _class("RecallMessageResponse")
ReceiveMessageRequest = _class("ReceiveMessageRequest")
ReceiveMessageResponse = _class("ReceiveMessageResponse")
AckMessageRequest = _class("AckMessageRequest")
AckMessageResponse = _class("AckMessageResponse")
AckMessageEntry = _class("AckMessageEntry")
AckMessageResultEntry = _class("AckMessageResultEntry")
ChangeInvisibleDurationRequest = _class("ChangeInvisibleDurationRequest")
ChangeInvisibleDurationResponse = _class("ChangeInvisibleDurationResponse")
ForwardMessageToDeadLetterQueueRequest = _class("ForwardMessageToDeadLetterQueueRequest")
ForwardMessageToDeadLetterQueueResponse = _class("ForwardMessageToDeadLetterQueueResponse")
PullMessageRequest = _class("PullMessageRequest")
PullMessageResponse = _class("PullMessageResponse")
UpdateOffsetRequest = _class("UpdateOffsetRequest")
UpdateOffsetResponse = _class("UpdateOffsetResponse")
GetOffsetRequest = _class("GetOffsetRequest")
GetOffsetResponse = _class("GetOffsetResponse")
QueryOffsetRequest = _class("QueryOffsetRequest")
QueryOffsetResponse = _class("QueryOffsetResponse")
SyncLiteSubscriptionRequest = _class("SyncLiteSubscriptionRequest")
SyncLiteSubscriptionResponse = _class("SyncLiteSubscriptionResponse")
TelemetryCommand = _class("TelemetryCommand")
RecoverOrphanedTransactionCommand = _class("RecoverOrphanedTransactionCommand")
PrintThreadStackTraceCommand = _class("PrintThreadStackTraceCommand")
VerifyMessageCommand = _class("VerifyMessageCommand")
ReconnectEndpointsCommand = _class("ReconnectEndpointsCommand")
