"""Builds the parts of replay and connects them; `engine.broker` calls them."""

from collections.abc import Callable

from engine.context import EngineContext
from engine.message import StoredMessage
from engine.replay.dead_letters import DeadLetters
from engine.replay.dismissals import DismissalStore
from engine.replay.examine import Examiner
from engine.replay.job import StoredJob
from engine.replay.job_store import JobStore
from engine.replay.marks import ReplayMarks
from engine.replay.replays import ReplayJobs
from engine.replay.resent import ResentStore
from engine.replay.runner import ReplayRunner
from engine.replay.selection_planner import SelectionPlanner
from engine.replay.states import DeadLetterStates
from engine.service import Service
from engine.topic.names import GROUP_QUEUE


class ReplaySubsystem:
    """Build it before the journal is loaded, `start` it after recovery.

    Its parts are public: `replays`, `dead_letters`.
    """

    def __init__(
        self,
        context: EngineContext,
        *,
        has_group: Callable[[str], bool],
        settles: Callable[[str], bool],
        check_running: Callable[[], None],
    ) -> None:
        """`settles` tells whether a group dismisses the dead letters that are resent."""
        self._store = context.store
        self._catalog = context.catalog
        journal = context.store.journal
        self._resent = ResentStore(journal, context.catalog, self._bounds_of)
        self._job_store = JobStore(journal, self._resent)
        self._dismissals = DismissalStore(journal, context.catalog, self._bounds_of)
        states = DeadLetterStates(self._resent, self._dismissals, settles)
        marks = ReplayMarks(self._job_store, context.catalog)
        examiner = Examiner(context.store, context.catalog, marks, states, has_group)
        self._runner = ReplayRunner(context, self._job_store, examiner)
        choice = SelectionPlanner(context.store, context.catalog, has_group, self._dismissals)
        self.replays = ReplayJobs(
            choice, self._job_store, examiner, self._runner, context.clock, check_running
        )
        self.dead_letters = DeadLetters(
            context.store,
            context.catalog,
            marks,
            self._dismissals,
            states,
            context.clock,
            has_group=has_group,
            check_running=check_running,
        )

    def services(self) -> list[Service]:
        """The services to tick."""
        return [self._runner]

    def replayed(self, message: StoredMessage) -> None:
        """During recovery, for every record that has a source."""
        self._job_store.replayed(message)

    def start(self) -> None:
        """After recovery: what is sent and what is lost is noted."""
        self._job_store.settle(self._end_of)
        self._resent.settle()
        self._dismissals.settle()

    def _bounds_of(self, topic: str) -> tuple[int, int]:
        return self._store.bounds(topic, GROUP_QUEUE)

    def _end_of(self, job: StoredJob, queue: int) -> int | None:
        config = self._catalog.find(job.plan.source)
        if config is None or config.since_position > job.plan.since_position:
            return None
        return self._store.bounds(job.plan.source, queue)[1]
