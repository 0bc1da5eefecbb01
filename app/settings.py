"""Every setting of the server: one frozen dataclass, read once, from three places.

The engine's own settings are inherited, so that there is one flat list of names. A name is given
as `KITEMQ_<NAME>` in the environment, as `name = value` in a TOML file, or as `--name value` on
the command line; the later of the three wins. A name that does not exist refuses to start.
`python -m app.settings` prints `docs/settings.md`.
"""

import inspect
import ipaddress
import os
import sys
import types
from collections.abc import Mapping
from dataclasses import Field, dataclass, fields, replace
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints
from urllib.parse import urlsplit

from app import (
    access_settings,
    bounds,
    cluster_settings,
    grpc_settings,
    network_settings,
    oidc_settings,
    remoting_settings,
    replication_settings,
    report_settings,
)
from app.access_settings import AccessSettings
from app.cluster_settings import ClusterSettings
from app.connection_settings import ConnectionSettings
from app.grpc_settings import GrpcSettings
from app.listen_address import OFF
from app.network_settings import NetworkSettings
from app.oidc_settings import OidcSettings
from app.remoting_settings import RemotingSettings
from app.replication_settings import ReplicationSettings
from app.report_settings import ReportSettings
from engine.config import MIB, EngineConfig, setting

PREFIX = "KITEMQ_"
CONFIG_NAME = "config"
# Names of the SDK and the command line, which may share the server's environment; and `kernel`,
# which is read before any setting.
OTHER_NAMES = frozenset({"server", "token", "ca", "kernel"})
DATABASE_FILE = "kitemq.db"  # in the data directory
DATABASES = ("sqlite://", "postgresql://", "postgresql+psycopg://")
ENVIRONMENT_COLORS = ("green", "blue", "violet", "amber", "red", "")
LOG_LEVELS = ("debug", "info", "warning", "error")
TRUE = frozenset({"1", "true", "yes", "on"})
FALSE = frozenset({"0", "false", "no", "off"})


class SettingsError(ValueError):
    """A setting is unknown or has no valid value; the text says which, and what to do."""


@dataclass(frozen=True, kw_only=True)
class Settings(
    EngineConfig,
    AccessSettings,
    ConnectionSettings,
    OidcSettings,
    NetworkSettings,
    GrpcSettings,
    RemotingSettings,
    ReplicationSettings,
    ClusterSettings,
    ReportSettings,
):
    """What the server can be told, the engine's settings included."""

    host: str = setting(
        "127.0.0.1",
        "Address to listen on; only loopback while there are no users, unless `allow_open`.",
    )
    port: int = setting(8080, "TCP port to listen on; 0 takes a free one.", most=65535)
    database_url: str = setting(
        "",
        "Address of the database for people, the audit trail, alerts and saved views: "
        "`postgresql+psycopg://USER:PASSWORD@HOST:PORT/NAME` or `sqlite:///PATH`; empty means "
        "`kitemq.db` (SQLite) in the data directory.",
        is_shown=False,
    )
    environment: str = setting("", "Name of this installation, shown on every console page.")
    cluster_name: str = setting("DefaultCluster", "Cluster label of the metrics.")
    broker_name: str = setting("kitemq", "Broker label of the metrics.")
    allow_open: bool = setting(
        False,
        "Listen on other than loopback addresses although there are no users, so that anybody who "
        "reaches the server may do everything.",
    )
    read_only: bool = setting(
        False, "Refuse every change by any caller; reading, logging in and out go on."
    )
    admin_name: str = setting("admin", "Name of the admin that `admin_password` makes.")
    admin_password: str = setting(
        "",
        "Makes an admin with this password at a start without users; better given as "
        "`KITEMQ_ADMIN_PASSWORD` than in a file, and not needed after the first start.",
        is_secret=True,
    )
    session_idle_s: float = setting(8 * 3600.0, "A login that is not used for so long ends.")
    session_max_s: float = setting(7 * 24 * 3600.0, "A login ends after this, used or not.")
    allowed_hosts: tuple[str, ...] = setting(
        (),
        "Further names under which clients may reach the server (the Host header), besides "
        "loopback and `host`; separated by commas.",
    )
    allowed_origins: tuple[str, ...] = setting(
        (),
        "Web origins of other sites whose pages may send changes, as `https://app.example.org`; "
        "separated by commas.",
    )
    alert_webhooks: tuple[str, ...] = setting(
        (),
        "Addresses that are told of alerts by POST, as "
        "`https://hooks.example.org/kitemq`; separated by commas.",
        is_shown=False,
    )
    alert_webhook_secret: str = setting(
        "",
        "Key of the HMAC-SHA256 that signs what webhooks are sent; empty signs nothing.",
        is_secret=True,
    )
    environment_color: str = setting(
        "",
        "Colour of the strip that marks this installation on every console page: green, blue, "
        "violet, amber or red; empty for none.",
        choices=ENVIRONMENT_COLORS,
    )
    request_bytes_max: int = setting(8 * MIB, "Largest body of one request; more is a 413.")
    inflight_bytes_max: int = setting(
        64 * MIB,
        "Bytes of requests held in memory at once, of REST, WebSocket and gRPC together, counted "
        "as they arrive; more is a 503. Requests of up to 64 KiB may take an eighth more.",
    )
    inflight_address_bytes_max: int = setting(
        0, "The same of one client address; more is a 429. 0 is half of `inflight_bytes_max`."
    )
    inflight_caller_bytes_max: int = setting(
        0,
        "The same of one token, or of one user without a token; more is a 429. 0 is half of "
        "`inflight_bytes_max`.",
    )
    client_requests_max: int = setting(
        1024, "Requests of one client address under way at once, long polls too; more is a 429."
    )
    requests_max: int = setting(
        16_384, "Requests of all clients under way at once, long polls too; more is a 503."
    )
    stop_timeout_s: float = setting(10.0, "How long a stop waits for requests and the disk.")
    log_level: str = setting("info", f"{bounds.words_of(LOG_LEVELS)}.", choices=LOG_LEVELS)
    goes_first: bool = setting(
        True,
        "Whether the server goes before other programs on the processors (nice -10), where the "
        "system permits it: root, CAP_SYS_NICE, or `ulimit -e`.",
    )

    @property
    def database(self) -> str:
        """The database's URL, with the default in place."""
        return self.database_url or f"sqlite:///{self.data / DATABASE_FILE}"

    @property
    def own_database(self) -> Path | None:
        """The file of the database in the data directory; None where another one is set."""
        return None if self.database_url else self.data / DATABASE_FILE


