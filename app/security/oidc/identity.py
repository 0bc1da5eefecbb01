"""Who somebody is on this server, from what a provider told: name, role, and why not.

Pure. What is told comes from a checked id token, and from the userinfo of the same subject.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.oidc_settings import ROLES, OidcSettings, roles_of_groups
from app.security.drafts import checked_name
from app.security.oidc import refusals
from engine.errors import Invalid

GROUPS_MAX = 2000

Claims = Mapping[str, Any]


@dataclass(frozen=True)
class Identity:
    """Somebody whom the provider vouches for, with the role that the groups of today give."""

    subject: str
    name: str
    role: str


def find_claim(claims: Claims, path: str) -> Any:
    """The claim of this very name, else the one that dots lead to; None where there is none."""
    if path in claims:
        return claims[path]
    found: Any = claims
    for part in path.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def lacks_claims(claims: Claims, settings: OidcSettings) -> bool:
    """Whether userinfo has to be asked for what the id token does not tell."""
    wanted = [settings.oidc_username_claim]
    if settings.oidc_roles:
        wanted.append(settings.oidc_groups_claim)
    if settings.oidc_email_domains:
        wanted += ["email", "email_verified"]
    return any(find_claim(claims, name) is None for name in wanted)


def identity_of(claims: Claims, settings: OidcSettings) -> Identity:
    """Who this is; raises the DoorError that says why nobody is let in."""
    named = find_claim(claims, settings.oidc_username_claim)
    if not isinstance(named, str) or not named:
        raise refusals.claim(settings.oidc_username_claim, "oidc_username_claim")
    try:
        name = checked_name(named)
    except Invalid:
        raise refusals.bad_name(named, settings.oidc_username_claim) from None
    _check_domain(claims, settings.oidc_email_domains)
    return Identity(str(claims["sub"]), name, _role(claims, name, settings))


def _role(claims: Claims, name: str, settings: OidcSettings) -> str:
    """The highest role that a group gives, else the default one."""
    told = find_claim(claims, settings.oidc_groups_claim)
    if told is None and not settings.oidc_default_role:
        raise refusals.claim(settings.oidc_groups_claim, "oidc_groups_claim")
    groups = [told] if isinstance(told, str) else told if isinstance(told, list) else []
    given = roles_of_groups(settings.oidc_roles)
    texts = [group for group in groups[:GROUPS_MAX] if isinstance(group, str)]
    found = [given[group] for group in texts if group in given]
    if settings.oidc_default_role:
        found.append(settings.oidc_default_role)
    if not found:
        raise refusals.no_role(name, settings.oidc_groups_claim, len(texts))
    return max(found, key=ROLES.index)


def _check_domain(claims: Claims, domains: tuple[str, ...]) -> None:
    if not domains:
        return
    email = claims.get("email")
    is_verified = claims.get("email_verified") is True
    domain = email.rpartition("@")[2].lower() if isinstance(email, str) else ""
    if not is_verified or domain not in {name.lower().removeprefix("@") for name in domains}:
        raise refusals.domain(domains, is_verified=is_verified)
