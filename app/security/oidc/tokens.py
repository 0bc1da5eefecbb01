"""Checks that an id token proves an identity: signature, issuer, audience, times, nonce.

joserfc checks the signature, authlib the claims. Only algorithms with a public key count: the
client's secret is known to others, and an unsigned token proves nothing.
"""

from collections.abc import Mapping
from typing import Any

from authlib.oidc.core import CodeIDToken
from joserfc import jwt
from joserfc.errors import BadSignatureError, InvalidKeyIdError, JoseError
from joserfc.jwk import JWKRegistry, KeySet

ALGORITHMS = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA", "Ed25519"),
)
KEY_TYPES = ("RSA", "EC", "OKP")
KEYS_MAX = 100
TOKEN_CHARS_MAX = 16_384
SUBJECT_CHARS_MAX = 255
SKEW_S = 60  # how far the provider's clock may be off
MALFORMED = (JoseError, ValueError, TypeError, KeyError)


class BadTokenError(Exception):
    """The token proves nothing; the text says why and shows nothing of the token."""


class UnknownKeyError(BadTokenError):
    """No known key signed the token: the provider may have changed its keys."""


def keys_of(document: Mapping[str, Any]) -> KeySet:
    """The signing keys of a JWK Set, without those that joserfc cannot read."""
    keys = []
    listed = document.get("keys")
    for data in (listed if isinstance(listed, list) else [])[:KEYS_MAX]:
        is_key = isinstance(data, dict) and data.get("kty") in KEY_TYPES
        if is_key and data.get("use", "sig") == "sig":
            try:
                keys.append(JWKRegistry.import_key(data))
            except MALFORMED:
                continue
    return KeySet(keys)


def claims_of(
    token: str, keys: KeySet, *, issuer: str, now_s: int, **params: str
) -> dict[str, Any]:
    """The claims of an id token that proves them; raises BadTokenError.

    `params` are the `client_id`, `nonce` and `access_token` that the claims have to fit.
    """
    if len(token) > TOKEN_CHARS_MAX:
        raise BadTokenError("its id token is too long")
    try:
        decoded = jwt.decode(token, keys, algorithms=list(ALGORITHMS))
    except (InvalidKeyIdError, BadSignatureError) as error:
        raise UnknownKeyError("its signature is by no key of the provider") from error
    except MALFORMED as error:
        raise BadTokenError("its signature cannot be checked") from error
    options = {
        "iss": {"essential": True, "value": issuer},
        "aud": {"essential": True, "value": params["client_id"]},
        "sub": {"essential": True},
    }
    try:
        CodeIDToken(decoded.claims, decoded.header, options, params).validate(now_s, SKEW_S)
        if len(decoded.claims["sub"]) > SUBJECT_CHARS_MAX:
            raise ValueError("sub")
    except MALFORMED as error:
        claim = getattr(error, "claim", "") or getattr(error, "claim_name", "")
        raise BadTokenError(f"its claims do not fit ({claim or error})") from error
    return dict(decoded.claims)
