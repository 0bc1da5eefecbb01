"""What becomes of new users and tokens before they are kept.

Pure: the server and the command line share it.
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


def made_token(
    name: str,
    owner: UserRow,
    role: Role,
    patterns: tuple[str, ...],
    *,
    days: int | None,
    now_ms: int,
) -> tuple[TokenRow, str]:
    """A token's row, and its secret, of which the row keeps only the hash.

    An admin's rights do not end at `patterns`. Without `days` it does not expire.
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


def checked_name(text: str) -> str:
    """A user's name as it is kept: lower case. Invalid for what is none."""
    name = text.strip().lower()
    if NAME.match(name) is None:
        raise Invalid(
            f"{text[:80]!r} is no name for a user",
            field="name",
            remedy="letters, digits and . _ @ -, at most 64, a letter or digit first",
        )
    return name


def checked_role(text: str) -> Role:
    if text not in set(Role):
        raise Invalid(f"{text[:40]!r} is no role", field="role", remedy=f"one of {', '.join(Role)}")
    return Role(text)


def patterns_for(role: Role, patterns: Sequence[str] | UnsetType) -> tuple[str, ...]:
    """The patterns to keep: an operator has all rights where none are named, a viewer reads all."""
    if patterns is not UNSET or role is Role.ADMIN:
        return parse_patterns(patterns or ())
    return EVERYWHERE if role is Role.OPERATOR else EVERY_MESSAGE
