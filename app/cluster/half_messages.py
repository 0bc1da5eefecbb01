"""Transactions of a cluster: deciding half messages, and the brokers' questions about them.

A broker asks over the connection on which a producer of the group gave a sign of life. So the
client sends heartbeats to all masters, with the groups that it has begun transactions of.
"""

import os
import re
import socket
from collections.abc import Callable, Sequence
from uuid import uuid4

import msgspec

from app.cluster.errors import ClusterError
from app.cluster.link import ClusterLink
from app.cluster.messages import ClusterMessage, messages_of
from app.cluster.routes import MASTER, decoded
from protocol.remoting.codes import RequestCode, ResponseCode
from protocol.remoting.frames import Command
from protocol.remoting.loose_json import standard_json

HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"  # offsets of the half messages that were decided
GIVEN_UP_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
CHECK_GROUP = "CID_RMQ_SYS_TRANS"  # whose offsets say how far a broker's checks are
HOST_LENGTH_MAX = 24


class _BeatProducer(msgspec.Struct, rename={"name": "groupName"}):
    name: str


class _HeartBeat(
    msgspec.Struct,
    rename={"client": "clientID", "producers": "producerDataSet", "consumers": "consumerDataSet"},
):
    """The body of a HEART_BEAT."""

    client: str
    producers: list[_BeatProducer]
    consumers: list[str] = []


class _ConnectedProducer(msgspec.Struct, rename="camel"):
    client_id: str = ""


class _ProducerTable(msgspec.Struct):
    data: dict[str, list[_ConnectedProducer]] = {}


class HalfMessage(msgspec.Struct, frozen=True):
    """Where a half message lies: what a decision about it names."""

    broker: str
    producer_group: str
    transaction_id: str
    offset: int
    position: int


class TransactionQuestion(msgspec.Struct, frozen=True):
    """A broker's question what became of a transaction; `message` is the half message."""

    half: HalfMessage
    message: ClusterMessage


class ClusterHalfMessages:
    """The verbs for transactions."""

    def __init__(self, link: ClusterLink) -> None:
        self._link = link
        host = re.sub("[^A-Za-z0-9-]", "-", socket.gethostname())[:HOST_LENGTH_MAX]
        self.name = f"{host}-{os.getpid()}-{uuid4().hex[:8]}"  # may begin a correlation id
        self._ask: Callable[[TransactionQuestion], None] | None = None

    def listen(self, ask: Callable[[TransactionQuestion], None]) -> None:
        """Pass the brokers' questions to `ask`, which must return at once."""
        self._ask = ask
        self._link.pool.on_requests[RequestCode.CHECK_TRANSACTION_STATE] = self._on_request

    def close(self) -> None:
        """Take no questions any more."""
        self._link.pool.on_requests.pop(RequestCode.CHECK_TRANSACTION_STATE, None)

    def on_connect(self, beat: Callable[[], None]) -> None:
        """Call `beat` after each new connection, over which no sign of life went yet."""
        self._link.pool.on_connect = beat

    async def heartbeat(self, groups: Sequence[str]) -> None:
        """Tell all masters that producers of these groups are here; the first error, at the end."""
        beat = _HeartBeat(self.name, [_BeatProducer(each) for each in groups])
        body = msgspec.json.encode(beat)
        failure: ClusterError | None = None
        for broker in await self._link.masters():
            try:
                await self._link.ask(broker, RequestCode.HEART_BEAT, {}, body=body)
            except ClusterError as error:
                failure = error
        if failure is not None:
            raise failure

    async def end(self, half: HalfMessage, flag: int, *, is_checked: bool) -> None:
        """Commit or roll back a half message, as `SysFlag` says it; after a question if checked."""
        fields = {
            "producerGroup": half.producer_group,
            "tranStateTableOffset": half.offset,
            "commitLogOffset": half.position,
            "commitOrRollback": flag,
            "fromTransactionCheck": is_checked,
            "msgId": half.transaction_id,
            "transactionId": half.transaction_id,
        }
        await self._link.ask(half.broker, RequestCode.END_TRANSACTION, fields)

    async def resume(self, broker: str, offset_id: str) -> None:
        """Have a half message that was given up checked again, by the offset id of its record."""
        fields = {"topic": GIVEN_UP_TOPIC, "msgId": offset_id}
        await self._link.ask(broker, RequestCode.RESUME_CHECK_HALF_MESSAGE, fields)

    async def producers(self) -> dict[str, int]:
        """How many producers of each group are connected to one broker or another, but for us."""
        answers = await self._link.ask_present(
            RequestCode.GET_ALL_PRODUCER_INFO,
            {},
            allowed=(ResponseCode.REQUEST_CODE_NOT_SUPPORTED,),  # of older ones
        )
        names: dict[str, set[str]] = {}
        for answer in answers.values():
            if answer.code != ResponseCode.SUCCESS:
                continue
            for group, clients in decoded(standard_json(answer.body), _ProducerTable).data.items():
                names.setdefault(group, set()).update(each.client_id for each in clients)
        counts = {group: len(clients - {self.name}) for group, clients in names.items()}
        return {group: count for group, count in counts.items() if count}

    def _on_request(self, address: str, command: Command) -> int:
        assert self._ask is not None
        broker = self._link.routes.broker_at(address, MASTER)
        try:
            (message,) = messages_of(command.body, broker)
            half = HalfMessage(
                broker,
                message.properties.get("PGROUP", ""),
                command.fields.get("transactionId", "") or message.message_id,
                int(command.fields["tranStateTableOffset"]),
                int(command.fields["commitLogOffset"]),
            )
        except (ClusterError, KeyError, ValueError):
            return ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        self._ask(TransactionQuestion(half, message))
        return ResponseCode.SUCCESS
