"""Journeys of a cluster's messages: its records, offsets of groups, and what clients trace.

Brokers record no deliveries. A group whose offset is past a record has had it, or passed it over;
of what POP has handed out the offset says the same. Records are found by the index of each topic:
that of the message, and the retries and dead letters of the groups that consume it.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from app.administration import JourneyVerbs
from app.capabilities import not_supported
from app.cluster.catalog import ClusterCatalog
from app.cluster.engine_errors import engine_errors
from app.cluster.verbs.dead_letter_lists import ClusterDeadLetterLists
from app.cluster.verbs.part import ClusterPart, all_of
from app.cluster.verbs.topic_lists import ClusterTopicLists
from engine.broker import (
    CLIENT_TRACE_TOPIC,
    DEAD_LETTER_PREFIX,
    RETRY_PREFIX,
    CheckedReason,
    ClientReport,
    Journey,
    JourneyContext,
    JourneyEvidence,
    ReasonCode,
    Recent,
    Stage,
    StageName,
    StageOutcome,
    Traces,
    TraceStatus,
    client_traces_of,
    journey_of,
    origin_of,
)
from engine.errors import Busy, EngineError, GroupNotFound, Refused, TopicNotFound
from engine.message import StoredMessage

GROUPS_MAX = 100
RECORDS_MAX = 64
Place = tuple[str, str, int, int]  # group, topic, queue, offset
PASSED = "the group's offset is past it; brokers record no deliveries"
NOT_TOLD = "brokers record no deliveries: the offset of a group says whether it is past a record"


class GroupPlace(NamedTuple):
    """How a record stands with a group: ahead of its offset, done, or unknown ("")."""

    place: str
    client: str = ""
    until_ms: int = 0


class ClusterJourneys(ClusterPart, JourneyVerbs):
    """`JourneyVerbs` of a cluster."""

    def __init__(
        self,
        catalog: ClusterCatalog,
        topics: ClusterTopicLists,
        letters: ClusterDeadLetterLists,
    ) -> None:
        super().__init__(catalog)
        self._topic_lists = topics
        self._letters = letters

    @property
    def _engine(self) -> Traces:
        raise not_supported("has no such verb", field="traces", remedy="use the cluster's tools")

    async def recent(self, count_max: int) -> list[Recent]:
        """Nothing: brokers do not tell what was delivered lately."""
        return []

    async def status(self) -> TraceStatus:
        """Refused: nothing is recorded here."""
        raise not_supported(
            "records no traces of its own", field="traces", remedy="have your clients trace"
        )

    async def journey(self, message_id: str, records: Sequence[StoredMessage]) -> Journey:
        """What the cluster knows of a message, whose records these are among others."""
        groups = await self._groups(records)
        records = await self._with_others(records, groups)
        if records:
            message_id = records[0].message_id or message_id
        evidence = JourneyEvidence(
            message_id=message_id,
            records=records,
            rows=[[] for _ in records],
            unplaced=[],
            correlated=[],
            client_reports=await self._client_reports(message_id),
        )
        readers = {each.topic: _readers(each.topic, groups) for each in records}
        places = await self._places(records, readers)
        unknown = sorted({group for (group, *_), place in places.items() if not place.place})
        around = JourneyContext(
            lambda topic: readers.get(topic, ()),
            lambda *place: places.get(place, GroupPlace("")),
            self._catalog.now_ms(),
        )
        journey = journey_of(evidence, around, _reasons(evidence, unknown))
        stages = [await self._as_told(each) for each in journey.stages]
        return msgspec.structs.replace(journey, stages=stages)

    # -- records --------------------------------------------------------------------------------

    async def _groups(self, records: Sequence[StoredMessage]) -> list[str]:
        """The groups that consume the message's topic, or gave it up."""
        groups = {
            each.topic.removeprefix(DEAD_LETTER_PREFIX)
            for each in records
            if each.topic.startswith(DEAD_LETTER_PREFIX)
        }
        for topic in {_home_of(each) for each in records}:
            try:
                groups.update(await self._topic_lists.groups_of(topic))
            except TopicNotFound:
                continue
        return sorted(groups)[:GROUPS_MAX]

    async def _with_others(
        self, records: Sequence[StoredMessage], groups: Sequence[str]
    ) -> list[StoredMessage]:
        """The records with those of its retries and dead letters, oldest first."""
        message_ids = {each.message_id for each in records if each.message_id}
        homes = {_home_of(each) for each in records} - {""}
        topics = homes | {topic for group in groups for topic in _topics_of(group, homes)}
        parts = await all_of(
            self._of_topic(topic, message_id)
            for topic in sorted(topics)
            for message_id in sorted(message_ids)
        )
        every = {(each.topic, each.queue, each.offset): each for each in records}
        every |= {(each.topic, each.queue, each.offset): each for part in parts for each in part}
        ordered = sorted(every.values(), key=lambda each: (each.stored_ms, each.attempt))
        return ordered[:RECORDS_MAX]

    async def _of_topic(self, topic: str, message_id: str) -> list[StoredMessage]:
        try:
            with engine_errors():
                messages = await self._client.reads.by_key(topic, message_id, is_id=True)
            return [self._stored(each) for each in messages]
        except (TopicNotFound, Refused):
            return []

    async def _client_reports(self, message_id: str) -> list[ClientReport]:
        """What clients traced of it, oldest first."""
        try:
            with engine_errors():
                messages = await self._client.reads.by_key(CLIENT_TRACE_TOPIC, message_id)
            stored = [self._stored(each) for each in messages]
        except (TopicNotFound, Refused):
            return []
        return [
            ClientReport(trace, each.stored_ms)
            for each in stored
            for trace in client_traces_of(each)[0]
            if trace.message_id == message_id
        ]

    # -- groups ---------------------------------------------------------------------------------

    async def _places(
        self, records: Sequence[StoredMessage], readers: dict[str, list[str]]
    ) -> dict[Place, GroupPlace]:
        questions = [
            (group, each.topic, each.queue, each.offset)
            for each in records
            for group in readers[each.topic]
        ]
        return dict(zip(questions, await all_of(map(self._place_in, questions)), strict=True))

    async def _place_in(self, place: Place) -> GroupPlace:
        group, topic, queue, offset = place
        try:
            with engine_errors():
                committed = await self._client.groups.committed(
                    group, self._numbers.place(topic, queue)
                )
        except (Busy, GroupNotFound, Refused):
            return GroupPlace("")
        return GroupPlace("done" if committed is not None and committed > offset else "ahead")

    async def _as_told(self, stage: Stage) -> Stage:
        """A stage in the words of a cluster, and with the number of a dead letter."""
        if stage.outcome is StageOutcome.PASSED:
            return msgspec.structs.replace(stage, detail=PASSED)
        if stage.name is not StageName.DEAD_LETTER or stage.offset is None:
            return stage
        try:
            number = await self._letters.number_of(
                stage.group, stage.queue, stage.offset, stage.at_ms
            )
        except EngineError:
            return stage
        return msgspec.structs.replace(stage, letter=number)


