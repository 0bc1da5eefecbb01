"""A transaction's story: prepared, checked, answered, decided, and what became of the message.

The journey says what happened, the audit trail which operator did it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from app.db.rows import DONE, AuditEntry
from app.ui.framework.language import N_, _, translated
from app.ui.journeys import words
from engine.broker import GroupState, Journey, Stage, StageName, StageOutcome

LINES_MAX = 200
ENTRIES_MAX = 50
DONE_BY_HAND = {
    "transaction.commit": N_("Committed by operator %(actor)s"),
    "transaction.rollback": N_("Rolled back by operator %(actor)s"),
    "transaction.resume": N_("Checks resumed by operator %(actor)s"),
}
DECISIONS = frozenset({"transaction.commit", "transaction.rollback"})
BY_OPERATOR = "by operator"
LEFT_OUT = frozenset({StageName.WAIT, StageName.DELIVERY, StageName.RETRY_WAIT})


@dataclass(frozen=True)
class StoryLine:
    """One event: when, in words, with its tone; `answer` is what a check brought, or ""."""

    at_ms: int
    text: str
    tone: str
    answer: str = ""


@dataclass(frozen=True)
class GroupEnd:
    """What became of the message in one consumer group."""

    group: str
    text: str
    tone: str
    at_ms: int


@dataclass(frozen=True)
class Story:
    """The lines oldest first, of which `left_out` more follow, and the groups.

    `is_whole` is false where the journey reached a bound.
    """

    lines: list[StoryLine]
    left_out: int
    groups: list[GroupEnd]
    is_whole: bool


def tell(journey: Journey, entries: Sequence[AuditEntry], now_ms: int) -> Story:
    """The story as of now."""
    stages = [stage for stage in journey.stages if stage.name not in LEFT_OUT]
    undecided = [stage for stage in stages if stage.name is StageName.TRANSACTION]
    # The trail says the same, with the operator's name.
    is_by_hand = any(entry.action in DECISIONS and entry.result == DONE for entry in entries)
    ends = [
        end
        for stage in undecided
        if not (is_by_hand and stage.detail == BY_OPERATOR)
        for end in _ends(stage)
    ]
    checks = [stage for stage in stages if stage.name is StageName.CHECK]
    others = [
        stage for stage in stages if stage.name not in (StageName.TRANSACTION, StageName.CHECK)
    ]
    by_hand = list(map(_by_hand, entries))
    lines = [*map(_prepared, undecided[:1]), *_checked(checks, [*ends, *by_hand])]
    lines += [*ends, *by_hand]
    # What happens within one millisecond: sent first, stored last.
    before = [_line(stage, now_ms) for stage in others if stage.name is StageName.PRODUCE]
    after = [_line(stage, now_ms) for stage in others if stage.name is not StageName.PRODUCE]
    lines = sorted([*before, *lines, *after], key=lambda line: line.at_ms)
    groups = [_group_end(branch.group, branch.state, branch.at_ms) for branch in journey.groups]
    return Story(lines[:LINES_MAX], max(0, len(lines) - LINES_MAX), groups, journey.complete)


def _line(stage: Stage, now_ms: int) -> StoryLine:
    return StoryLine(stage.at_ms, words.sentence(stage, now_ms), words.tone(stage))


def _prepared(stage: Stage) -> StoryLine:
    return StoryLine(stage.at_ms, _("Half message stored; the checks begin"), "plain")


def _ends(stage: Stage) -> list[StoryLine]:
    """How a stretch of the transaction ended; nothing while it is undecided."""
    if stage.until_ms is None:
        return []
    by = f" {stage.detail}" if stage.detail else ""
    text = _("Transaction %(outcome)s%(by)s", outcome=words.outcome(stage), by=by)
    return [StoryLine(stage.until_ms, text, words.tone(stage))]


def _checked(checks: Sequence[Stage], ends: Sequence[StoryLine]) -> list[StoryLine]:
    """Each check with what it brought: the first decision before the next check, or no answer."""
    lines = []
    for check, following in pairwise([*checks, None]):
        assert check is not None
        until_ms = following.at_ms if following else None
        answers = [
            end
            for end in sorted(ends, key=lambda end: end.at_ms)
            if end.at_ms >= check.at_ms and (until_ms is None or end.at_ms < until_ms)
        ]
        if check.outcome is StageOutcome.NOBODY_TO_ASK:
            answer = ""
        elif answers:
            answer = answers[0].text
        else:
            answer = _("no decision") if following else _("no decision yet")
        lines.append(replace(_line(check, check.at_ms), answer=answer))
    return lines


def _by_hand(entry: AuditEntry) -> StoryLine:
    text = DONE_BY_HAND.get(entry.action, entry.action)
    done = translated(text) % {"actor": entry.actor}
    if entry.result == DONE:
        return StoryLine(entry.at_ms, done, "ok")
    return StoryLine(entry.at_ms, f"{done}: {entry.result}", "warn")


def _group_end(group: str, state: GroupState, at_ms: int) -> GroupEnd:
    text, tone = words.verdict(state, is_filtered=False)
    return GroupEnd(group, text, tone, at_ms)
