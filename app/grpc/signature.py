"""Authenticates gRPC calls by RocketMQ's signature: an access key and an HMAC over the date.

The signature covers only the date, so that it can be replayed; protection needs TLS. Dates are not
compared with the clock, since one client sends its local time as UTC. A token in
`authorization: Bearer …` is accepted too.
"""

import hashlib
import hmac
import re
from collections.abc import Mapping

from app.grpc.codes import GrpcRefusal
from app.security.access import Principal
from app.security.access_keys import AccessKeys
from app.security.user_directory import UserDirectory
from protocol.rocketmq.numbers import Code

ALGORITHM = "MQv2-HMAC-SHA1"
BEARER = "bearer "
DATE = "x-mq-date-time"
PARTS = re.compile(r"(Credential|SignedHeaders|Signature)=([^,\s]*)")
HEADER_CHARS_MAX = 2048


class GrpcSignatures:
    """Authenticates callers; while there are no users, all calls are allowed."""

    def __init__(self, directory: UserDirectory, keys: AccessKeys) -> None:
        self._directory = directory
        self._keys = keys

    def identify(self, metadata: Mapping[str, str]) -> Principal:
        """The caller's principal; raises GrpcRefusal with UNAUTHORIZED."""
        if not self._directory.is_known:
            raise GrpcRefusal(Code.INTERNAL_SERVER_ERROR, "the database of users does not answer")
        if self._directory.is_open:
            return self._directory.anonymous
        header = metadata.get("authorization", "")[:HEADER_CHARS_MAX]
        if header[: len(BEARER)].lower() == BEARER:
            principal = self._directory.principal_of_token(header[len(BEARER) :].strip())
        else:
            principal = self._signed(header, metadata.get(DATE, ""))
        if principal is None:
            raise GrpcRefusal(
                Code.UNAUTHORIZED,
                "the server has users, and this access key and signature are none of theirs; "
                "make an access key in the console under Tokens",
            )
        return principal

    def _signed(self, header: str, date: str) -> Principal | None:
        parts = dict(PARTS.findall(header))
        secret_hash = self._directory.token_hash_of(parts.get("Credential", "").partition("/")[0])
        if not (secret_hash and date and header.startswith(ALGORITHM)):
            return None
        if not self._keys.is_loaded:
            raise GrpcRefusal(
                Code.INTERNAL_SERVER_ERROR, "the key file of access keys is not loaded"
            )
        expected = sign(self._keys.secret_key(secret_hash), date)
        # Python writes hexadecimal in lower case, Node in upper case.
        signature = parts.get("Signature", "").lower().encode()
        if not hmac.compare_digest(expected.encode(), signature):
            return None
        return self._directory.principal_of_hash(secret_hash)


def sign(secret_key: str, date: str) -> str:
    """The signature over a date, in lower case."""
    return hmac.new(secret_key.encode(), date.encode(), hashlib.sha1).hexdigest()
