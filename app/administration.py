"""The verbs by which endpoints, services and pages list, measure and change topics and groups.

They are declared as those of `app.messaging`, and beside them: the embedded engine answers at once,
so that verbs which follow each other see one state. An engine behind a network gives no such
promise; what must not fall apart is one verb.
"""

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from app.capabilities import lacking
from app.messaging import VerbSet, verb
from engine.broker import (
    Broker,
    DeadLetters,
    GroupLag,
    Journey,
    Member,
    Members,
    OffsetMove,
    OffsetResets,
    ReplayJobs,
    Reset,
    ResetPreview,
    ResetTarget,
    TopicStats,
    Traces,
)
from engine.errors import Busy, Conflict, Refused
from engine.message import StoredMessage
from kitemq.model.brokers import BrokerItem
from kitemq.model.members import MemberQueue
from kitemq.model.server import CheckOutcome

CheckResult = tuple[CheckOutcome, str]  # and a sentence about it
Check = Callable[[], Awaitable[CheckResult]]

# Why figures of one topic or group are unknown while others are there: a broker of it is away, or
# has no queue numbers.
FIGURES_UNKNOWN = (Busy, Refused)


# Why the queues of a member are not told.
TAKES_ALL = "it receives single messages of all queues"
LISTS_NONE = "it chooses its queues itself, and lists none"
QUEUES_MAX = 10_000  # of one member
LISTS_TOO_MANY = f"it lists more than {QUEUES_MAX:,} queues"


def queues_untold(reason: str) -> Refused:
    """The refusal of what a member does not tell."""
    return Refused(reason, field="client", remedy="ask who runs the client", code="not_offered")


class MemberLists(VerbSet[Members]):
    """Members of groups: who they are, what they subscribe to, which queues they read."""

    @property
    @abstractmethod
    def timeout_s(self) -> float:
        """How long a member stays one without a sign of life."""

    @abstractmethod
    async def queues(self, group: str, member: Member) -> list[MemberQueue]:
        """The queues that a member reads, retries left out; Refused where that is not told.

        Waits for the member, where it is asked, as long as the caller does.
        """

    of = verb(Members.of)
    everyone = verb(Members.everyone)
    memberships = verb(Members.memberships)
    count = verb(Members.count)
    subscription = verb(Members.subscription)
    warning = verb(Members.warning)


class DeadLetterLists(VerbSet[DeadLetters]):
    """Dead letters of groups: pages, counts, states and dismissals."""

    page = verb(DeadLetters.page)
    get = verb(DeadLetters.get)
    bounds = verb(DeadLetters.bounds)
    states = verb(DeadLetters.states)
    state_counts = verb(DeadLetters.state_counts)
    tally = verb(DeadLetters.tally)
    arrived = verb(DeadLetters.arrived)
    sweep = verb(DeadLetters.sweep)
    snapshot = verb(DeadLetters.snapshot)
    new_note = verb(DeadLetters.new_note)
    commit = verb(DeadLetters.commit)


class ReplayVerbs(VerbSet[ReplayJobs]):
    """Replay jobs: created, changed and listed."""

    create = verb(ReplayJobs.create)
    begin = verb(ReplayJobs.begin)
    retry = verb(ReplayJobs.retry)
    failed = verb(ReplayJobs.failed)
    pause = verb(ReplayJobs.pause)
    resume = verb(ReplayJobs.resume)
    stop = verb(ReplayJobs.stop)
    change_rate = verb(ReplayJobs.change_rate)
    get = verb(ReplayJobs.get)
    list = verb(ReplayJobs.list)
    outcomes = verb(ReplayJobs.outcomes)


class ResetOrder(msgspec.Struct, frozen=True):
    """The queues and target of a reset; without `queues`, all that can be read.

    With `goals` each topic's queue goes to an offset of its own, or stays if that is None.
    """

    topics: Sequence[str]
    target: ResetTarget
    queues: Sequence[int] = ()
    goals: Sequence[tuple[str, int, int | None]] = ()


class ResetIncomplete(Conflict):
    """A cluster moved `moved`, and some of its brokers did not confirm the other queues."""

    code = "reset_incomplete"

    def __init__(self, detail: str, moved: Sequence[OffsetMove]) -> None:
        super().__init__(detail, field="queues", remedy="preview the reset, and apply it again")
        self.moved = moved


class ResetVerbs(VerbSet[OffsetResets]):
    """Resets of groups. An order is what to reset, or the number of a reset that is undone."""

    get = verb(OffsetResets.get)
    history = verb(OffsetResets.history)

    @abstractmethod
    async def preview(self, group: str, order: ResetOrder | int) -> ResetPreview:
        """Preview a reset; changes nothing. Raises as `OffsetResets.plan` and its siblings do."""

    @abstractmethod
    async def apply(
        self, group: str, order: ResetOrder | int, *, precondition: str, force: bool
    ) -> Reset:
        """Move the group as `OffsetResets.apply` does; its number is 0 where it could not be noted.

        Raises ResetIncomplete where a broker went away meanwhile.
        """


class JourneyVerbs(VerbSet[Traces]):
    """What is known of single messages, and of the recording of that."""

    @abstractmethod
    async def journey(self, message_id: str, records: Sequence[StoredMessage]) -> Journey:
        """The journey of a message with these records, oldest first."""

    recent = verb(Traces.recent)
    status = verb(Traces.status)


class Administration(VerbSet[Broker]):
    """Lists, measures and changes topics and groups. Errors are those of `engine.errors`."""

    members: MemberLists
    dead_letters: DeadLetterLists
    replays: ReplayVerbs
    journeys: JourneyVerbs
    resets: ResetVerbs

    # -- topics ---------------------------------------------------------------------------------

    topics = verb(Broker.topics)
    topic = verb(Broker.topic)
    topic_stats = verb(Broker.topic_stats)
    groups_of = verb(Broker.groups_of)

    async def present_stats(self, name: str) -> TopicStats:
        """As `topic_stats`, of the brokers that are there; `unknown` names one that is away."""
        return await self.topic_stats(name)

    check_topic = verb(Broker.check_topic)
    create_topic = verb(Broker.create_topic)
    change_topic = verb(Broker.change_topic)
    delete_topic = verb(Broker.delete_topic)

    # -- groups ---------------------------------------------------------------------------------

    groups = verb(Broker.groups)
    group = verb(Broker.group)
    lag = verb(Broker.lag)

    async def present_lag(self, group: str) -> GroupLag:
        """As `lag`, of the brokers that are there; `unknown` names one that is away."""
        return await self.lag(group)

    create_group = verb(Broker.create_group)
    change_group = verb(Broker.change_group)
    pause_group = verb(Broker.pause_group)
    resume_group = verb(Broker.resume_group)
    delete_group = verb(Broker.delete_group)

    # -- all together ---------------------------------------------------------------------------

    health = verb(Broker.health)

    def checks(self) -> dict[str, Check]:
        """What can be checked of the engine beside `health`, by codes that never change."""
        return {}

    async def brokers(self) -> list[BrokerItem]:
        """The brokers of a cluster by name; Refused (`not_supported`) where there is none."""
        raise lacking("brokers")
