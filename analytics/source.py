"""Spark's data source `kitemq`: `spark.read.format("kitemq").option("topic", "flights").load()`.

`analytics.register(spark)` makes the name known to a session. Batches and streams read a topic's
records, batches and streams of rows are sent as messages; docs/spark.md shows all of it.

| option | for | default |
|---|---|---|
| topic | which topic; for writing it may be a column instead | |
| server, token | where the server is, and the token | http://127.0.0.1:8080, KITEMQ_TOKEN |
| path | the server's data directory, where it can be read here; `rest` reads by REST | found |
| rocketmq | for reading: name servers of a cluster, whose brokers are read instead of a server | |
| accessKey, secretKey | where the cluster asks for them | ROCKETMQ_ACCESS_KEY, …_SECRET_KEY |
| columns | those to read, separated by commas; `properties` and `body` cost most | all |
| queues | only these, separated by commas | all |
| tag, key | only messages with this tag, that carry this key | |
| from, to | only messages stored then or later, and before that: ISO time (UTC), or ms | |
| startingOffsets | of a new stream: earliest, latest, or {"queue": offset} as JSON | earliest |
| maxOffsetsPerTrigger | of a stream: most messages of one micro-batch | no limit |
| failOnDataLoss | whether records that are gone end the query, or are left out | true |
| pushFilters | whether conditions of a batch query narrow the reading too (see below) | false |

The driver asks the server how far each queue goes when a loaded frame is first used; it stays what
it was then. A task reads its part from the store's files where they are on its machine, else over
REST. Of a cluster each task reads one queue from that queue's own broker.

Spark remembers pushed filters with the loaded frame: a second query of the same frame without them
would read too little. So they are taken only where `pushFilters` is true, which is for a frame that
is loaded, filtered and used once. The options above narrow the reading just as well.
"""

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    Filter,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from analytics.brokers import BrokerClient, BrokerQueue, ClusterAccess
from analytics.errors import DataLost, Refused
from analytics.options import BY_REST, Options, parse
from analytics.row_bounds import CLOCK_SLACK_MS, narrowed
from analytics.server import QueueBounds, ServerClient

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from analytics.sink import BatchSink, StreamSink

log = logging.getLogger("kitemq.spark")

PARTITION_OFFSETS = 250_000  # of one task


@dataclass
class OffsetSplit(InputPartition):
    """The offsets `start` to `end` - 1 of a queue; `folder` is where the store may lie.

    Of a cluster's queue `place` says which broker has it.
    """

    queue: int
    start: int
    end: int
    folder: str = ""
    place: BrokerQueue | None = None


class KiteSource(DataSource):
    """What Spark makes of the format's name and the options."""

    @classmethod
    def name(cls) -> str:
        return "kitemq"

    def schema(self) -> str:
        from analytics.source_rows import ddl

        return ddl(parse(self.options).columns)

    def reader(self, schema: "StructType") -> "BatchReader":
        options = _for_reading(self.options, schema)
        return PushingReader(options) if options.pushes else BatchReader(options)

    def streamReader(self, schema: "StructType") -> "StreamReader":
        return StreamReader(_for_reading(self.options, schema))

    def writer(self, schema: "StructType", overwrite: bool) -> "BatchSink":
        from analytics.sink import BatchSink

        return BatchSink(parse(self.options), schema, overwrite)

    def streamWriter(self, schema: "StructType", overwrite: bool) -> "StreamSink":
        from analytics.sink import StreamSink

        return StreamSink(parse(self.options), schema, overwrite)


def _for_reading(options: MutableMapping[str, str], schema: "StructType") -> Options:
    read_options = parse(options)
    if not read_options.topic:
        raise Refused("no topic is named", 'add .option("topic", …)', field="topic")
    if tuple(schema.names) != read_options.columns:
        raise Refused(
            "a schema of one's own is not filled",
            "leave .schema(…) out, and choose with the option `columns`",
            field="columns",
        )
    return read_options


# -- reading ---------------------------------------------------------------------------------------


