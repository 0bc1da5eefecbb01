"""Name and role of a user from the claims of a checked id token, or why there is none. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.oidc_settings import ROLES, OidcSettings, roles_of_groups
from app.security.credentials import parse_name
from app.security.oidc import refusals
from engine.errors import Invalid

GROUPS_MAX = 2000

Claims = Mapping[str, Any]


@dataclass(frozen=True)
class Identity:
    """A user whom the provider identifies, with the role that the groups give today."""

    subject: str
    name: str
    role: str


def find_claim(claims: Claims, path: str) -> Any:
    """The claim of this name, else the one at a dotted path; None if missing."""
    if path in claims:
        return claims[path]
    value: Any = claims
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def lacks_claims(claims: Claims, settings: OidcSettings) -> bool:
    """Whether a needed claim is not in the id token, so that userinfo is to be fetched."""
    needed = [settings.oidc_username_claim]
    if settings.oidc_roles:
        needed.append(settings.oidc_groups_claim)
    if settings.oidc_email_domains:
        needed += ["email", "email_verified"]
    return any(find_claim(claims, name) is None for name in needed)


def identity_of(claims: Claims, settings: OidcSettings) -> Identity:
    """The user of these claims; raises the ProblemError that says why the login is refused."""
    claim = find_claim(claims, settings.oidc_username_claim)
    if not isinstance(claim, str) or not claim:
        raise refusals.claim(settings.oidc_username_claim, "oidc_username_claim")
    try:
        name = parse_name(claim)
    except Invalid:
        raise refusals.bad_name(claim, settings.oidc_username_claim) from None
    _check_domain(claims, settings.oidc_email_domains)
    return Identity(str(claims["sub"]), name, _role(claims, name, settings))


def _role(claims: Claims, name: str, settings: OidcSettings) -> str:
    """The highest role that a group gives, else the default one."""
    claim = find_claim(claims, settings.oidc_groups_claim)
    if claim is None and not settings.oidc_default_role:
        raise refusals.claim(settings.oidc_groups_claim, "oidc_groups_claim")
    listed = [claim] if isinstance(claim, str) else claim if isinstance(claim, list) else []
    groups = [group for group in listed[:GROUPS_MAX] if isinstance(group, str)]
    role_of = roles_of_groups(settings.oidc_roles)
    roles = [role_of[group] for group in groups if group in role_of]
    if settings.oidc_default_role:
        roles.append(settings.oidc_default_role)
    if not roles:
        raise refusals.no_role(name, settings.oidc_groups_claim, len(groups))
    return max(roles, key=ROLES.index)


def _check_domain(claims: Claims, domains: tuple[str, ...]) -> None:
    if not domains:
        return
    email = claims.get("email")
    is_verified = claims.get("email_verified") is True
    domain = email.rpartition("@")[2].lower() if isinstance(email, str) else ""
    if not is_verified or domain not in {name.lower().removeprefix("@") for name in domains}:
        raise refusals.domain(domains, is_verified=is_verified)
