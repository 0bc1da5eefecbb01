"""RocketMQ's signature: who a call comes from, by access key and a HMAC over its date.

The signature covers the date and nothing else, so it identifies and does not protect: whoever reads
one can repeat it. Dates are not compared with the clock, since one client sends its local time
under the name of UTC. TLS is what protects. A token in `authorization: Bearer …` works as well.
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
    """Recognises callers while there are users; without any, everybody may do everything."""

    def __init__(self, directory: UserDirectory, keys: AccessKeys) -> None:
        self._directory = directory
        self._keys = keys

    def identify(self, metadata: Mapping[str, str]) -> Principal:
        """Who calls; a GrpcRefusal with UNAUTHORIZED where that is not known."""
        if not self._directory.is_known:
            raise GrpcRefusal(Code.INTERNAL_SERVER_ERROR, "the database of users does not answer")
        if self._directory.is_open:
            return self._directory.everybody
        header = metadata.get("authorization", "")[:HEADER_CHARS_MAX]
        if header[: len(BEARER)].lower() == BEARER:
            who = self._directory.of_token(header[len(BEARER) :].strip())
        else:
            who = self._signed(header, metadata.get(DATE, ""))
        if who is None:
            raise GrpcRefusal(
                Code.UNAUTHORIZED,
                "the server has users, and this access key and signature are none of theirs; "
                "make an access key in the console under Tokens",
            )
        return who

    def _signed(self, header: str, date: str) -> Principal | None:
        parts = dict(PARTS.findall(header))
        secret_hash = self._directory.hash_of(parts.get("Credential", "").partition("/")[0])
        if not (secret_hash and date and header.startswith(ALGORITHM)):
            return None
        if not self._keys.is_loaded:
            raise GrpcRefusal(
                Code.INTERNAL_SERVER_ERROR, "the key file of access keys is not loaded"
            )
        expected = sign(self._keys.secret_key(secret_hash), date)
        # Python writes hexadecimal in lower case, Node in upper case.
        given = parts.get("Signature", "").lower().encode()
        if not hmac.compare_digest(expected.encode(), given):
            return None
        return self._directory.of_hash(secret_hash)


def sign(secret_key: str, date: str) -> str:
    """The signature over a date, in lower case."""
    return hmac.new(secret_key.encode(), date.encode(), hashlib.sha1).hexdigest()