def is_loopback(host: str) -> bool:
    """Whether `host` can only be reached from this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def is_safe_url(text: str) -> bool:
    """Whether secrets may go to this address: https, or plain http within this machine."""
    try:
        parts = urlsplit(text)
        host = parts.hostname or ""
    except ValueError:
        return False
    if not host or " " in text or not text.isprintable() or parts.username is not None:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host))


def load(
    overrides: Mapping[str, str] | None = None,
    *,
    config: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> Settings:
    """Settings from file, environment and `overrides`, the later winning.

    `config` (or KITEMQ_CONFIG) names the TOML file. Raises SettingsError on the first name or
    value that is wrong, before anything is opened.
    """
    values: dict[str, Any] = {}
    for origin, source in _sources(overrides, config, environ):
        for name, value in source.items():
            values[name] = _parse(name, value, origin)
    settings = _checked(Settings(**values))
    if "store_host" in values or not settings.port:
        return settings
    return replace(settings, store_host=_own_address(settings))


def origins(
    overrides: Mapping[str, str] | None = None,
    *,
    config: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Where each given setting has its value from, for what `load` took without an error."""
    return {
        name: origin for origin, source in _sources(overrides, config, environ) for name in source
    }


def _sources(
    overrides: Mapping[str, str] | None, config: Path | None, environ: Mapping[str, str] | None
) -> tuple[tuple[str, Mapping[str, Any]], ...]:
    """What was given, with the name of its place; the later wins."""
    environ = os.environ if environ is None else environ
    from_env = {
        name.removeprefix(PREFIX).lower(): value
        for name, value in environ.items()
        if name.startswith(PREFIX)
    }
    from_env = {name: value for name, value in from_env.items() if name not in OTHER_NAMES}
    named = from_env.pop(CONFIG_NAME, "")
    path = config or (Path(named) if named else None)
    return (
        (f"file {path}", _read_file(path) if path else {}),
        ("environment", from_env),
        ("command line", overrides or {}),
    )


def _own_address(settings: Settings) -> str:
    """What to write into records: the address that is listened on, names as loopback."""
    try:
        address = ipaddress.ip_address(settings.host.strip("[]"))
    except ValueError:
        return f"127.0.0.1:{settings.port}"
    return f"[{address}]:{settings.port}" if address.version == 6 else f"{address}:{settings.port}"


def settings_fields() -> tuple[Field[Any], ...]:
    """Every setting in the order in which it is documented: the server's first."""
    by_name = {item.name: item for item in fields(Settings)}
    parts = (
        Settings,
        AccessSettings,
        NetworkSettings,
        ConnectionSettings,
        GrpcSettings,
        RemotingSettings,
        ReplicationSettings,
        ClusterSettings,
        OidcSettings,
        ReportSettings,
        EngineConfig,
    )
    return tuple(by_name[name] for part in parts for name in inspect.get_annotations(part))


def _read_file(path: Path) -> dict[str, Any]:
    import tomllib  # most servers have no such file

    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except FileNotFoundError:
        raise SettingsError(f"the settings file {path} does not exist") from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"the settings file {path} is not valid TOML: {error}") from None


