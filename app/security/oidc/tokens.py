"""Whether an id token proves who somebody is: signature, issuer, audience, times, nonce.

Signatures by joserfc, claims by authlib. Only algorithms with a public key are taken: with a
shared secret, or none at all, anybody who has the client's secret, or anybody, could sign.
Importing this loads both libraries; `login.py` does it beside the event loop.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from authlib.oidc.core import CodeIDToken
from joserfc import jwt
from joserfc.errors import BadSignatureError, InvalidKeyIdError, JoseError
from joserfc.jwk import JWKRegistry, Key, KeySet

ALGORITHMS = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA", "Ed25519"),
)
KEY_TYPES = ("RSA", "EC", "OKP")
KEYS_MAX = 100
SKEW_S = 60  # how far the provider's clock may be off
SUBJECT_CHARS_MAX = 255


class BadTokenError(Exception):
    """The token proves nothing; the text says why, in words that show nothing of it."""


class UnknownKeyError(BadTokenError):
    """No known key signed it: the provider may have changed its keys."""


@dataclass(frozen=True)
class Expected:
    """What the token has to say. `access_token` is that which came along."""

    issuer: str
    client_id: str
    nonce: str
    access_token: str
    now_s: int


def keys_of(document: Mapping[str, Any]) -> KeySet:
    """The keys of a JWK Set that sign; those that nobody here understands are left out."""
    found: list[Key] = []
    listed = document.get("keys")
    for data in (listed if isinstance(listed, list) else [])[:KEYS_MAX]:
        if not isinstance(data, dict) or data.get("kty") not in KEY_TYPES:
            continue
        if data.get("use", "sig") != "sig":
            continue
        try:
            found.append(JWKRegistry.import_key(data))
        except (JoseError, ValueError, TypeError, KeyError):
            continue
    return KeySet(found)


def claims_of(token: str, keys: KeySet, expected: Expected) -> dict[str, Any]:
    """The claims of an id token that proves them; raises BadTokenError."""
    try:
        decoded = jwt.decode(token, keys, algorithms=list(ALGORITHMS))
    except (InvalidKeyIdError, BadSignatureError) as error:
        raise UnknownKeyError("its signature is by no key of the provider") from error
    except (JoseError, ValueError, TypeError, KeyError) as error:
        raise BadTokenError("its signature cannot be checked") from error
    try:
        _check(decoded, expected)
    except (JoseError, ValueError, TypeError) as error:
        claim = getattr(error, "claim", "") or getattr(error, "claim_name", "")
        raise BadTokenError(f"its claims do not fit ({claim or error})") from error
    return dict(decoded.claims)


def _check(decoded: jwt.Token, expected: Expected) -> None:
    wanted = {
        "iss": {"essential": True, "value": expected.issuer},
        "aud": {"essential": True, "value": expected.client_id},
        "sub": {"essential": True},
    }
    params = {
        "nonce": expected.nonce,
        "client_id": expected.client_id,
        "access_token": expected.access_token,
    }
    CodeIDToken(decoded.claims, decoded.header, wanted, params).validate(expected.now_s, SKEW_S)
    if len(decoded.claims["sub"]) > SUBJECT_CHARS_MAX:
        raise ValueError("sub")