class _Reading:
    """What batches and streams share."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.bounds = options.bounds  # what may be read; the options' own is all that goes on

    def plan(self) -> "tuple[dict[int, QueueBounds], Split]":
        """How far each queue goes, and what makes parts of it that a task each reads."""
        cluster, topic = self.options.cluster, self.options.topic
        if cluster is not None:
            with BrokerClient(cluster) as brokers:
                return brokers.ends(topic, self.bounds.has_queue), partial(_whole, brokers.places)
        with self.options.connect() as server:
            return server.ends(topic), partial(_pieces, self._folder(server))

    def _folder(self, server: ServerClient) -> str:
        """Where tasks look for the store's files; empty reads over REST."""
        if self.options.path == BY_REST:
            return ""
        if self.options.path:
            return self.options.path
        store = server.store()
        return "" if store is None else str(store)

    def rows(self, part: InputPartition) -> "Iterator[pa.RecordBatch]":
        """The records of a part; raises DataLost as the option says."""
        if not isinstance(part, OffsetSplit):  # Spark's stand-in where there is nothing to read
            return
        from analytics.source_rows import batch_of, matching

        names = list(dict.fromkeys((*self.options.columns, *self.options.bounds.columns)))
        for columns in self._columns(part, names):
            batch = matching(batch_of(names, columns), self.options.bounds)
            if batch.num_rows:
                yield batch.select(list(self.options.columns))

    def _columns(self, part: OffsetSplit, names: Sequence[str]) -> "Iterator[dict[str, pa.Array]]":
        if self.options.cluster is not None and part.place is not None:
            return self._from_broker(self.options.cluster, part.place, part, names)
        folder = Path(part.folder) if part.folder else None
        if folder is not None and (self.options.path or (folder / "commitlog").is_dir()):
            return self._from_files(folder, part, names)
        return self._from_server(part, names)

    def _from_files(
        self, folder: Path, part: OffsetSplit, names: Sequence[str]
    ) -> "Iterator[dict[str, pa.Array]]":
        from analytics.queues import QueueView
        from analytics.source_rows import from_records
        from engine.store.hashing import tag_hash
        from engine.topic.names import is_system_topic

        view = QueueView(folder, self.options.topic, part.queue)
        start, end, bounds = part.start, part.end, self.bounds
        if bounds.from_ms is not None:
            start = view.first_since(bounds.from_ms - CLOCK_SLACK_MS, start, end)
        if bounds.to_ms is not None:
            end = view.first_since(bounds.to_ms + CLOCK_SLACK_MS, start, end)
        # In the engine's own topics an entry holds a time instead of the tag's hash.
        has_tags = bounds.tag is not None and not is_system_topic(self.options.topic)
        code = tag_hash(bounds.tag) if has_tags and bounds.tag is not None else None
        for records in view.batches(start, end, code):
            yield from_records(records, names)
        self._tell_loss(view.missing, part)

    def _from_server(
        self, part: OffsetSplit, names: Sequence[str]
    ) -> "Iterator[dict[str, pa.Array]]":
        from analytics.source_rows import from_answer

        with self.options.connect() as server:
            at = part.start
            while at < part.end:
                pulled = server.pull(self.options.topic, part.queue, at)
                if pulled.is_too_old:
                    self._tell_loss(min(pulled.following, part.end) - at, part)
                messages = [each for each in pulled.messages if int(each["offset"]) < part.end]
                if messages:
                    yield from_answer(messages, names)
                if pulled.following <= at:
                    return
                at = pulled.following

    def _from_broker(
        self, cluster: ClusterAccess, place: BrokerQueue, part: OffsetSplit, names: Sequence[str]
    ) -> "Iterator[dict[str, pa.Array]]":
        import pyarrow as pa

        from analytics.source_rows import from_records
        from engine.topic.names import is_system_topic

        topic, start, end, bounds = self.options.topic, part.start, part.end, self.bounds
        with BrokerClient(cluster) as brokers:
            if bounds.from_ms is not None:
                start = max(
                    start, brokers.first_since(topic, place, bounds.from_ms - CLOCK_SLACK_MS)
                )
            if bounds.to_ms is not None:
                # Older brokers name the last message where none is as late.
                past = brokers.first_since(topic, place, bounds.to_ms + CLOCK_SLACK_MS) + 1
                end = min(end, past)
            # In topics of the brokers' own an entry holds a time instead of the tag's hash.
            tag = None if is_system_topic(topic) else bounds.tag
            for records, missing in brokers.records(topic, place, start, end, tag):
                self._tell_loss(missing, part)
                if len(records):
                    columns = from_records(records, names)
                    if "queue" in columns:  # by the number that KiteMQ gives it
                        columns["queue"] = pa.repeat(part.queue, len(records))
                    yield columns

    def _tell_loss(self, count: int, part: OffsetSplit) -> None:
        if not count:
            return
        text = (
            f"{count} messages of queue {part.queue} of {self.options.topic!r}, from offset "
            f"{part.start} on, are gone"
        )
        if self.options.fails_on_loss:
            raise DataLost(text, 'retention was faster; .option("failOnDataLoss", "false") goes on')
        log.warning("%s", text)


