"""Rows sent as messages: what `df.write.format("kitemq")` and `writeStream` do.

Columns: `body` (BINARY or STRING) is a must; `topic`, `tag`, `keys` (STRING, separated by spaces,
or ARRAY<STRING>), `properties` (MAP<STRING,STRING>), `message_group`, `queue`, `message_id`,
`delay_level`, `deliver_at` and `event_at` (TIMESTAMP) may be there. Every message arrives at least
once: a task that Spark repeats sends its rows again, under the same message ids where the rows
bring none of their own, so that a consumer can tell.
"""

from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pyspark.sql.datasource import (
    DataSourceStreamWriter,
    DataSourceWriter,
    WriterCommitMessage,
)

from analytics.errors import Refused
from analytics.options import Options
from analytics.server import ServerClient

if TYPE_CHECKING:
    from pyspark.sql import Row
    from pyspark.sql.types import StructType

COUNT_MAX = 500  # messages of one request
BYTES_MAX = 1024 * 1024  # and of their bodies
COLUMNS = frozenset(
    """body topic tag keys properties message_group queue message_id delay_level deliver_at
    event_at""".split()
)
PLAIN = ("tag", "message_group", "properties", "queue", "delay_level")
QUERY_ID, BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"


@dataclass
class SentCount(WriterCommitMessage):
    """How many messages a task sent."""

    count: int


class _Sink:
    """What batches and streams share; built in the driver, sent to the tasks."""

    def __init__(self, options: Options, schema: "StructType", overwrite: bool) -> None:
        if overwrite:
            raise Refused("messages cannot be overwritten", 'use .mode("append")', field="mode")
        names = set(schema.names)
        if "body" not in names:
            raise Refused("the rows have no column `body`", field="body")
        if names - COLUMNS:
            raise Refused(
                f"a message has no {', '.join(sorted(names - COLUMNS))}",
                f"select of {', '.join(sorted(COLUMNS))}",
                field="columns",
            )
        if not options.topic and "topic" not in names:
            raise Refused("no topic is named", 'add .option("topic", …) or a column', field="topic")
        self._options = options
        self._run = uuid4().hex

    def send(self, rows: "Iterator[Row]") -> SentCount:
        """Send a task's rows, in their order within a topic."""
        from pyspark import TaskContext

        context = TaskContext.get()
        task = context.partitionId() if context is not None else 0
        run = f"{_stream_of(context) or self._run}/{task}"
        waiting: dict[str, list[dict[str, Any]]] = {}
        count = size_bytes = 0
        with self._options.connect() as server:
            for row in rows:
                values = row.asDict()
                topic = values.pop("topic", None) or self._options.topic
                message = _message(values, f"{run}/{count}")
                waiting.setdefault(topic, []).append(message)
                count += 1
                size_bytes += len(message["body"])
                if count % COUNT_MAX == 0 or size_bytes >= BYTES_MAX:
                    _flush(server, waiting)
                    size_bytes = 0
            _flush(server, waiting)
        return SentCount(count)


class BatchSink(_Sink, DataSourceWriter):
    """`df.write.format("kitemq")`."""

    def write(self, iterator: "Iterator[Row]") -> SentCount:
        return self.send(iterator)


class StreamSink(_Sink, DataSourceStreamWriter):
    """`df.writeStream.format("kitemq")`."""

    def write(self, iterator: "Iterator[Row]") -> SentCount:
        return self.send(iterator)


def _stream_of(context: Any) -> str:
    """Names a stream's micro-batch, which Spark may repeat after a restart; "" in a batch."""
    if context is None:
        return ""
    query, batch = context.getLocalProperty(QUERY_ID), context.getLocalProperty(BATCH_ID)
    return f"{query}/{batch}" if query and batch else ""


def _flush(server: ServerClient, waiting: dict[str, list[dict[str, Any]]]) -> None:
    for topic, messages in waiting.items():
        server.produce(topic, messages)
    waiting.clear()


def _message(values: dict[str, Any], name: str) -> dict[str, Any]:
    """A row as the API takes it; `name` makes an id where it has none."""
    body = values["body"]
    if body is None:
        raise Refused("a row has no body", "leave such rows out", field="body")
    data = body.encode() if isinstance(body, str) else bytes(body)
    keys = values.get("keys") or []
    message: dict[str, Any] = {
        "body": b64encode(data).decode(),
        "encoding": "base64",
        "keys": keys.split() if isinstance(keys, str) else list(keys),
        "id": values.get("message_id") or sha256(name.encode()).hexdigest()[:32].upper(),
    }
    message |= {field: values[field] for field in PLAIN if values.get(field) is not None}
    for column, field in (("deliver_at", "deliver_at_ms"), ("event_at", "event_ms")):
        at = values.get(column)
        if isinstance(at, datetime):
            message[field] = int(at.timestamp() * 1000)
    return message
