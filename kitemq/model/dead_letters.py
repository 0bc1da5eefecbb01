"""Dead letters of a group: what they died of, sending them again, and letting them rest."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from kitemq.model.messages import Filter, MessageView
from kitemq.model.replays import (
    DryRun,
    ErrorClass,
    ErrorText,
    Failures,
    FreshOnly,
    LastClient,
    OriginTopic,
    Rate,
    Reason,
    ReplayTo,
    TimeLimit,
    WithDismissed,
)
from kitemq.model.values import Int64, OffsetText

DeadOffsets = Annotated[list[OffsetText], Meta(max_length=10_000)]


class DeadLetterCut(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Conditions on dead letters, all of which have to hold; what is left out holds for any."""

    from_ms: TimeLimit = 0
    to_ms: TimeLimit = 0
    filter: Filter = "*"
    reason: Reason = ""
    topic: OriginTopic = ""
    error_class: ErrorClass = ""
    error: ErrorText = ""
    client: LastClient = ""
    failures: Failures = None


class DismissalNote(msgspec.Struct, frozen=True):
    """A dismissal: its author, time and note."""

    id: str
    note: str
    by: str
    at_ms: int


class DeadLetterInfo(msgspec.Struct, frozen=True):
    """A dead letter with its cause, and what was done about it.

    A new field is one here and one of the engine's `DeadLetter`: REST, the SDK and the JSON of the
    command line have it then.
    """

    message: MessageView
    offset: Annotated[
        Int64, Meta(description="Its number among its group's, by which requests name it.")
    ]
    reason: Annotated[str, Meta(description="attempts_exhausted, rejected …")]
    error: Annotated[str, Meta(description="What its consumer said last.")]
    client: Annotated[str, Meta(description="Which client had it last.")]
    failures: Annotated[int, Meta(description="How often its delivery failed.")]
    died_ms: int
    origin_topic: str
    origin_id: Annotated[str, Meta(description="Offset id of the record that was first sent.")]
    state: Annotated[str, Meta(description="open, resent or dismissed.")]
    error_class: Annotated[
        str, Meta(description="The class that the error begins with; empty where it names none.")
    ]
    redriven_by: Annotated[
        list[str], Meta(description="Replay jobs that sent it again from here, oldest first.")
    ]
    redriven_from: Annotated[
        str, Meta(description="The replay job after which it came back dead; else empty.")
    ]
    redrive_count: Annotated[
        int, Meta(description="How many replay jobs had sent it before it died.")
    ]
    dismissed: Annotated[
        DismissalNote | None, Meta(description="Who dismissed it, when and why; null for nobody.")
    ]


class DeadLetterList(msgspec.Struct, frozen=True):
    """Dead letters, the newest first; may be short although there is a next page.

    `total` counts all of the group, without conditions.
    """

    items: list[DeadLetterInfo]
    next_cursor: str | None
    total: int


class DeadLetterCounts(msgspec.Struct, frozen=True):
    """Counts over the newest `examined` of a group's `total` dead letters."""

    total: int
    examined: int
    states: Annotated[dict[str, int], Meta(description="All of the group, by state.")]
    reasons: dict[str, int]
    error_classes: Annotated[dict[str, int], Meta(description="By the class of the error.")]
    topics: dict[str, int]
    clients: dict[str, int]
    redriven: Annotated[int, Meta(description="How many of them were sent again.")]
    returned: Annotated[int, Meta(description="How many had been sent again before they died.")]
    dismissed: Annotated[int, Meta(description="How many of them are dismissed.")]


class Redrive(DeadLetterCut, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The dead letters to replay, and the target. Without any choice, all of them."""

    to: Annotated[
        ReplayTo,
        Meta(description="group: only this group, others did not fail; or origin, or topic."),
    ] = ReplayTo.GROUP
    to_name: Annotated[str, Meta(description="The topic, or another group.")] = ""
    name: Annotated[str, Meta(max_length=200)] = ""
    offsets: DeadOffsets = []
    state: Annotated[
        Literal["open", "resent", "dismissed"] | None,
        Meta(description="Only those in this state; else all but the dismissed ones."),
    ] = None
    fresh_only: FreshOnly = False
    with_dismissed: WithDismissed = False
    rate: Rate = 100.0
    dry_run: DryRun = False


class Dismiss(
    DeadLetterCut, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True
):
    """The dead letters to dismiss, and the note. Without any choice, all of them."""

    note: Annotated[str, Meta(max_length=500, description="Why nothing is to be done; one line.")]
    offsets: DeadOffsets = []
    expected: (
        Annotated[int, Meta(ge=0, description="Refuse (409) where not so many would be dismissed.")]
        | None
    ) = None
    dry_run: Annotated[bool, Meta(description="Count, and change nothing.")] = False


class Restore(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The dead letters to restore: `offsets`, a dismissal, or `all`."""

    offsets: DeadOffsets = []
    dismissal: Annotated[str, Meta(max_length=60, description="The id of a dismissal.")] = ""
    all: Annotated[bool, Meta(description="All that were dismissed.")] = False


class DismissAnswer(msgspec.Struct, frozen=True):
    """`count` rest from now on (would, in a dry run), `already` did."""

    id: Annotated[str, Meta(description="Of the dismissal; empty where nothing changed.")]
    count: int
    already: int


class RestoreAnswer(msgspec.Struct, frozen=True):
    """The number of restored dead letters."""

    count: int


class Dismissal(DismissalNote, frozen=True):
    """A dismissal, as far as it still applies."""

    count: int


class DismissalList(msgspec.Struct, frozen=True):
    """The newest dismissals of a group; of all of them, `total`, `dismissed` letters rest."""

    items: list[Dismissal]
    total: int
    dismissed: int
