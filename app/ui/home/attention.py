"""The concerns on the first page, derived from figures that were already read. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from app.monitoring.sampler import GroupFigures
from app.ui.framework import formats
from app.ui.framework.language import N_, _, ngettext
from app.ui.framework.templating import segment
from app.ui.home.watch import Watch

OLD_UNREAD_MS = 5 * 60 * 1000
DISK_WARNING_FACTOR = 4
EACH_MAX = 5
SEVERITIES = {"critical": -2, "warning": -1}


@dataclass(frozen=True)
class Concern:
    """A concern for the operator; `tone` is warn or bad, `icon` names its icon."""

    tone: str
    icon: str
    title: str
    detail: str
    href: str = ""
    action: str = ""


def alerts(watch: Watch) -> Iterator[Concern]:
    """Firing alerts, critical ones first, and a failure to update alert states."""
    if watch.alerts_failure:
        title = _("Alerts are not up to date")
        yield Concern("bad", "alert", title, watch.alerts_failure, "/alerts", _("See alerts"))
    firing = sorted(
        watch.firing,
        key=lambda one: (bool(one.acked_by), SEVERITIES.get(one.severity, 0), one.rule),
    )
    for one in firing[:EACH_MAX]:
        tone = "bad" if one.severity == "critical" else "warn"
        title = one.rule
        if one.subject:
            title = _("%(rule)s for %(subject)s", rule=one.rule, subject=one.subject)
        detail = f"{one.detail}."
        if one.acked_by:
            detail += " " + _("Seen by %(who)s.", who=one.acked_by)
        yield Concern(tone, "alert", title, detail, one.href or "/alerts", _("See where"))
    yield from _rest(len(firing), _("alerts that fire"), "/alerts")


def paused(watch: Watch) -> Iterator[Concern]:
    """Paused groups, which may be forgotten."""
    for name, topics in watch.paused[:EACH_MAX]:
        where = _("in %(topics)s of its topics", topics=topics) if topics else _("altogether")
        title = _("%(name)s is paused", name=name)
        detail = _("Somebody stopped handing out messages to it, %(where)s.", where=where)
        yield Concern("warn", "clock", title, detail, _group(name), _("See the group"))
    yield from _rest(len(watch.paused), _("paused groups"), "/groups")


def conflicts(watch: Watch) -> Iterator[Concern]:
    """Groups whose members have conflicting subscriptions and take messages from each other."""
    detail = _("Each takes messages that another one wants; give each subscription its own group.")
    for name in watch.conflicts[:EACH_MAX]:
        title = _("Members of %(name)s subscribe to different messages", name=name)
        href = f"{_group(name)}/subscriptions"
        yield Concern("bad", "group", title, detail, href, _("Compare them"))
    yield from _rest(len(watch.conflicts), _("groups with such members"), "/groups")


def traces(watch: Watch) -> Iterator[Concern]:
    """Traces that are not recorded, and dropped trace events."""
    action = _("See the engine")
    if watch.traces_refusal:
        title, detail = _("Traces are not recorded"), f"{watch.traces_refusal}."
        yield Concern("bad", "trend", title, detail, "/engine", action)
    if watch.traces_dropped:
        count = formats.count(watch.traces_dropped)
        title = _("%(count)s trace events found no room", count=count)
        detail = _("Counted since the server's start: journeys of those messages have gaps.")
        yield Concern("warn", "trend", title, detail, "/engine", action)


def given_up(watch: Watch) -> Iterator[Concern]:
    """Undecided transactions whose checks were given up."""
    if watch.given_up:
        title = ngettext(
            "%(num)s transaction waits for a person",
            "%(num)s transactions wait for a person",
            watch.given_up,
        )
        detail = _("Their producers never said how they ended, and are not asked any more.")
        href = "/transactions?kind=given_up"
        yield Concern("bad", "info", title, detail, href, _("Decide"))


def warnings(texts: Mapping[str, str]) -> Iterator[Concern]:
    """The warnings in the engine's health."""
    for name, text in texts.items():
        title = _("%(name)s warns", name=name.capitalize())
        yield Concern("warn", "info", title, f"{text}.", "/engine", _("See the engine"))


