"""The settings without their secrets: value, default and origin of each.

Hidden are secrets and every part of an address that could hold one.
"""

import re
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass
from enum import Enum, StrEnum
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from app.services.alerts.webhook import host_of
from app.settings import Settings, settings_fields

DEFAULT = "default"
SECRET_PARAMETER = re.compile("(?i)pass|secret|token|key|sig")
PIECE_CHARS_MIN = 8  # a shorter piece of a webhook's path is a word, as "services"
PROGRAM = "program"  # neither file, environment nor command line: the embedding program


class Hidden(StrEnum):
    """Why a value is not shown."""

    NOT = ""
    SECRET = "secret"
    PASSWORD = "password"  # it is an address with one


@dataclass(frozen=True)
class SettingView:
    """A setting; `value` is empty if hidden, `source` is its origin."""

    name: str
    value: str
    default: str
    source: str
    hidden: Hidden
    help: str

    @property
    def is_set(self) -> bool:
        """Whether it differs from the default."""
        return self.hidden is not Hidden.NOT or self.value != self.default


def describe_settings(settings: Settings, origins: Mapping[str, str]) -> list[SettingView]:
    """Every setting in the order of docs/settings.md; `origins` says where given ones came from."""
    return [_describe(item, getattr(settings, item.name), origins) for item in settings_fields()]


def secrets_of(settings: Settings) -> set[str]:
    """Every text among the settings that must leave the server nowhere."""
    secrets: set[str] = set()
    for item in settings_fields():
        value = getattr(settings, item.name)
        if item.metadata.get("is_secret"):
            secrets.add(str(value))
        for text in value if isinstance(value, tuple) else (value,):
            if isinstance(text, str) and "://" in text:
                secrets |= _secrets_in(text, is_whole=item.name == "alert_webhooks")
    return {text for text in secrets if text}


def _secrets_in(address: str, *, is_whole: bool) -> set[str]:
    """The secret parts of an address: passwords, also in queries; of a webhook all but the host."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return {address}
    secrets = {parts.password or "", unquote(parts.password or "")}
    for name, value in parse_qsl(parts.query):
        if is_whole or SECRET_PARAMETER.search(name):
            secrets |= {value, quote(value, safe="")}
    if is_whole:
        pieces = (parts.path.strip("/"), *parts.path.split("/"), parts.username or "")
        secrets |= {address, *(piece for piece in pieces if len(piece) >= PIECE_CHARS_MIN)}
    return secrets


def _describe(item: Field[Any], value: Any, origins: Mapping[str, str]) -> SettingView:
    default = text_of("" if item.default is MISSING else item.default)
    hidden = _hidden(item, value)
    if hidden:
        text = ""
    elif item.name == "alert_webhooks":
        text = text_of(tuple(f"{host_of(url)}/…" for url in value))
    else:
        text = text_of(value)
    is_default = not hidden and text == default
    source = origins.get(item.name) or (DEFAULT if is_default else PROGRAM)
    return SettingView(
        item.name, text, default, source, hidden, item.metadata["help"].replace("`", "")
    )


def _hidden(item: Field[Any], value: Any) -> Hidden:
    if item.metadata.get("is_secret") and value:
        return Hidden.SECRET
    return Hidden.PASSWORD if _holds_password(value) else Hidden.NOT


def _holds_password(value: Any) -> bool:
    if not isinstance(value, str) or "://" not in value:
        return False
    try:
        return urlsplit(value).password is not None or "password" in value.lower()
    except ValueError:
        return True


def text_of(value: Any) -> str:
    """A setting's value as it is written."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    if isinstance(value, Path):
        return str(value)
    return f"{value:,}" if isinstance(value, int) and value >= 10_000 else str(value)
