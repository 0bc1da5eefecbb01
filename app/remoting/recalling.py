"""Recalls of messages that wait for their time."""

from typing import TYPE_CHECKING

from app.remoting.call import RemotingCall
from app.remoting.errors import ErrorResponse, RemotingRefusal
from app.security.access import Action
from engine.broker import TimerAnswer
from engine.errors import MessageNotFound
from engine.message import Message
from protocol.recall_handle import encode_handle, recalled_id
from protocol.remoting.codes import ResponseCode

if TYPE_CHECKING:
    from app.remoting.backend import RemotingBackend


async def recall(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """See to it that a message is never delivered, by the handle of its send; audited."""
    topic = call.topic(Action.PRODUCE)
    await backend.messaging.topic(topic)
    message_id = recalled_id(call.text("recallHandle"), topic)
    if not message_id:
        raise _refusal("that is no recall handle of this topic")
    waiting = await backend.messaging.find_scheduled(message_id)
    if waiting is not None and waiting.topic != topic:
        raise _refusal("the recall handle is of another topic")
    try:
        answer = await backend.services.scheduled.recall(call.actor, message_id)
    except MessageNotFound as error:
        raise _refusal(error.detail) from error
    if answer is TimerAnswer.ALREADY_DELIVERED:
        raise _refusal("the message was delivered already")
    return ErrorResponse(fields={"msgId": message_id})


def recall_handle(backend: "RemotingBackend", topic: str, message: Message) -> str:
    """The handle of a message to this topic that waits for a time; "" for any other message."""
    if not message.deliver_at_ms or message.delay_level:
        return ""
    broker = backend.settings.broker_name
    return encode_handle(topic, broker, message.deliver_at_ms, message.message_id)


def _refusal(why: str) -> RemotingRefusal:
    return RemotingRefusal(ResponseCode.ILLEGAL_OPERATION, f"recall failed: {why}")
