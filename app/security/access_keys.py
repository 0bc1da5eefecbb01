"""Access keys: a token in the form that RocketMQ clients need, which sign with a secret.

Checking a signature needs the secret in clear, but the database has only a token's hash. The secret
is therefore derived from the hash and the key file of this installation; neither is sufficient
alone. Without its key file all access keys are invalid, while tokens stay valid; a backup with
both contains the secrets.
"""

import asyncio
import hashlib
import hmac
import os
import secrets
from pathlib import Path

from app.private_data import DIRECTORY_MODE
from app.security.private_files import write_private

KEY_FILE = "access_keys.key"
KEY_BYTES = 32
ACCESS_KEY_PREFIX = "KITE"
ACCESS_KEY_DIGITS = 20
SECRET_KEY_DIGITS = 48


class AccessKeys:
    """Derives key pairs from tokens and the key file in `folder`; call `load` off the loop."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / KEY_FILE
        self._key = b""

    @property
    def is_loaded(self) -> bool:
        """Whether secrets can be computed."""
        return bool(self._key)

    def load(self) -> None:
        """Read or create the key file; raises ValueError if its content is no key."""
        if self._key:
            return
        try:
            key = self._path.read_bytes()
        except FileNotFoundError:
            key = self._create_key()
        if len(key) != KEY_BYTES:
            raise ValueError(
                f"{self._path} has {len(key)} bytes where a key has {KEY_BYTES}: put the file "
                "back from a backup, or delete it, and all access keys with it"
            )
        self._key = key

    async def key_pair(self, secret_hash: str) -> tuple[str, str]:
        """Access key and secret for a token's hash; loads the key file."""
        await asyncio.to_thread(self.load)
        return access_key_of(secret_hash), self.secret_key(secret_hash)

    def secret_key(self, secret_hash: str) -> str:
        """The secret of the access key for a token's hash."""
        assert self._key, "the key file is not loaded"
        digest = hmac.new(self._key, f"rocketmq:{secret_hash}".encode(), hashlib.sha256)
        return digest.hexdigest()[:SECRET_KEY_DIGITS]

    def _create_key(self) -> bytes:
        """A new key; if another process creates one at the same time, the first one counts."""
        key = secrets.token_bytes(KEY_BYTES)
        self._path.parent.mkdir(DIRECTORY_MODE, parents=True, exist_ok=True)
        part = self._path.with_name(f"{KEY_FILE}.{os.getpid()}.part")
        try:
            write_private(part, key)
            os.link(part, self._path)
        except FileExistsError:
            key = self._path.read_bytes()
        finally:
            part.unlink(missing_ok=True)
        return key


def access_key_of(secret_hash: str) -> str:
    """The access key of a token: not secret, and it reveals nothing about the token."""
    digest = hashlib.sha256(f"access key:{secret_hash}".encode()).hexdigest()
    return ACCESS_KEY_PREFIX + digest[:ACCESS_KEY_DIGITS].upper()
