"""Refusals of logins through a provider, each with its remedy.

Each is a ProblemError with a status by its code, which never changes.
"""

from app.errors import ProblemError

STATUSES = {
    "oidc_off": 404,  # there is no provider here
    "oidc_unreachable": 503,  # the provider does not answer correctly: try again
    "oidc_busy": 503,  # too many logins at once
    "oidc_state": 400,  # another browser began this login, or too long ago
    "oidc_denied": 403,  # the provider itself refused
    "oidc_token": 403,  # its answer proves no identity
    "oidc_claim": 403,  # a needed claim is missing
    "oidc_domain": 403,  # the e-mail address is of another domain, or not verified
    "oidc_no_role": 403,  # no group has a role here
    "oidc_name_taken": 409,  # another user has this name
}
AGAIN = "begin again with the button on the login page"
ASK = "ask the administrator of this server"
RETRY_AFTER_S = 5.0
TEXT_MAX = 200


def off() -> ProblemError:
    return _refusal(
        "oidc_off",
        "this server has no OpenID Connect provider",
        remedy="log in by name and password",
    )


def unreachable(issuer: str) -> ProblemError:
    return _refusal(
        "oidc_unreachable",
        f"the provider {issuer} does not answer as it should",
        remedy="try again in a moment; the server's log says what was wrong",
    )


def busy() -> ProblemError:
    return _refusal(
        "oidc_busy", "too many people are logging in at once", remedy="try again in a moment"
    )


def state() -> ProblemError:
    return _refusal(
        "oidc_state",
        "this login was not begun in this browser, or more than ten minutes ago",
        remedy=f"{AGAIN}, in one tab and with cookies allowed",
    )


def denied(error: str, text: str) -> ProblemError:
    """The provider's own words, truncated, as a forged link may contain any."""
    words = f"{_short(error)}: {_short(text)}" if text else _short(error)
    return _refusal("oidc_denied", f"the provider refused ({words})", remedy=AGAIN)


def token(reason: str) -> ProblemError:
    return _refusal(
        "oidc_token",
        f"the provider's answer proves nothing: {reason}",
        remedy=f"{AGAIN}; if it happens again, {ASK}, whose log says more",
    )


def claim(name: str, setting: str) -> ProblemError:
    return _refusal(
        "oidc_claim",
        f"the provider does not tell the claim {name!r}",
        field=name,
        remedy=f"{ASK} to have the provider send it, to ask for its scope (oidc_scopes), or to "
        f"take another claim ({setting})",
    )


def bad_name(name: str, claim_name: str) -> ProblemError:
    return _refusal(
        "oidc_claim",
        f"the claim {claim_name!r} is {_short(name)!r}, which cannot be a user's name here",
        field=claim_name,
        remedy=f"{ASK} to take another claim (oidc_username_claim): letters, digits and . _ @ -, "
        "at most 64",
    )


def domain(domains: tuple[str, ...], *, is_verified: bool) -> ProblemError:
    detail = "the e-mail address is of another domain than this server wants"
    if not is_verified:
        detail = "the provider does not say that the e-mail address is verified"
    expected = ", ".join(domains)
    remedy = f"log in with a verified address of {expected} (oidc_email_domains)"
    return _refusal("oidc_domain", detail, field="email", remedy=remedy)


def no_role(name: str, claim_name: str, count: int) -> ProblemError:
    groups = f"none of {name}'s {count} groups" if count else f"{name} is in no group, so none"
    return _refusal(
        "oidc_no_role",
        f"{groups} has a role on this server (claim {claim_name!r})",
        field=claim_name,
        remedy=f"{ASK} to give one of your groups a role (oidc_roles), or to put you into one",
    )


def name_taken(name: str) -> ProblemError:
    return _refusal(
        "oidc_name_taken",
        f"there is another user {name!r} on this server already, who is not taken over",
        field="name",
        remedy="an admin can delete that user, or the provider can give you another name",
    )


def _refusal(code: str, detail: str, *, remedy: str, field: str = "") -> ProblemError:
    status = STATUSES[code]
    wait_s = RETRY_AFTER_S if status == 503 else None
    return ProblemError(status, code, detail, field=field, remedy=remedy, retry_after_s=wait_s)


def _short(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text[:TEXT_MAX])
