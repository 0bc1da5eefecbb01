"""What an operator should look at first, found in the figures that were already read. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from app.ui import formats
from app.ui.sampler import GroupFigures
from app.ui.templating import segment
from app.ui.watch import Watch

OLD_UNREAD_MS = 5 * 60 * 1000
DISK_WARNING_FACTOR = 4
EACH_MAX = 5
SEVERITIES = {"critical": -2, "warning": -1}


@dataclass(frozen=True)
class Concern:
    """One thing that needs a person; `tone` is warn or bad, `icon` names its picture."""

    tone: str
    icon: str
    title: str
    detail: str
    href: str
    action: str


def alerts(watch: Watch) -> Iterator[Concern]:
    """Rules that fire, the critical ones first; and that states are not kept up."""
    if watch.alerts_failure:
        title = "Alerts are not up to date"
        yield Concern("bad", "alert", title, watch.alerts_failure, "/alerts", "See alerts")
    found = sorted(watch.firing, key=lambda one: (SEVERITIES.get(one.severity, 0), one.rule))
    for one in found[:EACH_MAX]:
        about = f" for {one.subject}" if one.subject else ""
        tone = "bad" if one.severity == "critical" else "warn"
        title = f"{one.rule}{about}"
        yield Concern(tone, "alert", title, f"{one.detail}.", one.href or "/alerts", "See where")
    yield from _rest(len(found), "alerts that fire", "/alerts")


def paused(watch: Watch) -> Iterator[Concern]:
    """Groups that somebody stopped, perhaps long ago."""
    for name, topics in watch.paused[:EACH_MAX]:
        where = f"in {topics} of its topics" if topics else "altogether"
        yield Concern(
            "warn",
            "clock",
            f"{name} is paused",
            f"Somebody stopped handing out messages to it, {where}.",
            f"/groups/{segment(name)}",
            "See the group",
        )
    yield from _rest(len(watch.paused), "paused groups", "/groups")


def conflicts(watch: Watch) -> Iterator[Concern]:
    """Groups whose members want different messages, and so take them from each other."""
    for name in watch.conflicts[:EACH_MAX]:
        yield Concern(
            "bad",
            "group",
            f"Members of {name} subscribe to different messages",
            "Each takes messages that another one wants; give each subscription its own group.",
            f"/groups/{segment(name)}/subscriptions",
            "Compare them",
        )
    yield from _rest(len(watch.conflicts), "groups with such members", "/groups")


def traces(watch: Watch) -> Iterator[Concern]:
    """What happened to messages and was not recorded."""
    if watch.traces_refusal:
        title = "Traces are not recorded"
        yield Concern(
            "bad", "trend", title, f"{watch.traces_refusal}.", "/engine", "See the engine"
        )
    if watch.traces_dropped:
        count = formats.count(watch.traces_dropped)
        yield Concern(
            "warn",
            "trend",
            f"{count} trace events found no room",
            "Counted since the server's start: journeys of those messages have gaps.",
            "/engine",
            "See the engine",
        )


def given_up(watch: Watch) -> Iterator[Concern]:
    """Transactions that nobody decided and nobody is asked about any more."""
    if watch.given_up:
        noun = "transaction waits" if watch.given_up == 1 else "transactions wait"
        yield Concern(
            "bad",
            "info",
            f"{formats.count(watch.given_up)} {noun} for a person",
            "Their producers never said how they ended, and are not asked any more.",
            "/transactions?kind=given_up",
            "Decide",
        )


def warnings(found: Mapping[str, str]) -> Iterator[Concern]:
    """What the engine's health warns of while everything still works."""
    for name, text in found.items():
        title = f"{name.capitalize()} warns"
        yield Concern("warn", "info", title, f"{text}.", "/engine", "See the engine")


def dead_letters(groups: Mapping[str, GroupFigures]) -> Iterator[Concern]:
    """Groups that gave up on messages, the most first."""
    found = sorted((f.dead, name) for name, f in groups.items() if f.dead)[::-1]
    for dead, name in found[:EACH_MAX]:
        noun = "dead letter" if dead == 1 else "dead letters"
        yield Concern(
            "bad",
            "skull",
            f"{formats.count(dead)} {noun} in {name}",
            "Every attempt failed; the messages wait for someone to decide.",
            f"/dlq/{segment(name)}",
            "Look at them",
        )
    yield from _rest(len(found), "groups with dead letters", "/dlq?sort=-dead")


def growing(groups: Mapping[str, GroupFigures], growth: Mapping[str, int]) -> Iterator[Concern]:
    """Groups that fall behind while someone watches."""
    found = sorted((grown, name) for name, grown in growth.items() if grown)[::-1]
    for grown, name in found[:EACH_MAX]:
        yield Concern(
            "warn",
            "trend",
            f"Lag of {name} is growing",
            f"{formats.count(groups[name].lag)} unread, {formats.count(grown)} more within the"
            " last quarter of an hour.",
            f"/groups/{segment(name)}",
            "See where",
        )
    yield from _rest(len(found), "groups with growing lag", "/groups?sort=-lag")


def old_unread(
    groups: Mapping[str, GroupFigures], growth: Mapping[str, int], now_ms: int
) -> Iterator[Concern]:
    """Groups that left messages lying, though they may not fall further behind."""
    found = sorted(
        (figures.oldest_ms, name)
        for name, figures in groups.items()
        if figures.oldest_ms is not None
        and now_ms - figures.oldest_ms >= OLD_UNREAD_MS
        and not growth.get(name)
    )
    for oldest_ms, name in found[:EACH_MAX]:
        yield Concern(
            "warn",
            "clock",
            f"{name} leaves messages unread for {formats.duration(now_ms - oldest_ms)}",
            f"{formats.count(groups[name].lag)} unread; perhaps nobody is consuming.",
            f"/groups/{segment(name)}",
            "See where",
        )
    yield from _rest(len(found), "groups with old unread messages", "/groups?sort=oldest")


def disk(free_bytes: int | None, min_bytes: int) -> Iterator[Concern]:
    """Room on the disk: refusing writes already, or soon; nothing while it is unknown."""
    if free_bytes is None:
        return
    if free_bytes < min_bytes:
        yield Concern(
            "bad",
            "disk",
            "Disk is full: writes are refused",
            f"{formats.size(free_bytes)} free, at least {formats.size(min_bytes)} is needed."
            " Reads go on.",
            "",
            "",
        )
    elif free_bytes < DISK_WARNING_FACTOR * min_bytes:
        yield Concern(
            "warn",
            "disk",
            "Disk is filling up",
            f"{formats.size(free_bytes)} free; below {formats.size(min_bytes)} writes are refused.",
            "",
            "",
        )


def damage(count: int) -> Iterator[Concern]:
    """Records that recovery found broken and stepped over."""
    if count:
        noun = "place" if count == 1 else "places"
        yield Concern(
            "bad",
            "disk",
            f"The log is damaged in {formats.count(count)} {noun}",
            "Recovery stepped over it; the server's log names the positions.",
            "",
            "",
        )


def services(failures: Mapping[str, str]) -> Iterator[Concern]:
    """Background duties whose last step failed."""
    for name, failure in failures.items():
        yield Concern("bad", "alert", f"Background service {name} is failing", failure, "", "")


def _rest(found: int, noun: str, href: str) -> Iterator[Concern]:
    if found > EACH_MAX:
        title = f"{formats.count(found - EACH_MAX)} more {noun}"
        yield Concern("warn", "info", title, "", href, "List them")
