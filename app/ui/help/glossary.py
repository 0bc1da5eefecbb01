"""The glossary of RocketMQ and this console.

A text is one or two sentences. `href` leads to the page where the thing is; the slug is the
anchor on /help, and never changes.
"""

from dataclasses import dataclass

from app.ui.framework.language import N_


@dataclass(frozen=True)
class Term:
    """A term; `name` and `text` are marked for translation."""

    slug: str
    name: str
    text: str
    href: str


@dataclass(frozen=True)
class Chapter:
    """A chapter of related terms."""

    slug: str
    title: str
    terms: tuple[Term, ...]


MESSAGES = (
    Term(
        "message",
        N_("Message"),
        N_(
            "A body of bytes with properties, sent to a topic. It never changes once it is stored, "
            "and stays until retention takes it, read or not."
        ),
        "/messages",
    ),
    Term(
        "topic",
        N_("Topic"),
        N_("The name that messages are sent to and read from. Its type says what it takes."),
        "/topics",
    ),
    Term(
        "queue",
        N_("Queue"),
        N_(
            "A part of a topic in which messages have an order and an offset. More queues let more "
            "consumers of a group work side by side."
        ),
        "/topics",
    ),
    Term(
        "tag",
        N_("Tag"),
        N_("One word on a message by which groups choose what they read of a topic."),
        "/messages",
    ),
    Term(
        "key",
        N_("Key"),
        N_("A word of your own, as an order's number, by which a message can be found again."),
        "/search",
    ),
    Term(
        "message-group",
        N_("Message group"),
        N_(
            "To an ordered consumer group the messages of one message group are handed out in "
            "their order, one after the other; others do not wait for them. RocketMQ 4 calls it "
            "the sharding key."
        ),
        "/topics?type=FIFO",
    ),
    Term(
        "system-property",
        N_("System property"),
        N_(
            "A property that the server or a client library sets, in capitals, as KEYS or "
            "UNIQ_KEY; those of your own stand beside them on a message's page."
        ),
        "/messages",
    ),
    Term(
        "filter",
        N_("Filter (subscription expression)"),
        N_(
            "What a group reads of a topic: tags, as in paid || refunded, or an SQL92 expression "
            "over properties. All members of a group have to use the same."
        ),
        "/groups",
    ),
    Term(
        "commit-log",
        N_("Commit log"),
        N_("The files in which every message of every topic is stored, in the order of arrival."),
        "/engine",
    ),
    Term(
        "durability",
        N_("Stored and flushed"),
        N_(
            "What a send may rely on: stored survives the end of the process, flushed survives a "
            "power cut too."
        ),
        "/engine",
    ),
    Term(
        "retention",
        N_("Retention"),
        N_("How long messages are kept, by age, size and room on the disk; then files go."),
        "/engine",
    ),
)
CONSUMING = (
    Term(
        "group",
        N_("Consumer group"),
        N_(
            "Consumers that share the work: each message goes to one of them. Another group reads "
            "the same messages for itself."
        ),
        "/groups",
    ),
    Term(
        "member",
        N_("Member (client)"),
        N_(
            "One consumer of a group, known by its client id for as long as it gives signs of life."
        ),
        "/clients",
    ),
    Term(
        "clustering",
        N_("Clustering and broadcasting"),
        N_(
            "In clustering the members of a group share the messages; in broadcasting each member "
            "gets all of them and keeps its own place."
        ),
        "/groups",
    ),
    Term(
        "rebalance",
        N_("Rebalance"),
        N_("Queues are shared out anew when a member comes or goes; until then some wait."),
        "/groups",
    ),
    Term(
        "broker-offset",
        N_("Broker offset"),
        N_("Where a queue ends: the offset that the next message in it will get."),
        "/topics",
    ),
    Term(
        "consumer-offset",
        N_("Consumer offset"),
        N_("Where a group goes on in a queue: everything before it is done."),
        "/groups",
    ),
    Term(
        "lag",
        N_("Lag (unread)"),
        N_(
            "What a group has still to do: broker offset less consumer offset, what is in flight "
            "included. As a time: how old the oldest of it is."
        ),
        "/groups?sort=-lag",
    ),
    Term(
        "pop",
        N_("POP and receipt handle"),
        N_(
            "The server hands out single messages, each with a receipt handle that acknowledges or "
            "gives back just this hand-out. The client keeps no offsets."
        ),
        "/groups",
    ),
    Term(
        "invisible-time",
        N_("Invisible time"),
        N_(
            "For so long a handed-out message is not given to anybody else. Without an answer it "
            "comes back, one attempt later."
        ),
        "/groups",
    ),
    Term(
        "in-flight",
        N_("In flight"),
        N_("Handed out and not answered yet, within the invisible time."),
        "/groups",
    ),
    Term(
        "acknowledge",
        N_("Acknowledge"),
        N_("A consumer says that a message is done; the group never gets it again."),
        "/groups",
    ),
)
FAILING = (
    Term(
        "retry-topic",
        N_("Retry topic"),
        N_(
            "%RETRY% and the group's name: where a message waits that the group could not process, "
            "each time a little longer."
        ),
        "/topics?type=RETRY",
    ),
    Term(
        "dead-letter",
        N_("Dead letter"),
        N_(
            "A message that failed at every attempt, in %DLQ% and the group's name, with its "
            "reason. It waits for somebody to send it again or to dismiss it."
        ),
        "/dlq",
    ),
    Term(
        "replay",
        N_("Replay job"),
        N_(
            "Sends chosen messages again, after a dry run, at a pace, with one outcome for each; "
            "it goes on after a crash."
        ),
        "/jobs",
    ),
    Term(
        "reset",
        N_("Reset of offsets"),
        N_(
            "Moves a group to another place in its queues, to read again or to skip. It is shown "
            "before it is done, and can be undone."
        ),
        "/groups",
    ),
    Term(
        "delay-level",
        N_("Delay level"),
        N_("One of 18 fixed waits from 1 s to 2 h, after which a message is delivered."),
        "/scheduled",
    ),
    Term(
        "scheduled",
        N_("Scheduled message"),
        N_("A message with an exact time of delivery; until then it can be recalled or moved."),
        "/scheduled",
    ),
    Term(
        "half-message",
        N_("Half message"),
        N_(
            "The first half of a transaction: stored, and seen by nobody until its producer "
            "commits it. A rolled-back one is never delivered."
        ),
        "/transactions",
    ),
    Term(
        "check",
        N_("Transaction check"),
        N_(
            "The server asks a producer group what became of a half message it heard nothing of; "
            "after some questions it gives up."
        ),
        "/transactions",
    ),
)
WATCHING = (
    Term(
        "journey",
        N_("Journey (trace)"),
        N_(
            "Everything that happened to one message: stored, each delivery with client and "
            "outcome, retries, dead letter, replay."
        ),
        "/trace",
    ),
    Term(
        "alert",
        N_("Alert rule"),
        N_(
            "A figure and a limit, watched all the time. It is pending until it lasted long "
            "enough, then it fires and webhooks are told."
        ),
        "/alerts",
    ),
    Term(
        "audit",
        N_("Audit trail"),
        N_("Who changed what, with before and after, and what was refused. Nobody can edit it."),
        "/audit",
    ),
    Term(
        "pattern",
        N_("Right and pattern"),
        N_(
            "A right is an action on a kind of thing, as produce:topic. An operator has it for the "
            "names that a pattern covers, as produce:topic:orders-*."
        ),
        "/access",
    ),
    Term(
        "token",
        N_("Token and access key"),
        N_(
            "What a program shows instead of a password. The same token is also a pair of access "
            "key and secret for RocketMQ 5 clients."
        ),
        "/access",
    ),
    Term(
        "read-only",
        N_("Read-only"),
        N_("Every change is refused, whoever asks, until the switch or the setting is off."),
        "/engine/control",
    ),
)
CHAPTERS = (
    Chapter("messages", N_("Messages and where they lie"), MESSAGES),
    Chapter("consuming", N_("Reading"), CONSUMING),
    Chapter("failing", N_("Again, later, or not at all"), FAILING),
    Chapter("watching", N_("Watching and rights"), WATCHING),
)
TERMS = {term.slug: term for chapter in CHAPTERS for term in chapter.terms}