class BatchReader(_Reading, DataSourceReader):
    """A batch: everything that is readable when it begins."""

    def partitions(self) -> Sequence[InputPartition]:
        bounds = self.bounds
        parts: list[InputPartition] = []
        ends, split = self.plan()
        for queue, (least, end) in sorted(ends.items()):
            if bounds.has_queue(queue):
                start, stop = max(least, bounds.least_offset), min(end, bounds.past_offset)
                parts += split(queue, start, stop)
        return parts

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        return self.rows(partition)


class PushingReader(BatchReader):
    """The same, narrowed by the conditions of the one query that it is for."""

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:
        """Take what narrows the reading; all go back, so Spark looks at each row itself."""
        for each in filters:
            self.bounds = narrowed(self.bounds, each)
            yield each


class StreamReader(_Reading, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream: its offsets are those of the queues, kept in Spark's checkpoint."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._target: dict[str, int] | None = None

    def initialOffset(self) -> dict[str, int]:
        ends = self.options.ends()
        starting = self.options.starting
        if starting == "earliest":
            return {str(queue): each.least for queue, each in ends.items()}
        if starting == "latest":
            return {str(queue): each.end for queue, each in ends.items()}
        offsets = _parse_offsets(starting)
        return {str(queue): offsets.get(queue, each.least) for queue, each in ends.items()}

    def getDefaultReadLimit(self) -> ReadLimit:
        limit = self.options.per_trigger
        return ReadMaxRows(limit) if limit else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = {str(queue): each.end for queue, each in self.options.ends().items()}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        ends = self._target or {str(queue): each.end for queue, each in self.options.ends().items()}
        # A queue that was added since begins at its beginning.
        begin = {queue: start.get(queue, 0) for queue in {*start, *ends}}
        latest = {queue: max(begin[queue], ends.get(queue, 0)) for queue in begin}
        if isinstance(limit, ReadMaxRows):
            latest = shared_out(begin, latest, limit.max_rows)
        return dict(sorted(latest.items()))

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        parts: list[InputPartition] = []
        ends, split = self.plan()
        for queue, past in end.items():
            if not self.bounds.has_queue(int(queue)):
                continue
            begin = start.get(queue, 0)
            known = ends.get(int(queue), QueueBounds(0, 0))
            self._check_available(int(queue), begin, past, known)
            stop = min(past, known.end)
            parts += split(int(queue), max(begin, min(known.least, stop)), stop)
        return parts

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        return self.rows(partition)

    def _check_available(self, queue: int, start: int, stop: int, known: QueueBounds) -> None:
        """What a checkpoint names must still be there; a deleted topic begins anew, shorter."""
        missing = max(0, min(known.least, stop) - start) + max(0, stop - max(known.end, start))
        self._tell_loss(missing, OffsetSplit(queue, start, stop))


Split = Callable[[int, int, int], Iterable[OffsetSplit]]


def _pieces(folder: str, queue: int, start: int, end: int) -> Iterator[OffsetSplit]:
    for at in range(start, end, PARTITION_OFFSETS):
        yield OffsetSplit(queue, at, min(at + PARTITION_OFFSETS, end), folder)


def _whole(
    places: Mapping[int, BrokerQueue], queue: int, start: int, end: int
) -> Iterator[OffsetSplit]:
    if start < end:
        yield OffsetSplit(queue, start, end, place=places[queue])


def _parse_offsets(text: str) -> dict[int, int]:
    try:
        offsets = {int(queue): int(offset) for queue, offset in json.loads(text).items()}
    except (ValueError, AttributeError, TypeError):
        raise Refused(
            f"{text!r} names no offsets",
            'give earliest, latest, or JSON as {"0": 120, "1": 98}',
            field="startingOffsets",
        ) from None
    return offsets


def shared_out(start: dict[str, int], end: dict[str, int], limit: int) -> dict[str, int]:
    """Ends that are at most `limit` messages past `start`, each queue with its share of them.

    At least one message, and never more than there are, so that a stream always gets on.
    """
    waiting = {queue: end[queue] - start[queue] for queue in end}
    total = sum(waiting.values())
    if total <= limit:
        return end
    shares = {queue: count * limit // total for queue, count in waiting.items()}
    left = max(1, limit) - sum(shares.values())
    for queue in sorted(waiting, key=lambda name: -waiting[name])[:left]:
        shares[queue] += 1
    return {queue: start[queue] + min(shares[queue], waiting[queue]) for queue in end}
