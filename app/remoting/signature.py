"""Authenticates requests by RocketMQ's signature and an access key."""

import hmac

from app.remoting.errors import RemotingRefusal
from app.security.access import Principal
from app.security.access_keys import AccessKeys
from app.security.user_directory import UserDirectory
from protocol.remoting.codes import ResponseCode
from protocol.remoting.frames import Command
from protocol.remoting.signature import ACCESS_KEY, SIGNATURE, sign


class RemotingSignatures:
    """Authenticates callers; while there are no users, all requests are allowed."""

    def __init__(self, directory: UserDirectory, keys: AccessKeys) -> None:
        self._directory = directory
        self._keys = keys

    @property
    def anybody(self) -> Principal | None:
        """Who all senders are while all requests are allowed; else None."""
        anonymous = self._directory.anonymous
        is_open = self._directory.is_known and self._directory.is_open
        return anonymous if is_open and not anonymous.is_read_only else None

    def identify(self, command: Command) -> Principal:
        """The sender's principal; raises RemotingRefusal with NO_PERMISSION."""
        directory = self._directory
        if not directory.is_known:
            raise RemotingRefusal(ResponseCode.SYSTEM_BUSY, "the database of users does not answer")
        if directory.is_open:
            return directory.anonymous
        secret_hash = directory.token_hash_of(command.fields.get(ACCESS_KEY, ""))
        if secret_hash and not self._keys.is_loaded:
            raise RemotingRefusal(
                ResponseCode.SYSTEM_BUSY, "the key file of access keys is not loaded"
            )
        if secret_hash and self._is_signed(command, self._keys.secret_key(secret_hash)):
            principal = directory.principal_of_hash(secret_hash)
            if principal is not None:
                return principal
        raise RemotingRefusal(
            ResponseCode.NO_PERMISSION,
            "the server has users, and this access key and signature are none of theirs; "
            "make an access key in the console under Tokens",
        )

    def _is_signed(self, command: Command, secret_key: str) -> bool:
        signature = command.fields.get(SIGNATURE, "").encode()
        return hmac.compare_digest(sign(command, secret_key).encode(), signature)
