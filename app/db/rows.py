"""Rows and the error of the database, without SQLAlchemy, which is slow to load.

The fields of a row are the columns of its table (`tables.py`); `Annotated[str, 64]` has at most 64
characters.
"""

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Annotated, TypeVar
from uuid import uuid4

import msgspec

from kitemq.model.access import UserSource

# The address of the current request, for its audit entries. Each endpoint sets it; work without a
# request, such as a scheduled run, has none.
CLIENT_ADDRESS: ContextVar[str] = ContextVar("client_address", default="")


DONE = "done"  # the result of a change that was made


class DatabaseError(Exception):
    """The database cannot be opened, or a call failed; the text says why."""


def json_text(value: object) -> str:
    """A value as JSON; "" for None."""
    return "" if value is None else msgspec.json.encode(value).decode()


@dataclass(frozen=True)
class Actor:
    """The user, token or address that makes a change; `request_id` links entry, log and answer."""

    name: str
    request_id: str = ""


def actor_at(name: str, request_id: str = "") -> Actor:
    """The actor `name` as authenticated: a user, a token, or an address."""
    return Actor(name[:255], (request_id or uuid4().hex)[:64])


@dataclass(frozen=True, kw_only=True)
class AuditEntry:
    """One change: its actor, action, object, values before and after, and result."""

    id: int = 0
    at_ms: int
    actor: Annotated[str, 255]
    action: Annotated[str, 64]
    object_kind: Annotated[str, 32]
    object_name: Annotated[str, 512]
    before_json: str = ""
    after_json: str = ""
    result: Annotated[str, 64] = DONE
    request_id: Annotated[str, 64] = ""
    address: Annotated[str, 64] = field(default_factory=CLIENT_ADDRESS.get)

    @classmethod
    def of(
        cls,
        actor: Actor,
        action: str,
        kind: str,
        name: str,
        *,
        at_ms: int,
        before_json: str = "",
        after_json: str = "",
        result: str = DONE,
    ) -> "AuditEntry":
        """The entry of a change that `actor` makes to an object."""
        return cls(
            at_ms=at_ms,
            actor=actor.name[:255],
            action=action,
            object_kind=kind,
            object_name=name[:512],
            before_json=before_json,
            after_json=after_json,
            result=result,
            request_id=actor.request_id[:64],
        )


@dataclass(frozen=True, kw_only=True)
class AuditFilter:
    """A filter of entries; empty and None fields match all.

    `name_part` may be anywhere in the object's name; `from_ms` is inclusive, `to_ms` exclusive.
    """

    object_kind: str = ""
    object_name: str = ""
    name_part: str = ""
    action: str = ""
    actor: str = ""
    result: str = ""
    request_id: str = ""
    address: str = ""
    from_ms: int | None = None
    to_ms: int | None = None


@dataclass(frozen=True, kw_only=True)
class AuditTally:
    """Counts over the newest `examined` entries, by field and value."""

    examined: int
    actions: Mapping[str, int]
    kinds: Mapping[str, int]
    results: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class UserRow:
    """A user with role and patterns."""

    id: int = 0
    name: Annotated[str, 64]
    password_hash: Annotated[str, 255] = field(repr=False)
    role: Annotated[str, 16]
    patterns: tuple[str, ...] = ()
    disabled: bool = False
    created_ms: int
    issuer: Annotated[str | None, 255] = (
        None  # with `subject`, the user at a provider; None for a local user
    )
    subject: Annotated[str | None, 255] = None

    @property
    def source(self) -> UserSource:
        """How this user is authenticated."""
        return UserSource.LOCAL if self.issuer is None else UserSource.OIDC

    def described(self) -> dict[str, object]:
        """The form in the audit trail, without the hash."""
        provider = {} if self.issuer is None else {"issuer": self.issuer, "subject": self.subject}
        return {
            "name": self.name,
            "role": self.role,
            "patterns": self.patterns,
            "disabled": self.disabled,
            **provider,
        }


@dataclass(frozen=True, kw_only=True)
class TokenRow:
    """A program's key to the server; `user_id` owns it."""

    id: int = 0
    name: Annotated[str, 64]
    prefix: Annotated[str, 16]
    secret_hash: Annotated[str, 64] = field(repr=False)
    user_id: int
    role: Annotated[str, 16]
    patterns: tuple[str, ...] = ()
    created_ms: int
    expires_ms: int | None = None
    used_ms: int | None = None

    def described(self) -> dict[str, object]:
        """The form in the audit trail, without the hash."""
        return {
            "name": self.name,
            "prefix": self.prefix,
            "role": self.role,
            "patterns": self.patterns,
            "expires_ms": self.expires_ms,
        }


