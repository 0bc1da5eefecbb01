"""Traces of messages, read as journeys: `broker.traces`."""

from collections.abc import Callable, Sequence

import msgspec

from engine.context import EngineContext
from engine.errors import Invalid
from engine.message import StoredMessage
from engine.service import Service
from engine.topic.names import CLIENT_TRACE_TOPIC, TRACE_TOPIC
from engine.trace.assemble import JourneyAssembler, JourneyContext, branches
from engine.trace.deliveries import DeliveryStateOf
from engine.trace.finder import Finder, JourneyEvidence, Steps
from engine.trace.journey import CheckedReason, Journey, Recent
from engine.trace.origins import bound_for
from engine.trace.reasons import TRACE_QUEUE, Reasons
from engine.trace.recent import find_recent
from engine.trace.recorder import Recorder
from engine.trace.rows import RECIPES
from engine.trace.sampling import TraceSampler

ID_CHARS_MAX = 255
WRITES_MAX = 1_000_000
JOURNEY_WRITES_MAX = 4  # what waits beyond them is not in the journey yet
RECORDS_MAX = 64
RECENT_READS = 12  # trace records

Records = Callable[[str], list[StoredMessage]]


class TraceStatus(msgspec.Struct, frozen=True):
    """State of the recording; counts are of messages' events since the start.

    `sample` is the rate of topics that have none of their own. `recorded` were written,
    `sampled_out` left out by a rate, `dropped` found no room, `waiting` are to be written.
    `records`, `rows` and `bytes` are what was written to the log for them. `kept_records` of all
    time are there, the first stored at `oldest_ms`. `bad_contexts` of clients' traces could not be
    read when it was last read. `refusal` says why nothing can be written; empty when it can.
    """

    sample: float
    recorded: int
    sampled_out: int
    dropped: int
    waiting: int
    records: int
    rows: int
    bytes: int
    kept_records: int
    oldest_ms: int | None
    bad_contexts: int
    refusal: str


class Traces:
    """`start` it after recovery, tick its service, `settle` it before the store stops."""

    def __init__(
        self,
        context: EngineContext,
        *,
        sample: float,
        segment_bytes: int,
        records_of: Records,
        groups_of: Callable[[str], Sequence[str]],
        delivery_states: DeliveryStateOf,
    ) -> None:
        """Raises Invalid for a `sample` that is no share. The last three ask the other parts.

        `records_of` gives every record of a message, oldest first.
        """
        self._store = context.store
        self._catalog = context.catalog
        self._events = context.events
        self._groups_of = groups_of
        self._delivery_states = delivery_states
        self._sampler = TraceSampler(context.catalog, sample)
        self._recorder = Recorder(
            context.store, self._sampler, context.clock, segment_bytes=segment_bytes
        )
        self._finder = Finder(context.store)
        self._records_of = records_of
        self._clock = context.clock
        self._reasons = Reasons(context.store, self._sampler, self._recorder)

    def services(self) -> list[Service]:
        """The services to tick."""
        return [self._recorder]

    def start(self) -> None:
        """Have both topics, and listen from now on."""
        self._catalog.ensure_system(TRACE_TOPIC)
        self._catalog.ensure_system(CLIENT_TRACE_TOPIC)
        self._events.subscribe(self._recorder.hear, RECIPES)

    def settle(self, *, writes_max: int = WRITES_MAX) -> None:
        """Write what was heard up to now, some 5 ms for each write; never raises."""
        self._recorder.settle(writes_max)

    def journey(self, message_id: str) -> Journey:
        """The journey of the message with this id or offset id, up to this moment.

        Reads at most 64 records of the message and 100 trace records, so it takes some
        milliseconds where there are few topics. Nothing found is no error: then there are no
        stages, and `reasons_checked` says what was looked at. Raises Invalid for an id of more
        than 255 characters.
        """
        _check_id(message_id)
        steps = self.journey_steps(message_id, self._records_of(message_id))
        while True:
            try:
                next(steps)
            except StopIteration as end:
                journey: Journey = end.value
                return journey

    def journey_steps(self, message_id: str, records: list[StoredMessage]) -> Steps[Journey]:
        """The same, from its records (oldest first) on, in short steps: the journey is what it
        returns. Others may work in between.
        """
        _check_id(message_id)
        for _ in range(JOURNEY_WRITES_MAX):
            self.settle(writes_max=1)
            yield
        evidence = yield from self._finder.find(message_id, records)
        around = JourneyContext(self._groups_of, self._delivery_states, self._clock.now_ms())
        return journey_of(evidence, around, self._reasons.check(message_id, evidence))

    def recent(self, count_max: int) -> list[Recent]:
        """What was traced last, of each message the newest; failures and the others, as many of
        each. Reads twelve trace records at most.
        """
        first, end = self._store.bounds(TRACE_TOPIC, TRACE_QUEUE)
        begin = max(first, end - RECENT_READS)
        entries = self._store.entries(TRACE_TOPIC, TRACE_QUEUE, begin, end - begin)
        return find_recent(self._store, [entry.position for entry in entries], count_max)

    def status(self) -> TraceStatus:
        """The state of the recording."""
        recorded = self._recorder.recorded()
        first, end = self._store.bounds(TRACE_TOPIC, TRACE_QUEUE)
        oldest = self._store.entries(TRACE_TOPIC, TRACE_QUEUE, first, 1) if end > first else []
        return TraceStatus(
            sample=self._sampler.default,
            kept_records=end - first,
            oldest_ms=self._store.stored_ms_at(oldest[0]) if oldest else None,
            bad_contexts=self._finder.bad_contexts,
            **msgspec.structs.asdict(recorded),
        )


def journey_of(
    evidence: JourneyEvidence, around: JourneyContext, reasons: list[CheckedReason]
) -> Journey:
    """The journey that evidence tells of."""
    stages = JourneyAssembler(evidence, around).stages()
    return Journey(
        message_id=evidence.message_id,
        topic=_topic_of(evidence),
        stages=stages,
        groups=branches(stages),
        reasons_checked=reasons,
        complete=evidence.is_complete and len(evidence.records) < RECORDS_MAX,
    )


def _check_id(message_id: str) -> None:
    if not 0 < len(message_id) <= ID_CHARS_MAX:
        raise Invalid(
            f"an id has 1 to {ID_CHARS_MAX} characters, this one {len(message_id)}",
            field="id",
            remedy="give the message id that the send returned",
        )


def _topic_of(evidence: JourneyEvidence) -> str:
    """The topic that the producer named; empty where it is unknown."""
    if evidence.records:
        first = evidence.records[0]
        return bound_for(first) if bound_for(first) != first.topic else first.origin_topic
    topics = (each.trace.topic for each in evidence.client_reports if each.trace.topic)
    return next(topics, next((row.topic for row in evidence.unplaced), ""))
