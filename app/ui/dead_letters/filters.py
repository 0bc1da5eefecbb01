"""The filter of dead letters and its facets. Pure."""

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import compress, repeat
from operator import attrgetter
from typing import TypeVar

from app.monitoring.dead_index import DeadRow
from app.ui.framework import typed_time, zones
from app.ui.framework.language import N_, _, translated
from app.ui.framework.typed_time import NoMoment
from app.ui.framework.zones import UTC_ZONE, Zone
from engine.broker import DeadLetterState, StateCounts, fits_error
from engine.errors import Invalid
from kitemq.model.conversion import convert
from kitemq.model.numbers import is_whole

T = TypeVar("T")

TEXT_MAX = 512
OFFSETS_MAX = 10_000
FACET_VALUES_MAX = 8
NONE = "(none)"
HOUR_MS = 3_600_000
# Name, label, minimum age, age limit: each dead letter belongs to one row.
AGES: tuple[tuple[str, str, int, int | None], ...] = (
    ("hour", N_("up to 1 hour"), 0, HOUR_MS),
    ("day", N_("1 to 24 hours"), HOUR_MS, 24 * HOUR_MS),
    ("week", N_("1 to 7 days"), 24 * HOUR_MS, 168 * HOUR_MS),
    ("older", N_("over 7 days"), 168 * HOUR_MS, None),
)
FACETS = ("error_class", "error", "reason", "topic", "tag", "client", "attempts", "age")
ALL = "all"
STATES = (*DeadLetterState, ALL)  # the first is the default
LABELS = {
    "error_class": N_("Error"),
    "error": N_("Error message"),
    "reason": N_("Reason"),
    "topic": N_("Sent to topic"),
    "tag": N_("Tag"),
    "client": N_("Last tried by"),
    "attempts": N_("Attempts"),
    "age": N_("Age"),
}
NOTHING = {
    "error_class": N_("no error class"),
    "error": N_("no error reported"),
    "reason": N_("no reason recorded"),
    "topic": N_("origin not recorded"),
    "tag": N_("no tag"),
    "client": N_("client not recorded"),
    "attempts": N_("attempts not recorded"),
}


@dataclass(frozen=True)
class Criteria:
    """Conditions on dead letters: "" and 0 match all; `from_ms` <= time of death < `until_ms`.

    `offsets` are the ticked dead letters; with them, other conditions do not apply.
    """

    reason: str = ""
    topic: str = ""
    tag: str = ""
    client: str = ""
    attempts: str = ""
    age: str = ""
    from_ms: int = 0
    until_ms: int = 0
    id: str = ""
    key: str = ""
    offsets: tuple[int, ...] = ()
    state: str = ""
    error_class: str = ""
    error: str = ""  # the main line, or its beginning and a *

    @property
    def is_any(self) -> bool:
        """Whether there is no condition but the state."""
        return replace(self, state="") == Criteria()

    @property
    def wants(self) -> str:
        """The state to match; ticked dead letters match in any state."""
        return ALL if self.offsets else self.state or STATES[0]

    def settled(self, now_ms: int) -> "Criteria":
        """The same criteria with the age as fixed times, which do not move with the clock."""
        begin, end = self.from_ms, self.until_ms
        for name, __, low, high in AGES:
            if name == self.age:
                end = min(end or now_ms, now_ms - low + 1) if low else end
                begin = begin if high is None else max(begin, now_ms - high + 1)
        return replace(self, age="", from_ms=begin, until_ms=end)

    def query(self) -> dict[str, str]:
        """The criteria as parameters of a query, without empty ones."""
        values = {
            "error_class": self.error_class,
            "error": self.error,
            "reason": self.reason,
            "topic": self.topic,
            "tag": self.tag,
            "client": self.client,
            "attempts": self.attempts,
            "age": self.age,
            "from": str(self.from_ms or ""),
            "until": str(self.until_ms or ""),
            "id": self.id,
            "key": self.key,
            "offsets": ",".join(map(str, self.offsets)),
            "state": self.state,
        }
        return {name: value for name, value in values.items() if value}

    def words(self) -> list[str]:
        """The criteria in words; empty if all dead letters match."""
        if self.offsets:
            return []
        phrases = [
            f"{label} {value if value != NONE else _('none')}"
            for label, value in (
                (_("error"), self.error_class),
                (_("error message"), self.error),
                (_("reason"), translated(self.reason.replace("_", " "))),
                (_("sent to"), self.topic),
                (_("tag"), self.tag),
                (_("last tried by"), self.client),
                (_("attempts"), self.attempts),
                (_("message id"), self.id),
                (_("key"), self.key),
            )
            if value
        ]
        phrases += [translated(text) for name, text, *__ in AGES if name == self.age]
        phrases += [_("from %(at)s", at=_moment(self.from_ms))] if self.from_ms else []
        return phrases + ([_("before %(at)s", at=_moment(self.until_ms))] if self.until_ms else [])


