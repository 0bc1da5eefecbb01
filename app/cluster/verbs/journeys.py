"""Journeys of a cluster's messages: its records, offsets of groups, and what clients trace.

Brokers record no deliveries. A group whose offset is past a record has had it, or passed it over;
of what POP has handed out the offset says the same.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from app.administration import JourneyVerbs
from app.capabilities import not_supported
from app.cluster.catalog import ClusterCatalog
from app.cluster.engine_errors import engine_errors
from app.cluster.verbs.dead_letter_lists import ClusterDeadLetterLists
from app.cluster.verbs.part import ClusterPart, all_of
from app.cluster.verbs.records import ClusterRecords
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
)
from engine.errors import Busy, EngineError, GroupNotFound, Refused, TopicNotFound
from engine.message import StoredMessage

Place = tuple[str, str, int, int]  # group, topic, queue, offset
PASSED = "the group's offset is past it; brokers record no deliveries"
NOT_TOLD = "brokers record no deliveries: the offset of a group says whether it is past a record"

NOTHING = (
    "it was looked for among the ids in all topics, and brokers do not tell what they deleted; "
    "a key is looked for by topic and key"
)


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
        records: ClusterRecords,
        letters: ClusterDeadLetterLists,
    ) -> None:
        super().__init__(catalog)
        self._records = records
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
        """What the cluster knows of a message with these records."""
        groups = await self._records.groups(records)
        if records:
            message_id = records[0].message_id or message_id
        evidence = JourneyEvidence(
            message_id=message_id,
            records=list(records),
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

    # -- evidence -------------------------------------------------------------------------------

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
        reasons.append(CheckedReason(ReasonCode.KIND_OF_ID, False, NOTHING))
    return reasons
