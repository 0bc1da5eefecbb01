"""What an operator should look at first, found in the figures that were already read. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from app.ui import formats
from app.ui.sampler import GroupFigures
from app.ui.templating import segment

OLD_UNREAD_MS = 5 * 60 * 1000
DISK_WARNING_FACTOR = 4
EACH_MAX = 5


@dataclass(frozen=True)
class Concern:
    """One thing that needs a person; `tone` is warn or bad, `icon` names its picture."""

    tone: str
    icon: str
    title: str
    detail: str
    href: str
    action: str


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