@cache
def _types() -> dict[str, Any]:
    return get_type_hints(Settings)


def _parse(name: str, value: Any, origin: str) -> Any:
    kind = _types().get(name)
    if kind is None:
        import difflib  # no start that succeeds needs it

        near = difflib.get_close_matches(name, _types(), n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise SettingsError(f"unknown setting {name!r} from the {origin}{hint}")
    try:
        return _convert(kind, value)
    except (ValueError, TypeError):
        raise SettingsError(
            f"setting {name!r} from the {origin} is {value!r}; expected {_describe(kind)}"
        ) from None


def _convert(kind: Any, value: Any) -> Any:
    """`value` (text, or what TOML gave) as `kind`; ValueError where it does not fit."""
    if get_origin(kind) in (types.UnionType,):
        kind = next(item for item in get_args(kind) if item is not type(None))
    if get_origin(kind) is tuple:
        parts = value.split(",") if isinstance(value, str) else value
        return tuple(str(part).strip() for part in parts if str(part).strip())
    if kind is bool:
        return _bool(value)
    if isinstance(value, bool) or (kind is int and isinstance(value, float)):
        raise ValueError(value)
    return kind(value.replace("_", "") if kind is int and isinstance(value, str) else value)


def _bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    word = str(value).lower()
    if word not in TRUE | FALSE:
        raise ValueError(value)
    return word in TRUE


def _describe(kind: Any) -> str:
    if isinstance(kind, type) and issubclass(kind, Enum):
        return " or ".join(str(item.value) for item in kind)
    if get_origin(kind) is tuple:
        return "a list of texts"
    words = {int: "a whole number", float: "a number", bool: "true or false", Path: "a path"}
    return words.get(kind, "a text")


def _checked(settings: Settings) -> Settings:
    """Refuse values that would only fail later, and more obscurely."""
    is_grpc_plain = not settings.grpc_tls and settings.grpc_listen != OFF
    wrong = (
        bounds.complaint(settings)
        or replication_settings.complaint(settings)
        or cluster_settings.complaint(settings, others=_engine_settings(settings))
        or _complaint(settings)
        or oidc_settings.complaint(settings)
        or access_settings.complaint(settings)
        or grpc_settings.complaint(settings)
        or remoting_settings.complaint(settings)
        or report_settings.complaint(settings)
        or network_settings.complaint(settings, is_grpc_plain=is_grpc_plain)
    )
    if wrong:
        raise SettingsError(wrong)
    return settings


def _engine_settings(settings: Settings) -> list[str]:
    """The changed settings that only the embedded engine has; ports that are off are none."""
    return [
        item.name
        for item in fields(settings)
        if item.name in cluster_settings.OF_THE_ENGINE
        and getattr(settings, item.name) not in (item.default, OFF)
    ]


def _complaint(settings: Settings) -> str:
    if settings.database_url and not settings.database_url.startswith(DATABASES):
        return (
            "setting 'database_url' is no address of a database; expected "
            "postgresql+psycopg://USER:PASSWORD@HOST:PORT/NAME or sqlite:///PATH"
        )
    for url in settings.alert_webhooks:
        if not url.startswith(("http://", "https://")) or " " in url or not url.isascii():
            return "setting 'alert_webhooks' holds what is no http or https address"
    if settings.oidc_issuer and not is_safe_url(settings.oidc_issuer):
        return (
            f"setting 'oidc_issuer' is {settings.oidc_issuer!r}; expected an https address (plain "
            "http only of this very machine)"
        )
    ha = replication_settings.listen_at(settings, settings.host)
    if ha and not (settings.ha_secret or is_loopback(ha[0])):
        return (
            "setting 'ha_listen' is an address that other machines reach, where anybody could "
            "copy all messages; set 'ha_secret' too, or choose a loopback address"
        )
    if settings.inflight_bytes_max < settings.request_bytes_max:
        return "setting 'inflight_bytes_max' is less than 'request_bytes_max'"
    for name in ("inflight_address_bytes_max", "inflight_caller_bytes_max"):
        if 0 < getattr(settings, name) < settings.request_bytes_max:
            return f"setting {name!r} is less than 'request_bytes_max'"
    return ""


def document() -> str:
    """The text of `docs/settings.md`."""
    head = Path(__file__).with_name("settings.md").read_text("utf-8")
    rows = (
        f"| `{item.name}` | {_default(item)} | {item.metadata['help']} |\n"
        for item in settings_fields()
    )
    return head + "".join(rows)


def _default(item: Field[Any]) -> str:
    value = item.default
    if value in ("", ()):
        return "empty"
    if isinstance(value, tuple):
        value = ",".join(value)
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return f"`{text}`"


if __name__ == "__main__":
    sys.stdout.write(document())
