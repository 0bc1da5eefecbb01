"""Passwords: argon2id on threads of its own, as one hash takes longer than the loop may wait.

Tokens and sessions are 32 random bytes, so that SHA-256 is all the hash they need.
"""

import asyncio
import hashlib
import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING, TypeVar

from engine.errors import Busy, Invalid

if TYPE_CHECKING:
    from argon2 import PasswordHasher

T = TypeVar("T")

THREADS = 2
WAITING_MAX = 32  # each takes 64 MiB for a moment, and its turn
CHARS_MIN = 8
CHARS_MAX = 256
SECRET_BYTES = 32
TOKEN_PREFIX = "kite_"
PREFIX_CHARS = 11  # of a token: what lists may show of it


class Passwords:
    """Hashes and compares; refuses with Busy where too many wait already."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="kitemq-passwords")
        self._waiting = 0

    async def hash(self, password: str) -> str:
        """The hash to keep, its salt and parameters included."""
        return await self._run(lambda: hash_password(password))

    async def matches(self, password: str, kept: str) -> bool:
        """Whether `password` is the one of `kept`; takes as long where `kept` is empty."""
        return await self._run(lambda: _matches(password, kept or _nobodys_hash()))

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def _run(self, work: Callable[[], T]) -> T:
        if self._waiting >= WAITING_MAX:
            raise Busy("too many passwords are being checked", remedy="try again in a moment")
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, work)
        finally:
            self._waiting -= 1


def check_password(password: str) -> None:
    """Raise Invalid for one that is too short, or too long to be hashed."""
    if not CHARS_MIN <= len(password) <= CHARS_MAX:
        raise Invalid(
            f"a password has {CHARS_MIN} to {CHARS_MAX} characters",
            field="password",
            remedy="choose another",
        )


def hash_password(password: str) -> str:
    """As `Passwords.hash`, right here: for the command line, which may wait."""
    return _hasher().hash(password)


def new_token() -> str:
    """A token nobody can guess; its prefix makes it findable where it was lost."""
    return TOKEN_PREFIX + secrets.token_urlsafe(SECRET_BYTES)


def new_session() -> str:
    return secrets.token_urlsafe(SECRET_BYTES)


def hash_secret(secret: str) -> str:
    """What is kept of a token or a session."""
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()


@cache
def _hasher() -> "PasswordHasher":
    from argon2 import PasswordHasher  # only where somebody logs in

    return PasswordHasher()


@cache
def _nobodys_hash() -> str:
    return hash_password(secrets.token_urlsafe(SECRET_BYTES))


def _matches(password: str, kept: str) -> bool:
    from argon2.exceptions import InvalidHashError, VerificationError

    try:
        return _hasher().verify(kept, password[: CHARS_MAX + 1])
    except (VerificationError, InvalidHashError):
        return False
