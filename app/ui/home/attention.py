"""What needs attention, object by object: the most severe sentence leads, the others follow.

A sentence is written only for what is shown: thousands of groups may be behind at once.
"""

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from app.monitoring.group_status import GroupStanding
from app.monitoring.sampler import GroupFigures, Snapshot
from app.ui.alerts.details import detail_of
from app.ui.framework import formats
from app.ui.framework.language import N_, _, ngettext, translated
from app.ui.framework.templating import segment
from app.ui.groups.status import StatusView, view_of
from app.ui.home.watch import Firing, Watch
from engine.broker import GroupConfig, Health
from kitemq.model.alerts import Severity
from kitemq.model.groups import GroupStatus

MATTERS_MAX = 20
DISK_WARNING_FACTOR = 4
BAD = 65  # from this weight on it is red
STATUS_WEIGHTS = {
    GroupStatus.NO_CONSUMERS: 80,
    GroupStatus.FALLING_BEHIND: 60,
    GroupStatus.PAUSED: 30,
}
ALERT_WEIGHTS = {Severity.CRITICAL: 90, Severity.WARNING: 50, Severity.INFO: 25}
ACKNOWLEDGED = 20
# The icon and the page of a thing, by its kind; parts of the broker have names to be translated.
PLACES = {
    "group": ("group", "/groups/{}"),
    "topic": ("topic", "/topics/{}"),
    "report": ("trend", "/reports"),
    "broker": ("info", "/engine"),
    "cluster": ("disk", "/brokers"),
}
BROKER_PARTS = {
    "alerts": N_("Alerts"),
    "disk": N_("Disk"),
    "log": N_("Log"),
    "traces": N_("Traces"),
    "transactions": N_("Transactions"),
}


@dataclass(frozen=True, order=True)
class Thing:
    """The object of a concern: a "group", "topic", "report", part of the "broker" or "cluster"."""

    kind: str
    name: str


@dataclass(frozen=True)
class Sentence:
    """What is the matter, and the action that follows from it, "" if none does."""

    text: str
    href: str = ""
    action: str = ""


@dataclass(frozen=True)
class Concern:
    """A concern about a thing; the greatest `weight`, then `amount`, stands first."""

    thing: Thing
    weight: int
    write: Callable[[], Sentence]
    amount: int = 0

    @property
    def tone(self) -> str:
        return "bad" if self.weight >= BAD else "warn"


@dataclass(frozen=True)
class Matter:
    """A thing that needs attention; `status` is a group's."""

    id: str
    name: str
    icon: str
    href: str
    tone: str
    status: StatusView | None
    lead: Sentence
    others: Sequence[Sentence]


@dataclass(frozen=True)
class Attention:
    """The gravest matters of `total`; `more_groups` and `more_topics` are not among them."""

    matters: Sequence[Matter]
    total: int
    more_groups: int
    more_topics: int


def attention(
    snapshot: Snapshot, configs: Sequence[GroupConfig], health: Health, watch: Watch
) -> Attention:
    """All that needs attention, merged by object and sorted by severity. Pure."""
    standings = {config.name: snapshot.standing(config) for config in configs}
    return merge(
        [
            *alerts(watch),
            *engine(health),
            *disk(health.disk_free_bytes, health.disk_free_min_bytes),
            *traces_and_transactions(watch),
            *conflicts(watch),
            *dead_letters(snapshot.groups),
            *statuses(standings),
        ],
        standings,
    )


def merge(concerns: Sequence[Concern], standings: Mapping[str, GroupStanding]) -> Attention:
    """The concerns by object; `standings` are those of groups."""
    by_thing: dict[Thing, list[Concern]] = defaultdict(list)
    for concern in concerns:
        by_thing[concern.thing].append(concern)
    for each in by_thing.values():
        each.sort(key=lambda concern: (-concern.weight, -concern.amount))
    order = heapq.nsmallest(
        MATTERS_MAX,
        by_thing,
        key=lambda thing: (-by_thing[thing][0].weight, -by_thing[thing][0].amount, thing),
    )
    rest = [thing.kind for thing in by_thing.keys() - order]
    return Attention(
        matters=[_matter(thing, by_thing[thing], standings.get(thing.name)) for thing in order],
        total=len(by_thing),
        more_groups=rest.count("group"),
        more_topics=rest.count("topic"),
    )


def _matter(thing: Thing, concerns: Sequence[Concern], standing: GroupStanding | None) -> Matter:
    lead, *others = (concern.write() for concern in concerns)
    icon, href = PLACES[thing.kind]
    is_part = thing.kind == "broker"
    return Matter(
        id=f"matter-{thing.kind}-{thing.name}",
        name=translated(BROKER_PARTS.get(thing.name, thing.name)) if is_part else thing.name,
        icon=icon,
        href=href.format(segment(thing.name)),
        tone=concerns[0].tone,
        status=view_of(thing.name, standing) if standing and thing.kind == "group" else None,
        lead=lead,
        others=others,
    )


def alerts(watch: Watch) -> Iterator[Concern]:
    """Firing alerts, a failure to update alert states, and objects that no alert watches."""
    if watch.alerts_failure:
        text = _("Alerts are not up to date: %(failure)s.", failure=watch.alerts_failure)
        yield _of_broker("alerts", 92, text, "/alerts", _("View alerts"))
    if watch.left_out:
        text = ngettext(
            "%(num)s object is not watched: alert states fill their memory.",
            "%(num)s objects are not watched: alert states fill their memory.",
            watch.left_out,
        )
        yield _of_broker("alerts", 70, text, "/alerts", _("View alerts"))
    for one in watch.firing:
        weight = ALERT_WEIGHTS[Severity(one.severity)]
        weight = ACKNOWLEDGED if one.acked_by else weight
        yield Concern(Thing(one.kind, one.subject), weight, partial(_firing, one))


