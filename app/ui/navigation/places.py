"""What the search offers besides names: pages, and actions with the right that each takes."""

from dataclasses import dataclass

from app.security.access import Action, Kind
from app.ui.framework.language import N_


@dataclass(frozen=True)
class Place:
    """A page or an action; `terms` are further words by which it is found.

    `action` and `kind` are the right that it needs. `preference` is a choice of this browser, as
    "theme=dark", that a script makes instead of opening the page.
    """

    title: str
    href: str
    icon: str
    terms: str = ""
    action: Action = Action.READ
    kind: Kind = Kind.OWN
    preference: str = ""


@dataclass(frozen=True)
class Deed:
    """What can be done to one topic or group, whose name replaces "{}" in the address.

    `terms` are the words by which it is asked for. It `is_offered` also with a name that was
    searched for alone. `for_paused` groups only, or for none of them; None is for all.
    """

    title: str
    href: str
    icon: str
    terms: str
    action: Action
    kind: Kind
    is_offered: bool = False
    for_paused: bool | None = None


PLACES = (
    Place(N_("Overview"), "/", "overview", "start home attention"),
    Place(N_("Topics"), "/topics", "topic"),
    Place(N_("Groups"), "/groups", "group", "consumers lag"),
    Place(N_("Messages"), "/messages", "message", "search find key body"),
    Place(N_("Live tail"), "/tail", "pulse", "follow watch"),
    Place(N_("Dead letters"), "/dlq", "skull", "dlq failed"),
    Place(N_("Jobs"), "/jobs", "send", "replay resend"),
    Place(N_("Journeys"), "/trace", "journey", "trace waterfall"),
    Place(N_("Scheduled"), "/scheduled", "clock", "delayed timer recall"),
    Place(N_("Transactions"), "/transactions", "handshake", "half commit rollback"),
    Place(N_("Find"), "/search", "search", "message id"),
    Place(N_("Alerts"), "/alerts", "alert", "rules silence webhook"),
    Place(N_("Reports"), "/reports", "trend", "spark latency percentiles throughput skew"),
    Place(N_("Clients"), "/clients", "plug", "connections members producers"),
    Place(N_("Settings"), "/settings", "edit", "theme zone refresh colours language"),
    Place(N_("Engine"), "/engine", "disk", "health disk self-checks support bundle settings"),
    Place(N_("Read-only, log levels"), "/engine/control", "lock", "freeze switch debug logger"),
    Place(N_("Audit"), "/audit", "list", "trail who changed refused", kind=Kind.AUDIT),
    Place(N_("Access"), "/access", "lock", "users tokens roles rights"),
    Place(N_("Saved views"), "/views", "list", "filters"),
    Place(N_("Help"), "/help", "info", "glossary words terms keys shortcuts documentation"),
    Place("API", "/docs/api", "code", "rest openapi"),
)
CHANGE = Action.ADMINISTER
ACTIONS = (
    Place(N_("Create topic"), "/create/topic", "plus", "new add", CHANGE, Kind.TOPIC),
    Place(N_("Import topics"), "/import/topics", "download", "definitions", CHANGE, Kind.TOPIC),
    Place(N_("New alert rule"), "/alerts/new", "plus", "create watch", CHANGE, Kind.SERVER),
    Place(N_("New replay job"), "/create/job", "plus", "create resend", CHANGE, Kind.TOPIC),
    Place(N_("Reset offsets of a group"), "/groups", "back", "skip seek", CHANGE, Kind.GROUP),
    Place(N_("Pause or resume a group"), "/groups", "group", "stop", CHANGE, Kind.GROUP),
    Place(N_("Produce a message"), "/topics", "send", "send publish", Action.PRODUCE, Kind.TOPIC),
    Place(N_("Switch to dark theme"), "/settings", "edit", "colours mode", preference="theme=dark"),
    Place(
        N_("Switch to light theme"), "/settings", "edit", "colours mode", preference="theme=light"
    ),
)
DEEDS = (
    Deed(
        N_("Produce to %(name)s"), "/topics/{}/produce", "send",
        "produce send publish message", Action.PRODUCE, Kind.TOPIC, is_offered=True,
    ),
    Deed(
        N_("Messages of %(name)s"), "/topics/{}/messages", "message",
        "messages browse newest", Action.READ, Kind.TOPIC,
    ),
    Deed(
        N_("Settings of topic %(name)s"), "/topics/{}/config", "edit",
        "settings config queues topic change", CHANGE, Kind.TOPIC,
    ),
    Deed(
        N_("Purge %(name)s"), "/topics/{}/purge", "purge",
        "purge empty clear", CHANGE, Kind.TOPIC,
    ),
    Deed(
        N_("Delete topic %(name)s"), "/topics/{}/delete", "trash",
        "delete remove topic", CHANGE, Kind.TOPIC,
    ),
    Deed(
        N_("Reset offsets of %(name)s"), "/groups/{}/offsets", "back",
        "reset offsets skip seek rewind", CHANGE, Kind.GROUP, is_offered=True,
    ),
    Deed(
        N_("Pause %(name)s"), "/groups/{}/pause", "group",
        "pause stop group", CHANGE, Kind.GROUP, for_paused=False,
    ),
    Deed(
        N_("Resume %(name)s"), "/groups/{}/resume", "group",
        "resume continue group", CHANGE, Kind.GROUP, for_paused=True,
    ),
    Deed(
        N_("Clients of %(name)s"), "/groups/{}/clients", "plug",
        "clients members consumers", Action.READ, Kind.GROUP,
    ),
    Deed(
        N_("Dead letters of %(name)s"), "/dlq/{}", "skull",
        "dead letters dlq failed errors resend", Action.READ, Kind.GROUP,
    ),
    Deed(
        N_("Settings of group %(name)s"), "/groups/{}/config", "edit",
        "settings config retries group change", CHANGE, Kind.GROUP,
    ),
    Deed(
        N_("Delete group %(name)s"), "/groups/{}/delete", "trash",
        "delete remove group", CHANGE, Kind.GROUP,
    ),
)  # fmt: skip
