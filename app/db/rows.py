"""What the database hands out and takes in, and its one error; without SQLAlchemy, which is slow
to load and not needed to be ready."""

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field

from kitemq.model.access import UserSource

# Where the request that is being answered came from, which its entries in the trail say as well.
# Each door sets it; what nobody asked for, as a schedule's run, came from nowhere.
ASKED_FROM: ContextVar[str] = ContextVar("asked_from", default="")


class DatabaseError(Exception):
    """The database cannot be opened, or did not do what was asked; the text says why."""


@dataclass(frozen=True, kw_only=True)
class AuditEntry:
    """One change: who, what, to which object, how it was before and after, how it ended."""

    id: int = 0
    at_ms: int
    actor: str
    action: str
    object_kind: str
    object_name: str
    before_json: str
    after_json: str
    result: str
    request_id: str
    address: str = field(default_factory=ASKED_FROM.get)


@dataclass(frozen=True, kw_only=True)
class AuditFilter:
    """Which entries are wanted; what is empty or None does not matter.

    `name_part` may stand anywhere in the object's name; `from_ms` is the first moment that counts,
    `to_ms` the first that does not.
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
    """What the newest `examined` entries have in common, by field and value."""

    examined: int
    actions: Mapping[str, int]
    kinds: Mapping[str, int]
    results: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class UserRow:
    """Who may log in, with which role, how far."""

    id: int = 0
    name: str
    password_hash: str = field(repr=False)
    role: str
    patterns: tuple[str, ...] = ()
    disabled: bool = False
    created_ms: int
    issuer: str | None = None  # with `subject`: who this is at a provider; None where local
    subject: str | None = None

    @property
    def source(self) -> UserSource:
        """Who vouches for this user."""
        return UserSource.LOCAL if self.issuer is None else UserSource.OIDC

    def described(self) -> dict[str, object]:
        """As the trail keeps it: without the hash."""
        known = {} if self.issuer is None else {"issuer": self.issuer, "subject": self.subject}
        return {
            "name": self.name,
            "role": self.role,
            "patterns": self.patterns,
            "disabled": self.disabled,
            **known,
        }


@dataclass(frozen=True, kw_only=True)
class TokenRow:
    """A program's key to the server; `user_id` owns it."""

    id: int = 0
    name: str
    prefix: str
    secret_hash: str = field(repr=False)
    user_id: int
    role: str
    patterns: tuple[str, ...] = ()
    created_ms: int
    expires_ms: int | None = None
    used_ms: int | None = None

    def described(self) -> dict[str, object]:
        """As the trail keeps it: without the hash."""
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
    secret_hash: str = field(repr=False)
    user_id: int
    created_ms: int
    seen_ms: int
    expires_ms: int
    address: str
    user_agent: str


@dataclass(frozen=True)
class PeopleRows:
    """Everybody at one moment."""

    version: int
    users: list[UserRow]
    tokens: list[TokenRow]
    sessions: list[SessionRow]
