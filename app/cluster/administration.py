"""The verbs of `app.administration`, answered by a RocketMQ cluster."""

from contextlib import suppress

from app.administration import Administration
from app.capabilities import not_supported
from app.cluster.catalog import ClusterCatalog
from app.cluster.census import ClusterCensus
from app.cluster.engine_errors import engine_errors
from app.cluster.replays.copies import JobCopies
from app.cluster.replays.examiner import ClusterExaminer
from app.cluster.replays.letter_marks import LetterMarks
from app.cluster.replays.runner import ClusterReplayRunner
from app.cluster.replays.shared_jobs import SharedJobs
from app.cluster.reset_log import ResetLog
from app.cluster.traffic import ClusterTraffic
from app.cluster.verbs.broker_lists import broker_warnings
from app.cluster.verbs.checks import ClusterChecks
from app.cluster.verbs.dead_letter_lists import ClusterDeadLetterLists
from app.cluster.verbs.group_lists import ClusterGroupLists
from app.cluster.verbs.journeys import ClusterJourneys
from app.cluster.verbs.member_lists import ClusterMemberLists
from app.cluster.verbs.records import ClusterRecords
from app.cluster.verbs.replay_jobs import ClusterReplayVerbs
from app.cluster.verbs.resets import ClusterResets
from app.cluster.verbs.topic_lists import ClusterTopicLists
from app.db.worker import DatabaseWorker
from engine.broker import Broker, Health
from engine.clock import Clock
from engine.errors import Busy, EngineError
from engine.message import Durability

LOOK_S = 0.5  # that the health waits for a new look at the brokers


class ClusterAdministration(ClusterTopicLists, ClusterGroupLists, ClusterChecks, Administration):
    """`Administration` of the cluster whose catalog a started `ClusterMessaging` has."""

    def __init__(self, catalog: ClusterCatalog, database: DatabaseWorker, clock: Clock) -> None:
        """`database` keeps replay jobs, and what was done about dead letters."""
        census = ClusterCensus(catalog)
        marks, jobs, copies = LetterMarks(database), SharedJobs(database), JobCopies(catalog)
        ClusterTopicLists.__init__(self, catalog, census)
        ClusterGroupLists.__init__(self, catalog, census, self)
        ClusterChecks.__init__(self, catalog)
        self.traffic, self.reset_log = ClusterTraffic(clock), ResetLog(database)
        self.members = ClusterMemberLists(catalog, census)
        self.dead_letters = letters = ClusterDeadLetterLists(catalog, self, marks, jobs)
        examiner = ClusterExaminer(catalog, letters, jobs, copies)
        self.replays = ClusterReplayVerbs(catalog, letters, marks, jobs, examiner, clock)
        self.records = ClusterRecords(catalog, self)
        self.journeys = ClusterJourneys(catalog, self.records, letters)
        self.resets = ClusterResets(catalog, self, self, self.traffic, self.reset_log)
        self.runner = ClusterReplayRunner(jobs, marks, examiner, copies, clock)

    @property
    def _engine(self) -> Broker:
        raise not_supported("has no such verb", field="engine", remedy="use the cluster's tools")

    async def delete_group(self, name: str) -> None:
        """Delete a group with its offsets, its retries and the history of its resets."""
        await super().delete_group(name)
        with suppress(Busy):  # it is gone, and a group of its name has other offsets
            await self.reset_log.forget(name)

    async def health(self) -> Health:
        """Whether its brokers answer; their logs and disks are not told."""
        brokers = self._catalog.numbers.brokers
        try:
            with engine_errors():
                masters = await self._client.masters()
            durability = await self._catalog.durability(masters)
        except EngineError as error:
            masters, durability, failures = [], Durability.STORED, {"cluster": error.detail}
        else:
            failures = {}
        away = {f"broker {each}": "it does not answer" for each in brokers if each not in masters}
        items = await self._brokers_within(LOOK_S)
        return Health(
            is_ready=not failures,
            failures=failures,
            durability=durability,
            log_bytes=None,
            unflushed_bytes=None,
            disk_free_bytes=None,
            disk_free_min_bytes=None,
            damages=[],
            warnings=broker_warnings(items) | away,
        )