@dataclass(frozen=True)
class FacetValue:
    value: str
    label: str
    count: int
    is_on: bool


@dataclass(frozen=True)
class DeadLetterFacet:
    """A facet of the dead letters: its most frequent values, and the number of `others`."""

    name: str
    label: str
    values: list[FacetValue]
    others: int
    others_count: int


@dataclass(frozen=True)
class DeadLetterSelection:
    """The offsets that meet the criteria, newest first, and the facets beside them.

    `states` counts what meets all criteria except the state.
    """

    offsets: list[int]
    returned: int
    facets: list[DeadLetterFacet]
    states: StateCounts


def parse(values: Mapping[str, str]) -> Criteria:
    """Read criteria from an address or a form.

    Raises Invalid for a malformed condition, since ignoring it would choose too much.
    """
    text = {name: values.get(name, "").strip()[:TEXT_MAX] for name in (*FACETS, "id", "key")}
    if text["age"] and text["age"] not in [name for name, *__ in AGES]:
        raise Invalid(
            _("%(age)s is not an age", age=f"{text['age'][:40]!r}"),
            field="age",
            remedy=_("choose %(choices)s", choices=", ".join((name for name, *__ in AGES))),
        )
    state = values.get("state", "").strip()
    if state and state not in STATES:
        raise Invalid(
            _("%(state)s is not a state", state=f"{state[:40]!r}"),
            field="state",
            remedy=_("choose %(choices)s", choices=", ".join(STATES)),
        )
    return Criteria(
        **text,
        state="" if state == STATES[0] else state,
        from_ms=_time(values, "from"),
        until_ms=_time(values, "until"),
        offsets=_offsets(values.get("offsets", "")),
    )


def select(
    rows: Sequence[DeadRow],
    criteria: Criteria,
    now_ms: int,
    matches: Iterable[int] | None,
    marked: Mapping[int, str] | None = None,
) -> DeadLetterSelection:
    """Select the rows that meet all criteria; `matches` limits them to offsets of an id or a key.

    `marked` has the state of each that is not open. A facet counts the rows that meet all other
    criteria: the rows that choosing a value would show. Counted by column: a live page of 50,000
    rows is selected every few seconds.
    """
    rows = _in_time(rows, criteria, matches)
    columns = {name: list(map(attrgetter(name), rows)) for name in FACETS[:-1]}
    bounds = [now_ms - high for *__, high in reversed(AGES) if high is not None]
    places = map(bisect_left, repeat(bounds), [row.died_ms for row in rows])
    columns["age"] = list(map([name for name, *__ in reversed(AGES)].__getitem__, places))
    offsets = [row.offset for row in rows]
    states = list(map((marked or {}).get, offsets, repeat(DeadLetterState.OPEN)))
    fits = {name: _fitting(name, getattr(criteria, name), columns[name]) for name in FACETS}
    fits = {name: each for name, each in fits.items() if each is not None}
    in_state = None if criteria.wants == ALL else [each == criteria.wants for each in states]
    shown = _both(in_state, *fits.values())
    counts = {}
    for name, column in columns.items():
        others = [each for other, each in fits.items() if other != name]
        selector = _both(in_state, *others) if name in fits else shown
        counts[name] = Counter(_where(column, selector))
        if "" in counts[name]:
            counts[name][NONE] += counts[name].pop("")
    return DeadLetterSelection(
        offsets=list(_where(offsets, shown))[::-1],
        returned=sum(_where([row.is_back for row in rows], shown)),
        facets=[_facet(name, counts[name], getattr(criteria, name)) for name in FACETS],
        states=convert(None, StateCounts, **Counter(_where(states, _both(*fits.values())))),
    )


def _in_time(
    rows: Sequence[DeadRow], criteria: Criteria, matches: Iterable[int] | None
) -> Sequence[DeadRow]:
    """The rows that meet the criteria of time, and those of an id or a key by their offsets."""
    if matches is not None:
        among = frozenset(matches)
        rows = [row for row in rows if row.offset in among]
    if criteria.from_ms or criteria.until_ms:
        end_ms = criteria.until_ms or math.inf
        rows = [row for row in rows if criteria.from_ms <= row.died_ms < end_ms]
    return rows


