"""Validation of new users and tokens. Pure.


The server and the command line share it.
"""

import re
from collections.abc import Sequence

from msgspec import UNSET, UnsetType

from app.db.rows import TokenRow, UserRow
from app.security.access import Role, parse_patterns
from app.security.passwords import PREFIX_CHARS, hash_secret, new_token
from engine.errors import Invalid

NAME = re.compile(r"[a-z0-9][a-z0-9._@-]{0,63}\Z")
TOKEN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@ -]{0,63}\Z")
EVERYWHERE = ("*:*:*",)
EVERY_MESSAGE = ("read_messages:*:*",)  # what a viewer may do by patterns, and has at first
DAY_MS = 24 * 3600 * 1000
DAYS_MAX = 3650


def create_token(
    name: str,
    owner: UserRow,
    role: Role,
    patterns: tuple[str, ...],
    *,
    days: int | None,
    now_ms: int,
) -> tuple[TokenRow, str]:
    """A token's row, and its secret, of which the row has only the hash.

    `patterns` do not limit an admin. Without `days` the token does not expire.
    """
    secret = new_token()
    row = TokenRow(
        name=name,
        prefix=secret[:PREFIX_CHARS],
        secret_hash=hash_secret(secret),
        user_id=owner.id,
        role=role,
        patterns=() if role is Role.ADMIN else patterns,
        created_ms=now_ms,
        expires_ms=None if days is None else now_ms + days * DAY_MS,
    )
    return row, secret


def parse_name(text: str) -> str:
    """A user's name in lower case; raises Invalid."""
    name = text.strip().lower()
    if NAME.match(name) is None:
        raise Invalid(
            f"{text[:80]!r} is no name for a user",
            field="name",
            remedy="letters, digits and . _ @ -, at most 64, a letter or digit first",
        )
    return name


def parse_role(text: str) -> Role:
    if text not in set(Role):
        raise Invalid(f"{text[:40]!r} is no role", field="role", remedy=f"one of {', '.join(Role)}")
    return Role(text)


def patterns_for(role: Role, patterns: Sequence[str] | UnsetType) -> tuple[str, ...]:
    """The patterns to store; by default an operator has all rights, a viewer reads all messages."""
    if patterns is not UNSET or role is Role.ADMIN:
        return parse_patterns(patterns or ())
    return EVERYWHERE if role is Role.OPERATOR else EVERY_MESSAGE
