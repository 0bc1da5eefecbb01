"""What the search offers besides names: pages, and actions with the right that each takes."""

from dataclasses import dataclass

from app.security.access import Action, Kind
from app.ui.framework.language import N_


@dataclass(frozen=True)
class Destination:
    """A page or an action; `terms` are further words by which it is found.

    `action` and `kind` are the right that it needs, `capability` is what the engine has to be able
    to do. `preference` is a choice of this browser, as
    "theme=dark", that a script makes instead of opening the page.
    """

    title: str
    href: str
    icon: str
    terms: str = ""
    action: Action = Action.READ
    kind: Kind = Kind.OWN
    preference: str = ""
    capability: str = ""


@dataclass(frozen=True)
class ObjectAction:
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
    capability: str = ""  # that the engine has to have


PLACES = (
    Destination(N_("Overview"), "/", "overview", "start home attention"),
    Destination(N_("Topics"), "/topics", "topic"),
    Destination(N_("Groups"), "/groups", "group", "consumers lag"),
    Destination(N_("Messages"), "/messages", "message", "search find key body"),
    Destination(N_("Live tail"), "/tail", "pulse", "follow watch"),
    Destination(N_("Dead letters"), "/dlq", "skull", "dlq failed"),
    Destination(N_("Jobs"), "/jobs", "send", "replay resend", capability="dead_letter_replays"),
    Destination(N_("Journeys"), "/trace", "journey", "trace waterfall", capability="journeys"),
    Destination(
        N_("Scheduled"), "/scheduled", "clock", "delayed timer recall", capability="scheduled_list"
    ),
    Destination(
        N_("Transactions"),
        "/transactions",
        "handshake",
        "half commit rollback",
        capability="transaction_queries",
    ),
    Destination(N_("Find"), "/search", "search", "message id"),
    Destination(N_("Alerts"), "/alerts", "alert", "rules silence webhook"),
    Destination(
        N_("Reports"),
        "/reports",
        "trend",
        "spark latency percentiles throughput skew",
        capability="reports",
    ),
    Destination(N_("Clients"), "/clients", "plug", "connections members producers"),
    Destination(N_("Settings"), "/settings", "edit", "theme zone refresh colours language"),
    Destination(
        N_("Engine"),
        "/engine",
        "disk",
        "health disk self-checks support bundle settings",
        capability="log_figures",
    ),
    Destination(
        N_("Brokers"), "/brokers", "disk", "cluster master slaves nodes", capability="brokers"
    ),
    Destination(
        N_("Read-only, log levels"), "/engine/control", "lock", "freeze switch debug logger"
    ),
    Destination(N_("Audit"), "/audit", "list", "trail who changed refused", kind=Kind.AUDIT),
    Destination(N_("Access"), "/access", "lock", "users tokens roles rights"),
    Destination(N_("Saved views"), "/views", "list", "filters"),
    Destination(N_("Help"), "/help", "info", "glossary words terms keys shortcuts documentation"),
    Destination(
        N_("Getting started"), "/help/start", "send", "first message example tutorial guide"
    ),
    Destination("API", "/docs/api", "code", "rest openapi"),
)
CHANGE = Action.ADMINISTER
ACTIONS = (
    Destination(N_("Create topic"), "/create/topic", "plus", "new add", CHANGE, Kind.TOPIC),
    Destination(
        N_("Import topics"), "/import/topics", "download", "definitions", CHANGE, Kind.TOPIC
    ),
    Destination(N_("New alert rule"), "/alerts/new", "plus", "create watch", CHANGE, Kind.SERVER),
    Destination(
        N_("New receiver"),
        "/alerts/receivers/new",
        "plus",
        "create webhook mail email slack teams alert",
        CHANGE,
        Kind.SERVER,
    ),
    Destination(
        N_("New replay job"),
        "/create/job",
        "plus",
        "create resend",
        CHANGE,
        Kind.TOPIC,
        capability="dead_letter_replays",
    ),
    Destination(N_("Reset offsets of a group"), "/groups", "back", "skip seek", CHANGE, Kind.GROUP),
    Destination(N_("Pause or resume a group"), "/groups", "group", "stop", CHANGE, Kind.GROUP),
    Destination(
        N_("Produce a message"), "/topics", "send", "send publish", Action.PRODUCE, Kind.TOPIC
    ),
    Destination(
        N_("Switch to dark theme"), "/settings", "edit", "colours mode", preference="theme=dark"
    ),
    Destination(
        N_("Switch to light theme"), "/settings", "edit", "colours mode", preference="theme=light"
    ),
)
OBJECT_ACTIONS = (
    ObjectAction(
        N_("Produce to %(name)s"), "/topics/{}/produce", "send",
        "produce send publish message", Action.PRODUCE, Kind.TOPIC, is_offered=True,
    ),
    ObjectAction(
        N_("Messages of %(name)s"), "/topics/{}/messages", "message",
        "messages browse newest", Action.READ, Kind.TOPIC,
    ),
    ObjectAction(
        N_("Settings of topic %(name)s"), "/topics/{}/config", "edit",
        "settings config queues topic change", CHANGE, Kind.TOPIC,
    ),
    ObjectAction(
        N_("Purge %(name)s"), "/topics/{}/purge", "purge",
        "purge empty clear", CHANGE, Kind.TOPIC, capability="purges",
    ),
    ObjectAction(
        N_("Delete topic %(name)s"), "/topics/{}/delete", "trash",
        "delete remove topic", CHANGE, Kind.TOPIC,
    ),
    ObjectAction(
        N_("Reset offsets of %(name)s"), "/groups/{}/offsets", "back",
        "reset offsets skip seek rewind", CHANGE, Kind.GROUP, is_offered=True,
    ),
    ObjectAction(
        N_("Pause %(name)s"), "/groups/{}/pause", "group",
        "pause stop group", CHANGE, Kind.GROUP, for_paused=False,
    ),
    ObjectAction(
        N_("Resume %(name)s"), "/groups/{}/resume", "group",
        "resume continue group", CHANGE, Kind.GROUP, for_paused=True,
    ),
    ObjectAction(
        N_("Clients of %(name)s"), "/groups/{}/clients", "plug",
        "clients members consumers", Action.READ, Kind.GROUP,
    ),
    ObjectAction(
        N_("Dead letters of %(name)s"), "/dlq/{}", "skull",
        "dead letters dlq failed errors resend", Action.READ, Kind.GROUP,
    ),
    ObjectAction(
        N_("Settings of group %(name)s"), "/groups/{}/config", "edit",
        "settings config retries group change", CHANGE, Kind.GROUP,
    ),
    ObjectAction(
        N_("Delete group %(name)s"), "/groups/{}/delete", "trash",
        "delete remove group", CHANGE, Kind.GROUP,
    ),
)  # fmt: skip
