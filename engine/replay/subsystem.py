"""Builds the parts of replay and connects them; `engine.broker` calls them."""

from collections.abc import Callable

from engine.clock import Clock
from engine.events import EventBus
from engine.intake import Intake
from engine.message import StoredMessage
from engine.replay.dead_letters import DeadLetters
from engine.replay.dismissals import DismissalStore
from engine.replay.examine import Examiner
from engine.replay.job import StoredJob
from engine.replay.job_store import JobStore
from engine.replay.marks import ReplayMarks
from engine.replay.replays import ReplayJobs
from engine.replay.runner import ReplayRunner
from engine.replay.selection_planner import SelectionPlanner
from engine.service import Service
from engine.store.store import Store
from engine.topic.catalog import Catalog
from engine.topic.names import GROUP_QUEUE


class ReplaySubsystem:
    """Build it before the journal is loaded, `start` it after recovery.

    Its parts are public: `replays`, `dead_letters`.
    """

    def __init__(
        self,
        store: Store,
        intake: Intake,
        catalog: Catalog,
        clock: Clock,
        events: EventBus,
        *,
        has_group: Callable[[str], bool],
        check_running: Callable[[], None],
    ) -> None:
        self._store = store
        self._catalog = catalog
        self._book = JobStore(store.journal)
        marks = ReplayMarks(self._book, catalog)
        examiner = Examiner(store, catalog, marks, has_group)
        self._runner = ReplayRunner(self._book, examiner, store, intake, clock, events)
        self._dismissals = DismissalStore(
            store.journal, catalog, lambda topic: store.bounds(topic, GROUP_QUEUE)
        )
        choice = SelectionPlanner(store, catalog, has_group, self._dismissals)
        self.replays = ReplayJobs(choice, self._book, examiner, self._runner, clock, check_running)
        self.dead_letters = DeadLetters(
            store,
            catalog,
            marks,
            self._dismissals,
            clock,
            has_group=has_group,
            check_running=check_running,
        )

    def services(self) -> list[Service]:
        """What has to be ticked."""
        return [self._runner]

    def replayed(self, message: StoredMessage) -> None:
        """During recovery, for every record that has a source."""
        self._book.replayed(message)

    def start(self) -> None:
        """After recovery: what is sent and what is lost is noted."""
        self._book.settle(self._end_of)
        self._dismissals.settle()

    def _end_of(self, job: StoredJob, queue: int) -> int | None:
        config = self._catalog.find(job.plan.source)
        if config is None or config.since_position > job.plan.since_position:
            return None
        return self._store.bounds(job.plan.source, queue)[1]
