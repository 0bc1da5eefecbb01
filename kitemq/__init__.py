"""The Python SDK of KiteMQ: send, receive and administer.

    from kitemq import Consumer, Producer

    with Producer() as producer:
        producer.send("orders", b"1", tag="paid", keys="order-1")

    with Consumer("billing", "orders") as consumer:
        for message in consumer:
            ...
            message.ack()

Each has an asynchronous twin. The server is an argument, else KITEMQ_SERVER, else this machine.

A name is imported when it is first used: `kitemq.model` and `kitemq.protocol`, which the server
shares, load neither an HTTP client nor a WebSocket.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kitemq.async_client import AsyncClient as AsyncClient
    from kitemq.async_consumer import AsyncConsumer as AsyncConsumer
    from kitemq.async_producer import AsyncProducer as AsyncProducer
    from kitemq.client import Client as Client
    from kitemq.consumer import Consumer as Consumer
    from kitemq.errors import BufferFull as BufferFull
    from kitemq.errors import Busy as Busy
    from kitemq.errors import Invalid as Invalid
    from kitemq.errors import KiteError as KiteError
    from kitemq.errors import NoReply as NoReply
    from kitemq.errors import NotFound as NotFound
    from kitemq.errors import ProtocolViolation as ProtocolViolation
    from kitemq.errors import Refused as Refused
    from kitemq.errors import Rejected as Rejected
    from kitemq.errors import Stopped as Stopped
    from kitemq.errors import TimedOut as TimedOut
    from kitemq.errors import Unreachable as Unreachable
    from kitemq.message import Message as Message
    from kitemq.message import MessageOptions as MessageOptions
    from kitemq.message import SendResult as SendResult
    from kitemq.model.topics import Durability as Durability
    from kitemq.producer import Producer as Producer
    from kitemq.received import AckResult as AckResult
    from kitemq.received import Received as Received
    from kitemq.replies import ReplyResult as ReplyResult
    from kitemq.requests import Reply as Reply
    from kitemq.transaction_producer import Transaction as Transaction
    from kitemq.transaction_producer import TransactionProducer as TransactionProducer
    from kitemq.transactions import AsyncTransaction as AsyncTransaction
    from kitemq.transactions import AsyncTransactionProducer as AsyncTransactionProducer
    from kitemq.transactions import Check as Check
    from kitemq.transactions import Decision as Decision
    from kitemq.transactions import TransactionState as TransactionState

# The module of each public name; a test compares it with the imports above.
MODULES = {
    "AckResult": "kitemq.received",
    "AsyncClient": "kitemq.async_client",
    "AsyncConsumer": "kitemq.async_consumer",
    "AsyncProducer": "kitemq.async_producer",
    "AsyncTransaction": "kitemq.transactions",
    "AsyncTransactionProducer": "kitemq.transactions",
    "BufferFull": "kitemq.errors",
    "Busy": "kitemq.errors",
    "Check": "kitemq.transactions",
    "Client": "kitemq.client",
    "Consumer": "kitemq.consumer",
    "Decision": "kitemq.transactions",
    "Durability": "kitemq.model.topics",
    "Invalid": "kitemq.errors",
    "KiteError": "kitemq.errors",
    "Message": "kitemq.message",
    "MessageOptions": "kitemq.message",
    "NoReply": "kitemq.errors",
    "NotFound": "kitemq.errors",
    "Producer": "kitemq.producer",
    "ProtocolViolation": "kitemq.errors",
    "Received": "kitemq.received",
    "Refused": "kitemq.errors",
    "Rejected": "kitemq.errors",
    "Reply": "kitemq.requests",
    "ReplyResult": "kitemq.replies",
    "SendResult": "kitemq.message",
    "Stopped": "kitemq.errors",
    "TimedOut": "kitemq.errors",
    "Transaction": "kitemq.transaction_producer",
    "TransactionProducer": "kitemq.transaction_producer",
    "TransactionState": "kitemq.transactions",
    "Unreachable": "kitemq.errors",
}
__all__ = [*MODULES]  # noqa: PLE0604


if not TYPE_CHECKING:  # a type checker would take every name for one of these

    def __getattr__(name: str) -> Any:
        """The public name, from its module."""
        if name not in MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(MODULES[name]), name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *MODULES})
