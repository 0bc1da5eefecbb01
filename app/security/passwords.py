"""Hashes passwords with argon2id on threads of their own, off the event loop.

A name without a user takes as long as one with a user, but on another thread, so that made-up
names never delay users. If too many of them arrive, they sleep as long as the last hash took.

Tokens and sessions are 32 random bytes, for which SHA-256 is sufficient.
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
NICE = 10  # of the hashing threads, below the event loop's; Linux only
CHARS_MIN = 8
CHARS_MAX = 256
SECRET_BYTES = 32
TOKEN_PREFIX = "kite_"
PREFIX_CHARS = 11  # of a token, shown in lists


class Passwords:
    """Hashes and verifies passwords; raises Busy if too many are waiting."""

    def __init__(self) -> None:
        self._pool = _threads(AT_ONCE, "kitemq-passwords")
        self._queue = HashQueue(AT_ONCE)
        self._decoy_pool = _threads(1, "kitemq-decoys")
        self._decoys = 0
        self._decoy_took_s = 0.0

    async def hash(self, password: str) -> str:
        """The hash to store, with its salt and parameters."""
        async with self._queue.turn("", goes_first=True):
            return await _run(self._pool, lambda: hash_password(password))

    async def matches(
        self, password: str, password_hash: str, *, address: str = "", goes_first: bool = False
    ) -> bool:
        """Whether `password` matches the hash; takes as long for an empty hash.

        Few attempts of one `address` wait at once; `goes_first` puts this one before the others.
        """
        if not password_hash:
            await self._pretend(password)
            return False
        async with self._queue.turn(address, goes_first=goes_first):
            return await _run(self._pool, lambda: _matches(password, password_hash))

    def close(self) -> None:
        for pool in (self._pool, self._decoy_pool):
            pool.shutdown(wait=False, cancel_futures=True)

    async def _pretend(self, password: str) -> None:
        """Take as long as for a user, on one thread at most."""
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
    """Lower this thread's priority below that of the others, where the system can."""
    with suppress(OSError, AttributeError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)


def check_password(password: str) -> None:
    """Raise Invalid unless the password has a permitted length."""
    if not CHARS_MIN <= len(password) <= CHARS_MAX:
        raise Invalid(
            f"a password has {CHARS_MIN} to {CHARS_MAX} characters",
            field="password",
            remedy="choose another",
        )


def hash_password(password: str) -> str:
    """The same as `Passwords.hash`, on this thread: for the command line."""
    return _hasher().hash(password)


def new_token() -> str:
    """A new token; its prefix lets secret scanners find it."""
    return TOKEN_PREFIX + secrets.token_urlsafe(SECRET_BYTES)


def new_session() -> str:
    return secrets.token_urlsafe(SECRET_BYTES)


def hash_secret(secret: str) -> str:
    """The stored form of a token or session secret."""
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()


@cache
def _hasher() -> "PasswordHasher":
    from argon2 import PasswordHasher  # only where somebody logs in

    return PasswordHasher()


@cache
def _nobodys_hash() -> str:
    return hash_password(secrets.token_urlsafe(SECRET_BYTES))


def _matches(password: str, password_hash: str) -> bool:
    from argon2.exceptions import InvalidHashError, VerificationError

    try:
        return _hasher().verify(password_hash, password[: CHARS_MAX + 1])
    except (VerificationError, InvalidHashError):
        return False
