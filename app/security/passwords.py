"""Passwords: argon2id on threads of its own, as one hash takes longer than the loop may wait.

A name without a user is checked as long as one with a user, but on a thread apart: made-up names
never take the turn of a user. While too many of them come, they wait as long as the last took.

Tokens and sessions are 32 random bytes, so that SHA-256 is all the hash they need.
"""

import asyncio
import hashlib
import os
import secrets
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, TypeVar

from app.security.hash_queue import HashQueue
from engine.errors import Invalid

if TYPE_CHECKING:
    from argon2 import PasswordHasher

T = TypeVar("T")

AT_ONCE = 2  # hashes of users' passwords
DECOYS_MAX = 4  # of names without a user: one at once, the others waiting
DECOY_WAIT_MAX_S = 2.0
NICE = 10  # the loop goes before the hashes, where the system counts threads apart
CHARS_MIN = 8
CHARS_MAX = 256
SECRET_BYTES = 32
TOKEN_PREFIX = "kite_"
PREFIX_CHARS = 11  # of a token: what lists may show of it


class Passwords:
    """Hashes and compares; refuses with Busy where too many wait already."""

    def __init__(self) -> None:
        self._pool = _threads(AT_ONCE, "kitemq-passwords")
        self._queue = HashQueue(AT_ONCE)
        self._decoy_pool = _threads(1, "kitemq-decoys")
        self._decoys = 0
        self._decoy_took_s = 0.0

    async def hash(self, password: str) -> str:
        """The hash to keep, its salt and parameters included."""
        async with self._queue.turn("", goes_first=True):
            return await _run(self._pool, lambda: hash_password(password))

    async def matches(
        self, password: str, kept: str, *, address: str = "", goes_first: bool = False
    ) -> bool:
        """Whether `password` is the one of `kept`; takes as long where `kept` is empty.

        `address` is where the password comes from, of which few wait at once; `goes_first` where
        its user is known there.
        """
        if not kept:
            await self._pretend(password)
            return False
        async with self._queue.turn(address, goes_first=goes_first):
            return await _run(self._pool, lambda: _matches(password, kept))

    def close(self) -> None:
        for pool in (self._pool, self._decoy_pool):
            pool.shutdown(wait=False, cancel_futures=True)

    async def _pretend(self, password: str) -> None:
        """Take as long as for a user, at one processor's cost at most."""
        if self._decoys >= DECOYS_MAX:
            await asyncio.sleep(min(self._decoy_took_s, DECOY_WAIT_MAX_S))
            return
        began_s = time.monotonic()
        self._decoys += 1
        try:
            await _run(self._decoy_pool, lambda: _matches(password, _nobodys_hash()))
        finally:
            self._decoys -= 1
            self._decoy_took_s = time.monotonic() - began_s


async def _run(pool: ThreadPoolExecutor, work: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(pool, work)


def _threads(count: int, name: str) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(count, thread_name_prefix=name, initializer=_go_last)


def _go_last() -> None:
    """Let the other threads of this process go before this one, as Linux counts them apart."""
    with suppress(OSError, AttributeError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)


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
