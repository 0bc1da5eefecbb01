"""Settings of logging in: through an OpenID Connect provider, by a password, from which address.

`complaint` says what does not fit together, before the server starts.
"""

from dataclasses import dataclass
from urllib.parse import urlsplit

from engine.config import setting

# From the least to the most; who has several groups gets the most that they give.
ROLES = ("viewer", "operator", "admin")
OPENID = "openid"


@dataclass(frozen=True, kw_only=True)
class OidcSettings:
    """Who may come in through a provider, and what the provider is asked."""

    public_url: str = setting(
        "",
        "Address under which browsers reach the server, as `https://kite.example.org`; needed "
        "behind a proxy, for the way back from `oidc_issuer`. Empty takes what each request says.",
    )
    password_login: bool = setting(
        True, "Whether people may log in by a password; false needs `oidc_issuer`."
    )
    oidc_issuer: str = setting(
        "",
        "Issuer of the OpenID Connect provider through which people log in, exactly as it calls "
        "itself; empty for none. With it the server asks everybody who they are.",
    )
    oidc_client_id: str = setting("", "What the provider calls this server.")
    oidc_client_secret: str = setting(
        "",
        "The secret that goes with `oidc_client_id`, better given as "
        "`KITEMQ_OIDC_CLIENT_SECRET` than in a file; empty for a public client.",
        is_secret=True,
    )
    oidc_scopes: tuple[str, ...] = setting(
        (OPENID, "profile", "email"), "What the provider is asked to tell; separated by commas."
    )
    oidc_name: str = setting(
        "single sign-on", "What the button of the login page calls the provider."
    )
    oidc_username_claim: str = setting(
        "preferred_username", "Claim that becomes a user's name at the first login."
    )
    oidc_groups_claim: str = setting(
        "groups",
        "Claim with a user's groups or roles, as a list or a text; dots lead into objects, as in "
        "`realm_access.roles`.",
    )
    oidc_roles: tuple[str, ...] = setting(
        (),
        "Which role a group gives, as `kite-admins=admin`; separated by commas. The highest role "
        "counts.",
    )
    oidc_default_role: str = setting(
        "", "Role of users to whom no group gives one; empty refuses them.", choices=(*ROLES, "")
    )
    oidc_email_domains: tuple[str, ...] = setting(
        (),
        "Only those come in whose verified e-mail address is of these domains; separated by "
        "commas, empty for all.",
    )

    @property
    def has_oidc(self) -> bool:
        """Whether people can log in through a provider."""
        return bool(self.oidc_issuer)


def roles_of_groups(pairs: tuple[str, ...]) -> dict[str, str]:
    """The setting `oidc_roles` as group to role; ValueError names the first that is no pair."""
    roles = {}
    for pair in pairs:
        group, equals, role = pair.rpartition("=")  # names of directories hold "=" themselves
        if not (equals and group.strip() and role.strip() in ROLES):
            raise ValueError(pair)
        roles[group.strip()] = role.strip()
    return roles


def complaint(settings: OidcSettings) -> str:
    """What is wrong about these settings, as a sentence that names one; "" where nothing is."""
    if settings.public_url and not _is_origin(settings.public_url):
        return (
            "setting 'public_url' is no address of a server; expected http or https, a name and "
            "perhaps a port, as https://kite.example.org"
        )
    if not settings.has_oidc:
        if settings.password_login:
            return ""
        return "setting 'password_login' is false, but without 'oidc_issuer' nobody could log in"
    return _provider_complaint(settings)


def _provider_complaint(settings: OidcSettings) -> str:
    if not settings.oidc_client_id:
        return "setting 'oidc_client_id' is empty; expected what the provider calls this server"
    if OPENID not in settings.oidc_scopes:
        return "setting 'oidc_scopes' lacks 'openid', without which nobody is identified"
    try:
        has_roles = bool(roles_of_groups(settings.oidc_roles) or settings.oidc_default_role)
    except ValueError as error:
        return (
            f"setting 'oidc_roles' holds {str(error)!r}; expected GROUP=ROLE with the role "
            f"{', '.join(ROLES)}"
        )
    if not has_roles:
        return (
            "settings 'oidc_roles' and 'oidc_default_role' are empty, so nobody could come in; "
            "give a role to a group (oidc_roles = kite-admins=admin), or to everybody"
        )
    return ""


def _is_origin(text: str) -> bool:
    try:
        parts = urlsplit(text)
        is_port_fine = parts.port != 0
    except ValueError:
        return False
    is_bare = parts.path in ("", "/") and not (parts.query or parts.fragment or parts.username)
    return parts.scheme in ("http", "https") and bool(parts.hostname) and is_bare and is_port_fine