def dead_letters(groups: Mapping[str, GroupFigures]) -> Iterator[Concern]:
    """Groups with dead letters, those with the most since yesterday first."""
    rows = sorted((f.dead_new, f.dead, name) for name, f in groups.items() if f.dead)[::-1]
    for new, dead, name in rows[:EACH_MAX]:
        since = _("none of them new since yesterday")
        if new:
            since = _("%(count)s new since yesterday", count=formats.count(new))
        title = ngettext(
            "%(num)s dead letter in %(name)s", "%(num)s dead letters in %(name)s", dead, name=name
        )
        detail = _("Every attempt failed; %(since)s. They wait for someone to decide.", since=since)
        yield Concern("bad", "skull", title, detail, f"/dlq/{segment(name)}", _("Look at them"))
    yield from _rest(len(rows), _("groups with dead letters"), "/dlq?sort=-dead")


def growing(groups: Mapping[str, GroupFigures], growth: Mapping[str, int]) -> Iterator[Concern]:
    """Groups whose lag grows."""
    rows = sorted((grown, name) for name, grown in growth.items() if grown)[::-1]
    for grown, name in rows[:EACH_MAX]:
        title = _("Lag of %(name)s is growing", name=name)
        detail = _(
            "%(lag)s unread, %(grown)s more within the last quarter of an hour.",
            lag=formats.count(groups[name].lag),
            grown=formats.count(grown),
        )
        yield Concern("warn", "trend", title, detail, _group(name), _("See where"))
    yield from _rest(len(rows), _("groups with growing lag"), "/groups?sort=-lag")


def unknown(groups: Mapping[str, GroupFigures]) -> Iterator[Concern]:
    """Groups whose lag is unknown."""
    unread = sorted(name for name, figures in groups.items() if not figures.lag_by_topic)
    if unread:
        names = ", ".join(unread[:EACH_MAX]) + (" …" if len(unread) > EACH_MAX else "")
        title = ngettext(
            "The lag of %(num)s group is unknown",
            "The lag of %(num)s groups is unknown",
            len(unread),
        )
        detail = _("%(names)s: no place in any queue yet, nothing was read.", names=names)
        href = "/groups?sort=lag&page=9999"
        yield Concern("warn", "info", title, detail, href, _("See the groups"))


def old_unread(
    groups: Mapping[str, GroupFigures], growth: Mapping[str, int], now_ms: int
) -> Iterator[Concern]:
    """Groups with old unread messages whose lag does not grow."""
    rows = sorted(
        (figures.oldest_ms, name)
        for name, figures in groups.items()
        if figures.oldest_ms is not None
        and now_ms - figures.oldest_ms >= OLD_UNREAD_MS
        and not growth.get(name)
    )
    for oldest_ms, name in rows[:EACH_MAX]:
        age, lag = formats.duration(now_ms - oldest_ms), formats.count(groups[name].lag)
        title = _("%(name)s leaves messages unread for %(oldest_ms)s", name=name, oldest_ms=age)
        detail = _("%(lag)s unread; perhaps nobody is consuming.", lag=lag)
        yield Concern("warn", "clock", title, detail, _group(name), _("See where"))
    yield from _rest(len(rows), _("groups with old unread messages"), "/groups?sort=oldest")


def disk(free_bytes: int | None, min_bytes: int) -> Iterator[Concern]:
    """A disk that is full or nearly full; nothing if its free space is unknown."""
    if free_bytes is None or free_bytes >= DISK_WARNING_FACTOR * min_bytes:
        return
    tone, title = "warn", _("Disk is filling up")
    text = N_("%(free_bytes)s free; below %(min_bytes)s writes are refused.")
    if free_bytes < min_bytes:
        tone, title = "bad", _("Disk is full: writes are refused")
        text = N_("%(free_bytes)s free, at least %(min_bytes)s is needed. Reads go on.")
    free, needed = formats.size(free_bytes), formats.size(min_bytes)
    yield Concern(tone, "disk", title, _(text, free_bytes=free, min_bytes=needed))


def damage(count: int) -> Iterator[Concern]:
    """Damaged records that recovery skipped."""
    if count:
        title = ngettext(
            "The start found damage in %(num)s place",
            "The start found damage in %(num)s places",
            count,
        )
        detail = _("It was stepped over or set aside; the engine's page names file and bytes.")
        yield Concern("bad", "disk", title, detail, "/engine", _("Engine"))


def services(failures: Mapping[str, str]) -> Iterator[Concern]:
    """Background duties whose last step failed."""
    for name, failure in failures.items():
        title = _("Background service %(name)s is failing", name=name)
        yield Concern("bad", "alert", title, failure)


def _group(name: str) -> str:
    return f"/groups/{segment(name)}"


def _rest(count: int, noun: str, href: str) -> Iterator[Concern]:
    if count > EACH_MAX:
        title = _("%(n)s more %(noun)s", n=formats.count(count - EACH_MAX), noun=noun)
        yield Concern("warn", "info", title, "", href, _("List them"))
