"""Kinds of alert rules, with units and valid values. Pure."""

import fnmatch
import re
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache

from app.db.alert_rows import RuleRow
from engine.errors import Invalid
from kitemq.model.alerts import RuleKind, Severity

RULES_MAX = 200
NAME_CHARS_MAX = 128
PATTERN_CHARS_MAX = 255
NUMBER_MAX = 2**53
WINDOW_MIN_S = 60
WINDOW_MAX_S = 24 * 3600
FOR_MAX_S = 24 * 3600
EVERYTHING = "*"


@dataclass(frozen=True)
class About:
    """A kind in words: what its threshold counts, and which parts of a scope it has."""

    label: str
    unit: str
    help: str
    default: int
    threshold_max: int = NUMBER_MAX
    has_groups: bool = False
    has_topics: bool = False
    has_threshold: bool = True
    has_window: bool = False


ABOUT = {
    RuleKind.LAG: About(
        "Lag",
        "messages",
        "Messages not acknowledged by a group, over all topics in scope.",
        1000,
        has_groups=True,
        has_topics=True,
    ),
    RuleKind.LAG_AGE: About(
        "Age of lag",
        "seconds",
        "Age of the oldest message not acknowledged by a group.",
        300,
        has_groups=True,
        has_topics=True,
    ),
    RuleKind.DEAD_LETTERS: About(
        "New dead letters",
        "messages",
        "Open dead letters of a group that came within the window; neither resent nor dismissed.",
        0,
        has_groups=True,
        has_window=True,
    ),
    RuleKind.DISK: About(
        "Disk used",
        "percent",
        "Usage of the disk with the data directory.",
        85,
        threshold_max=100,
    ),
    RuleKind.ENGINE: About(
        "Engine warnings",
        "",
        "Any failure or warning in the engine's health: services, damage, retention.",
        0,
        has_threshold=False,
    ),
    RuleKind.NO_DATA: About(
        "No data",
        "seconds",
        "Time since the last message of a topic; also applies if no such topic exists.",
        600,
        has_topics=True,
    ),
    RuleKind.REPORT_FAILED: About(
        "Failed report runs",
        "runs",
        "Consecutive failed runs of a report, up to now.",
        0,
    ),
    RuleKind.REPORT_AGE: About(
        "Report delay",
        "seconds",
        "Age of the oldest stored data not included in a scheduled report.",
        3600,
    ),
}


def checked(rule: RuleRow) -> RuleRow:
    """The rule with what its kind does not use put aside; Invalid names the field at fault."""
    _check_text(rule)
    if rule.kind not in set(RuleKind):
        raise Invalid(f"{rule.kind[:40]!r} is no kind", field="kind", remedy=_one_of(RuleKind))
    if rule.severity not in set(Severity):
        detail = f"{rule.severity[:40]!r} is no severity"
        raise Invalid(detail, field="severity", remedy=_one_of(Severity))
    about = ABOUT[RuleKind(rule.kind)]
    _check_number("threshold", rule.threshold, 0, about.threshold_max)
    _check_number("for_s", rule.for_s, 0, FOR_MAX_S)
    if about.has_window:
        _check_number("window_s", rule.window_s, WINDOW_MIN_S, WINDOW_MAX_S)
    return replace(
        rule,
        group_pattern=rule.group_pattern if about.has_groups else EVERYTHING,
        topic_pattern=rule.topic_pattern if about.has_topics else EVERYTHING,
        threshold=rule.threshold if about.has_threshold else 0,
        window_s=rule.window_s if about.has_window else 0,
        receivers=tuple(dict.fromkeys(rule.receivers)),
    )


@lru_cache(maxsize=1024)
def pattern_of(text: str) -> re.Pattern[str]:
    """Names with `*` for anything and `?` for one character; case matters."""
    return re.compile(fnmatch.translate(text))


def matches(pattern: str, name: str) -> bool:
    """Whether a pattern matches a name."""
    return pattern == EVERYTHING or pattern_of(pattern).match(name) is not None


def is_exact(pattern: str) -> bool:
    """Whether a pattern matches one name only."""
    return not any(sign in pattern for sign in "*?[")


def _check_text(rule: RuleRow) -> None:
    if not rule.name.strip() or len(rule.name) > NAME_CHARS_MAX or not rule.name.isprintable():
        raise Invalid(
            "a rule needs a name",
            field="name",
            remedy=f"1 to {NAME_CHARS_MAX} printable characters",
        )
    for field in ("group_pattern", "topic_pattern"):
        pattern = getattr(rule, field)
        if not pattern.strip() or len(pattern) > PATTERN_CHARS_MAX or not pattern.isprintable():
            raise Invalid(
                "the pattern says nothing",
                field=field,
                remedy=f"give a name, or * for all; at most {PATTERN_CHARS_MAX} characters",
            )


def _check_number(field: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        remedy = f"choose {low:,} to {high:,}"
        raise Invalid(f"{field} is {value:,}", field=field, remedy=remedy)


def _one_of(kind: type[StrEnum]) -> str:
    return "one of " + ", ".join(item.value for item in kind)
