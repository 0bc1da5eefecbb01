"""The model of the wire and the engine: one name for a field, and a new one shows everywhere."""

import dataclasses
import re
from pathlib import Path

import msgspec
import pytest

from app.api.catalog import OPERATIONS
from app.ui.dead_letters import dead_letter, exports
from engine.broker import (
    Assignment,
    Branch,
    BrokerMetrics,
    Callback,
    DeadLetter,
    DismissalSummary,
    DismissNote,
    Journey,
    LagHistoryPage,
    Member,
    NewReplay,
    QueueLock,
    QueueMove,
    ReplayJob,
    ResetPreview,
    RetryRequest,
    Scheduled,
    Stage,
    TraceStatus,
    Transaction,
    TransactionCheck,
)
from engine.retention.pins import ActivePin
from engine.retention.purge import Purge, QueuePurge
from engine.retention.retention import RetentionStatus
from engine.statistics.latency_histogram import LatencySpreads, Spread
from engine.statistics.values import (
    GroupMetrics,
    LagHistoryRetention,
    LagPoint,
    PutLatency,
    QueueMetrics,
    ReaderMetrics,
    TopicMetrics,
    TrafficRates,
)
from engine.statistics.windows import WindowRates
from kitemq.model import (
    dead_letters,
    journeys,
    members,
    replays,
    resets,
    retention,
    scheduled,
    statistics,
    transactions,
)

TEMPLATES = Path(dead_letter.__file__).parent / "templates"
EXPORT_NAMES = {"message": "body", "died_ms": "died_at", "dismissed": "dismiss_note"}
NOT_SHOWN = {"released", "corrupt", "message_size_ever"}  # metrics and pages have them


def test_a_field_of_a_dead_letter_shows_wherever_dead_letters_do() -> None:
    fields = set(dead_letters.DeadLetterInfo.__struct_fields__)
    assert fields == {*DeadLetter.__struct_fields__, "died_ms"}  # which is the message's
    assert {EXPORT_NAMES.get(name, name) for name in fields} <= set(exports.COLUMNS)
    assert "letter" in {field.name for field in dataclasses.fields(dead_letter.LetterPage)}
    on_page = set(re.findall(r"letter\.(\w+)", (TEMPLATES / "dlq_letter.html").read_text()))
    # It shows the message's fields, `died_ms` among them, and the jobs.
    assert fields - {"message", "redriven_by", "died_ms"} <= on_page


@pytest.mark.parametrize(
    ("wire", "engine"),
    [
        (dead_letters.Dismissal, DismissalSummary),
        (dead_letters.DismissalNote, DismissNote),
        (journeys.Branch, Branch),
        (journeys.Journey, Journey),
        (journeys.Stage, Stage),
        (journeys.TraceStatus, TraceStatus),
        (statistics.GroupStatistics, GroupMetrics),
        (statistics.LagHistoryPoint, LagPoint),
        (statistics.LagHistoryState, LagHistoryRetention),
        (statistics.MessageTraffic, TrafficRates),
        (statistics.Percentiles, Spread),
        (statistics.QueueStatistics, QueueMetrics),
        (statistics.Rates, WindowRates),
        (statistics.ReaderStatistics, ReaderMetrics),
        (statistics.SendLatency, PutLatency),
        (statistics.SendTimes, LatencySpreads),
        (statistics.TopicStatistics, TopicMetrics),
        (retention.Purged, Purge),
        (retention.PurgedQueue, QueuePurge),
        (retention.Retention, RetentionStatus),
        (retention.RetentionHolder, ActivePin),
        (members.LockHolder, QueueLock),
        (members.MemberInfo, Member),
        (members.QueueAssignment, Assignment),
        (replays.NewReplayRetry, RetryRequest),
        (replays.Replay, ReplayJob),
        (resets.QueuePreview, QueueMove),
    ],
)
def test_a_field_has_one_name_in_the_engine_and_on_the_wire(
    wire: type[msgspec.Struct], engine: type[msgspec.Struct]
) -> None:
    # The server knows who asks for a retry, and leads to a dead letter by its number.
    ours = {RetryRequest: {"created_by"}, Stage: {"letter"}}.get(engine, set())
    assert set(wire.__struct_fields__) == set(engine.__struct_fields__) - ours


def test_what_is_said_of_a_new_job_has_the_engines_names() -> None:
    fields = set(replays.NewReplayJob.__struct_fields__)
    assert fields - {"messages"} == set(NewReplay.__struct_fields__) - {"places", "created_by"}
    redrive = set(dead_letters.Redrive.__struct_fields__)
    assert redrive - {"offsets", "topic", "state"} <= fields
    assert all(hasattr(ResetPreview, name) for name in resets.GroupResetPreview.__struct_fields__)


@pytest.mark.parametrize(
    ("wire", "added", "engine", "kept_back"),
    [
        (scheduled.WaitingMessage, {"message_id"}, Scheduled, set()),
        (statistics.BrokerStatistics, {"lag_history"}, BrokerMetrics, NOT_SHOWN),
        (statistics.LagHistory, {"group"}, LagHistoryPage, set()),
        (transactions.PendingCheck, set(), TransactionCheck, {"half_offset"}),
        (transactions.TransactionCallback, {"live_producers"}, Callback, set()),
        (transactions.TransactionInfo, {"half_offset_id"}, Transaction, {"flush_position"}),
    ],
)
def test_what_one_side_has_alone_is_named_here(
    wire: type[msgspec.Struct],
    added: set[str],
    engine: type[msgspec.Struct],
    kept_back: set[str],
) -> None:
    fields = set(wire.__struct_fields__)
    assert fields - added == set(engine.__struct_fields__) - kept_back
    assert added <= fields


def test_what_operations_take_and_answer_stands_in_the_model() -> None:
    elsewhere = {
        operation.name
        for operation in OPERATIONS
        for kinds in (operation.body, operation.answer)
        for kind in (kinds if isinstance(kinds, tuple) else (kinds,))
        if kind not in (None, str) and not kind.__module__.startswith("kitemq.model.")
    }
    assert not elsewhere