def _fitting(name: str, want: str, column: list[str]) -> list[bool] | None:
    """For each row of a column whether it is chosen; None where nothing is."""
    if not want:
        return None
    by_value = {value: _fits(name, want, value or NONE) for value in set(column)}
    return list(map(by_value.__getitem__, column))


def _both(*selectors: list[bool] | None) -> list[bool] | None:
    """The rows that all choose; None for every row."""
    some = [each for each in selectors if each is not None]
    return list(map(all, zip(*some, strict=True))) if len(some) > 1 else next(iter(some), None)


def _where(column: list[T], selector: list[bool] | None) -> Iterable[T]:
    return column if selector is None else compress(column, selector)


def meets(row: DeadRow, criteria: Criteria, now_ms: int, state: str) -> bool:
    """Whether a dead letter in a state meets the criteria, except those on ids and keys."""
    if criteria.wants not in (ALL, state):
        return False
    if criteria.from_ms > row.died_ms or 0 < criteria.until_ms <= row.died_ms:
        return False
    pairs = zip(FACETS, _values(row, now_ms), strict=True)
    return all(_fits(name, getattr(criteria, name), value) for name, value in pairs)


def _fits(name: str, want: str, value: str) -> bool:
    """Whether a value of a facet is chosen; of an error a long line or its beginning may be."""
    if want in ("", value) or name != "error":
        return want in ("", value)
    return fits_error(want, value) or (value.endswith("*") and fits_error(value, want))


def _values(row: DeadRow, now_ms: int) -> tuple[str, ...]:
    return (
        row.error_class or NONE, row.error or NONE,
        row.reason or NONE, row.topic or NONE, row.tag or NONE, row.client or NONE,
        row.attempts or NONE, _age(now_ms - row.died_ms),
    )  # fmt: skip


def _age(age_ms: int) -> str:
    return next(name for name, *__, high in AGES if high is None or age_ms < high)


def _facet(name: str, counts: Counter[str], active: str) -> DeadLetterFacet:
    if name == "age":
        pairs = [(age, counts[age]) for age, *__ in AGES if counts[age] or age == active]
    else:
        pairs = sorted(counts.items(), key=lambda pair: (pair[0] != active, -pair[1], pair[0]))
        if active and active not in counts:
            pairs.insert(0, (active, 0))
    top, rest = pairs[:FACET_VALUES_MAX], pairs[FACET_VALUES_MAX:]
    words = {age: translated(text) for age, text, *__ in AGES} if name == "age" else {}
    return DeadLetterFacet(
        name=name,
        label=translated(LABELS[name]),
        values=[
            FacetValue(
                value,
                words.get(value) or (translated(NOTHING[name]) if value == NONE else value),
                count,
                value == active,
            )
            for value, count in top
        ],
        others=len(rest),
        others_count=sum(count for __, count in rest),
    )


def _time(values: Mapping[str, str], field: str) -> int:
    """A time in ms from a number or a date field, in the zone of the field "zone"."""
    text = values.get(field, "").strip()
    if not text:
        return 0
    if is_whole(text, 15):
        return int(text)
    name = values.get("zone", "")
    zone = zones.parse(name) if name else UTC_ZONE
    if zone is None:
        raise Invalid(
            _("%(zone)s is not a time zone.", zone=repr(name[:64])),
            field="zone",
            remedy=_("choose a time zone in the settings"),
        )
    try:
        return typed_time.moment_ms(text, zone)
    except NoMoment as error:
        raise Invalid(
            _("%(text)s is not a time", text=f"{text[:40]!r}"), field=field, remedy=str(error)
        ) from None


def field_text(at_ms: int, zone: Zone) -> str:
    """A time as the value of a date field, "" for none."""
    return typed_time.moment_text(at_ms, zone) if at_ms else ""


def _moment(at_ms: int) -> str:
    try:
        return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (OverflowError, ValueError, OSError):
        return _("%(at_ms)s ms since 1970", at_ms=at_ms)


def _offsets(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not all(is_whole(part) for part in parts):
        raise Invalid(
            _("the selected dead letters are not named by their offsets"),
            field="offsets",
            remedy=_("select them in the list again"),
        )
    if len(parts) > OFFSETS_MAX:
        raise Invalid(
            _(
                "%(named)s dead letters are named, %(offsets_max)s is the most",
                named=len(parts),
                offsets_max=OFFSETS_MAX,
            ),
            field="offsets",
            remedy=_("choose them by reason, topic, tag or time"),
        )
    return tuple(sorted({int(part) for part in parts}))