def _firing(one: Firing) -> Sentence:
    text = _("Alert “%(rule)s”: %(detail)s.", rule=one.rule, detail=detail_of(one.detail))
    if one.acked_by:
        text += " " + _("Acknowledged by %(who)s.", who=one.acked_by)
    return Sentence(text, "/alerts", _("View alerts"))


def conflicts(watch: Watch) -> Iterator[Concern]:
    """Groups whose members have conflicting subscriptions and take messages from each other."""
    for name in watch.conflicts:
        yield Concern(Thing("group", name), 85, partial(_conflict, name))


def _conflict(name: str) -> Sentence:
    return Sentence(
        _(
            "Consumers subscribe to different messages and take each other's. Give each "
            "subscription its own group."
        ),
        f"/groups/{segment(name)}/subscriptions",
        _("Compare subscriptions"),
    )


def dead_letters(groups: Mapping[str, GroupFigures]) -> Iterator[Concern]:
    """Groups with dead letters, those with the most since yesterday first."""
    for name, figures in groups.items():
        if figures.dead:
            weight, write = 75 if figures.dead_new else BAD, partial(_dead, name, figures)
            yield Concern(Thing("group", name), weight, write, figures.dead_new or figures.dead)


def _dead(name: str, figures: GroupFigures) -> Sentence:
    if figures.dead_new:
        text = ngettext(
            "%(num)s dead letter, %(new)s new since yesterday.",
            "%(num)s dead letters, %(new)s new since yesterday.",
            figures.dead,
            new=formats.count(figures.dead_new),
        )
    else:
        text = ngettext(
            "%(num)s dead letter, none new since yesterday.",
            "%(num)s dead letters, none new since yesterday.",
            figures.dead,
        )
    return Sentence(text, f"/dlq/{segment(name)}", _("Review"))


def statuses(standings: Mapping[str, GroupStanding]) -> Iterator[Concern]:
    """Groups that do not keep up, and paused ones, which may be forgotten; idle ones never."""
    for name, standing in standings.items():
        weight = STATUS_WEIGHTS.get(standing.status)
        if weight:
            write = partial(_status, name, standing)
            yield Concern(Thing("group", name), weight, write, standing.condition.unread or 0)


def _status(name: str, standing: GroupStanding) -> Sentence:
    view = view_of(name, standing)
    return Sentence(view.sentence, view.href, view.action)


def engine(health: Health) -> Iterator[Concern]:
    """Services whose last step failed, damage that recovery set aside, and warnings."""
    for name, failure in health.failures.items():
        yield _of_engine(name, 95, _("Background service failing: %(failure)s.", failure=failure))
    if health.damages:
        text = ngettext(
            "%(num)s damaged place found at the start and set aside.",
            "%(num)s damaged places found at the start and set aside.",
            len(health.damages),
        )
        yield _of_engine("log", 88, text)
    for name, warning in health.warnings.items():
        if name != "damage":
            yield _of_engine(name, 55, f"{warning}.")


def disk(free_bytes: int | None, min_bytes: int | None) -> Iterator[Concern]:
    """A disk that is full or nearly full; nothing if its free space is unknown."""
    if free_bytes is None or min_bytes is None or free_bytes >= DISK_WARNING_FACTOR * min_bytes:
        return
    weight, text = 55, N_("Filling up: %(free)s free. Below %(needed)s writes are refused.")
    if free_bytes < min_bytes:
        weight = 100
        text = N_("Full: writes are refused. %(free)s free, at least %(needed)s needed.")
    free, needed = formats.size(free_bytes), formats.size(min_bytes)
    yield _of_broker("disk", weight, _(text, free=free, needed=needed))


def traces_and_transactions(watch: Watch) -> Iterator[Concern]:
    """Traces that are not recorded, dropped trace events, and transactions that were given up."""
    if watch.traces_refusal:
        text = _("Traces are not recorded: %(reason)s.", reason=watch.traces_refusal)
        yield _of_engine("traces", 72, text)
    if watch.traces_dropped:
        text = _(
            "%(count)s trace events dropped since the start: the journeys of those messages have "
            "gaps.",
            count=formats.count(watch.traces_dropped),
        )
        yield _of_engine("traces", 35, text)
    if watch.given_up:
        text = ngettext(
            "%(num)s transaction needs a decision. Its producer never answered.",
            "%(num)s transactions need a decision. Their producers never answered.",
            watch.given_up,
        )
        yield _of_broker("transactions", 78, text, "/transactions?kind=given_up", _("Decide"))


def _of_engine(name: str, weight: int, text: str) -> Concern:
    if name == "cluster" or name.startswith("broker "):  # as the health of a cluster names them
        sentence = Sentence(text, "/brokers", _("View brokers"))
        return Concern(Thing("cluster", name), weight, lambda: sentence)
    return _of_broker(name, weight, text, "/engine", _("View engine"))


def _of_broker(name: str, weight: int, text: str, href: str = "", action: str = "") -> Concern:
    return Concern(Thing("broker", name), weight, lambda: Sentence(text, href, action))
