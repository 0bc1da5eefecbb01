"""The Python SDK of KiteMQ: send, receive and administer.

    from kitemq import Consumer, Producer

    with Producer() as producer:
        producer.send("orders", b"1", tag="paid", keys="order-1")

    with Consumer("billing", "orders") as consumer:
        for message in consumer:
            ...
            message.ack()

Each has an asynchronous twin. The server is an argument, else KITEMQ_SERVER, else this machine.
"""

from kitemq.async_consumer import AsyncConsumer
from kitemq.async_producer import AsyncProducer
from kitemq.client import Client
from kitemq.consumer import Consumer
from kitemq.errors import (
    BufferFull,
    Busy,
    Invalid,
    KiteError,
    NoReply,
    NotFound,
    ProtocolViolation,
    Refused,
    Rejected,
    Stopped,
    TimedOut,
    Unreachable,
)
from kitemq.message import AckResult, Message, Received, SendResult
from kitemq.model.topics import Durability
from kitemq.producer import Producer
from kitemq.replies import ReplyResult
from kitemq.requests import Reply
from kitemq.transaction_producer import Transaction, TransactionProducer
from kitemq.transactions import (
    AsyncTransaction,
    AsyncTransactionProducer,
    Check,
    Decision,
    TransactionState,
)

__all__ = [
    "AckResult",
    "AsyncConsumer",
    "AsyncProducer",
    "AsyncTransaction",
    "AsyncTransactionProducer",
    "BufferFull",
    "Busy",
    "Check",
    "Client",
    "Consumer",
    "Decision",
    "Durability",
    "Invalid",
    "KiteError",
    "Message",
    "NoReply",
    "NotFound",
    "Producer",
    "ProtocolViolation",
    "Received",
    "Refused",
    "Rejected",
    "Reply",
    "ReplyResult",
    "SendResult",
    "Stopped",
    "TimedOut",
    "Transaction",
    "TransactionProducer",
    "TransactionState",
    "Unreachable",
]
