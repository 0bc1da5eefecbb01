"""Topics, their settings, and files of definitions."""

from enum import StrEnum
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from kitemq.model.values import QUEUES_MISSING, Int64, Milliseconds

IMPORT_CHARS_MAX = 4 * 2**20


class TopicType(StrEnum):
    """What a topic's messages may ask for: RocketMQ's `message.type` attribute."""

    NORMAL = "NORMAL"
    FIFO = "FIFO"
    DELAY = "DELAY"
    TRANSACTION = "TRANSACTION"


class Durability(StrEnum):
    """What "accepted" means.

    In the page cache (survives a killed process), on the disk (power loss), or on the disk and on
    a standby, too (the loss of the machine).
    """

    STORED = "stored"
    FLUSHED = "flushed"
    REPLICATED = "replicated"


Queues = Annotated[int, Meta(ge=1, le=1024)]
ReadQueues = Annotated[Queues, Meta(description="Queues that consumers read. Shrink them last.")]
WriteQueues = Annotated[
    Queues, Meta(description="Queues that get new messages. Shrink them first.")
]
Permission = Annotated[int, Meta(description="6 read and write, 4 read, 2 write, 0 neither")]
TopicDurability = Annotated[Durability | None, Meta(description="stored, flushed or replicated")]
RetentionMs = Annotated[
    int | None,
    Meta(
        description="How long its messages are kept; 0 is for good. Longer than the broker's keeps "
        "the log files of all topics for as long."
    ),
]
TraceSample = Annotated[
    Annotated[float, Meta(ge=0, le=1)] | None,
    Meta(description="Share of its messages whose hand-outs are traced, 0 to 1."),
]


class TopicSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What changes; what is left out stays. Shrink write queues first, drain, then read queues.

    A new setting is a field here and in `Topic`, and one of the engine's `TopicConfig`: REST, the
    SDK, the command line, imports and exports take their lists from here.
    """

    read_queues: ReadQueues | UnsetType = UNSET
    write_queues: WriteQueues | UnsetType = UNSET
    permission: Permission | UnsetType = UNSET
    durability: TopicDurability | UnsetType = UNSET
    retention_ms: RetentionMs | UnsetType = UNSET
    trace_sample: TraceSample | UnsetType = UNSET


SETTINGS = TopicSettings.__struct_fields__


class NewTopic(TopicSettings, frozen=True, kw_only=True):
    """A topic to be created. What is left out is the broker's default."""

    name: Annotated[str, Meta(description="Letters, digits, `_`, `-`, `%`, `|`; at most 127.")]
    type: TopicType = TopicType.NORMAL


class TopicDefinition(TopicSettings, frozen=True, kw_only=True):
    """A topic as a row of a file has it; what is left out stays, or is the default of a new one.

    `seen` is what a dry run saw of the topic: a row with it changes nothing else.
    """

    name: str
    type: TopicType | UnsetType = UNSET
    seen: str = ""


DEFINITION_COLUMNS = ("name", "type", *SETTINGS)
NULLABLE = frozenset({"durability", "retention_ms", "trace_sample"})  # null: the broker's default


class Topic(msgspec.Struct, frozen=True):
    """A topic's configuration. What is null is the broker's default."""

    name: str
    type: TopicType
    read_queues: ReadQueues
    write_queues: WriteQueues
    permission: Permission
    durability: TopicDurability
    retention_ms: RetentionMs
    trace_sample: TraceSample
    system: Annotated[bool, Meta(description="It is one of the engine's own.")]
    created_ms: Annotated[
        Milliseconds | None, Meta(description="Null where the engine keeps no time of creation.")
    ]


class QueueStats(msgspec.Struct, frozen=True):
    """One queue: the offsets it keeps, and when its last message was stored."""

    queue: int
    min_offset: Int64
    max_offset: Annotated[Int64, Meta(description="The offset that the next message gets.")]
    last_stored_ms: Milliseconds | None


class TopicDetail(Topic, frozen=True):
    """A topic with its queues, of the brokers that are there."""

    messages: Annotated[int | None, Meta(description="Null while a queue is missing.")]
    queues: list[QueueStats]
    unknown: Annotated[str, Meta(description=QUEUES_MISSING)] = ""


class TopicPage(msgspec.Struct, frozen=True):
    """A page of topics by name; `total` counts all that match."""

    items: list[Topic]
    next_cursor: str | None
    total: int


class TopicImportFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of definitions as text."""

    content: Annotated[
        str,
        Meta(
            max_length=IMPORT_CHARS_MAX,
            description="CSV with a head, a JSON list, a page of `GET /api/v1/topics`, or JSON "
            f"lines; at most 10,000 rows. Columns: {', '.join(DEFINITION_COLUMNS)} (or topic for "
            "name); figures that lists show beside them are passed over. What is left out stays, "
            "an empty durability, retention_ms or trace_sample is the broker's default. A row with "
            "the `seen` of a dry run does just what that showed, or nothing.",
        ),
    ]
    format: Annotated[
        Literal["", "csv", "json"], Meta(description="Without it the first letter tells.")
    ] = ""
    dry_run: Annotated[bool, Meta(description="Only say what would become of each row.")] = False


class SettingChange(msgspec.Struct, frozen=True):
    """A setting before and after; `""` before for a new topic, null for the broker's default."""

    field: str
    before: str | int | float | None
    after: str | int | float | None


class ImportedTopic(msgspec.Struct, frozen=True):
    """A row of the file, counted from 1, and what becomes of it.

    Refused and failed ones name the column, say why, and what helps.
    """

    number: int
    topic: str
    outcome: Annotated[
        str,
        Meta(
            description="In a dry run create, change, same or refused; else created, changed, "
            "same, refused or failed; unreached where 20 seconds were over."
        ),
    ]
    changes: list[SettingChange]
    field: str
    detail: str
    remedy: str
    seen: Annotated[str, Meta(description="What a dry run saw of the topic.")]


class ImportedTopics(msgspec.Struct, frozen=True):
    """All rows in the order of the file, and how many have which outcome."""

    dry_run: bool
    counts: dict[str, int]
    rows: list[ImportedTopic]