def _home_of(record: StoredMessage) -> str:
    """The topic that the message was sent to."""
    return origin_of(record) or record.topic


def _topics_of(group: str, homes: Iterable[str]) -> list[str]:
    """Where a group has retries and dead letters of messages of these topics."""
    own = [f"{RETRY_PREFIX}{group}", f"{DEAD_LETTER_PREFIX}{group}"]
    return own + [f"{RETRY_PREFIX}{group}{mark}{home}" for home in homes for mark in "_+"]


def _readers(topic: str, groups: Sequence[str]) -> list[str]:
    """The groups that read a topic: of retries their own, of dead letters none."""
    if topic.startswith(DEAD_LETTER_PREFIX):
        return []
    if not topic.startswith(RETRY_PREFIX):
        return list(groups)
    own = topic.removeprefix(RETRY_PREFIX)
    named = [each for each in groups if own == each or own.startswith((f"{each}_", f"{each}+"))]
    return sorted(named, key=len)[-1:]


def _reasons(evidence: JourneyEvidence, unknown: Sequence[str]) -> list[CheckedReason]:
    """Why deliveries, or everything, may be missing."""
    told = len(evidence.client_reports)
    reasons = [
        CheckedReason(ReasonCode.NOT_TOLD, True, NOT_TOLD),
        CheckedReason(ReasonCode.TRACING_OFF, not told, f"clients traced {told} steps of it"),
    ]
    if unknown:
        names = ", ".join(unknown)
        detail = f"the offsets of {names} cannot be read now: a broker does not answer"
        reasons.append(CheckedReason(ReasonCode.UNREACHABLE, True, detail))
    if not evidence.records:
        detail = "it is looked for among the messages of all topics; a key by topic and key"
        reasons += [
            CheckedReason(ReasonCode.KIND_OF_ID, False, detail),
            CheckedReason(
                ReasonCode.RETENTION, False, "the brokers do not tell what they have deleted"
            ),
        ]
    return reasons