@dataclass(frozen=True, kw_only=True)
class SessionRow:
    """One login of a user, in one browser."""

    id: int = 0
    secret_hash: Annotated[str, 64] = field(repr=False)
    user_id: int
    created_ms: int
    seen_ms: int
    expires_ms: int
    address: Annotated[str, 64]
    user_agent: Annotated[str, 255]


@dataclass(frozen=True)
class UserRows:
    """All users, tokens and sessions of one version."""

    version: int
    users: list[UserRow]
    tokens: list[TokenRow]
    sessions: list[SessionRow]


@dataclass(frozen=True, kw_only=True)
class ViewRow:
    """A page of the console with its filter, under a name of its owner."""

    id: int = 0
    owner: Annotated[str, 64]
    name: Annotated[str, 80]
    path: Annotated[str, 1024]
    query: Annotated[str, 2000]
    created_ms: int

    @property
    def href(self) -> str:
        """The URL of the view."""
        return f"{self.path}?{self.query}" if self.query else self.path


@dataclass(frozen=True, kw_only=True)
class TemplateRow:
    """The fields of the Produce form, under a name of their owner."""

    id: int = 0
    owner: Annotated[str, 64]
    name: Annotated[str, 80]
    topic: Annotated[str, 255]
    fields_json: str
    created_ms: int


# Rows of an owner, each with a name.
Owned = TypeVar("Owned", bound=ViewRow | TemplateRow)


@dataclass(frozen=True, kw_only=True)
class NoteRow:
    """The note of a topic, "" for none; `changed_ms` is its version."""

    topic: Annotated[str, 255]
    text: str = ""
    author: Annotated[str, 255] = ""
    changed_ms: int = 0


@dataclass(frozen=True, kw_only=True)
class JobRow:
    """A replay job at the time of the copy."""

    id: Annotated[str, 64]
    name: Annotated[str, 200]
    source: Annotated[str, 255]
    target: Annotated[str, 16]
    target_name: Annotated[str, 255]
    selection_json: str
    per_s: float
    dry_run: bool
    state: Annotated[str, 16]
    selected: int
    examined: int
    totals_json: str
    created_ms: int
    created_by: Annotated[str, 255]
    ended_ms: int | None
    last_error: str


@dataclass(frozen=True, kw_only=True)
class LeaseRow:
    """What one of the servers that share the database does for all: `owner`, until `until_ms`.

    `note` is what it lets the others know.
    """

    name: Annotated[str, 64]
    owner: Annotated[str, 64]
    until_ms: int
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class ClusterJobRow:
    """A replay job over messages of a cluster.

    `plan` and `outcomes` are MessagePack. `owner` runs the job until `lease_ms`; of the messages
    from `examined` on it may have sent `doubt` that are not among the outcomes yet. `version`
    changes with every change but those of the lease.
    """

    id: Annotated[str, 64]
    source: Annotated[str, 255]
    plan: bytes
    per_s: float
    dry_run: bool
    decided: Annotated[str, 16]
    outcomes: bytes
    examined: int
    doubt: int = 0
    ended_ms: int = 0
    last_error: str = ""
    waiting: str = ""
    owner: Annotated[str, 64] = ""
    lease_ms: int = 0
    version: int = 1


@dataclass(frozen=True, kw_only=True)
class LetterMarksRow:
    """What was resent and dismissed of a cluster's dead-letter topic, as MessagePack."""

    topic: Annotated[str, 255]
    version: int
    resent: bytes
    dismissed: bytes


@dataclass(frozen=True, kw_only=True)
class GroupResetsRow:
    """The resets of a cluster's group, as MessagePack."""

    group_name: Annotated[str, 255]
    version: int
    resets: bytes


@dataclass(frozen=True, kw_only=True)
class JobFilter:
    """A filter of jobs; empty and None fields match all. `to_ms` is exclusive."""

    source: str = ""
    state: str = ""
    created_by: str = ""
    from_ms: int | None = None
    to_ms: int | None = None
