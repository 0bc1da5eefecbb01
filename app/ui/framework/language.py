"""The language of a page: English texts are the keys of the catalogues.

`speak` sets the language of a request; a context variable carries it to the thread that renders.
The API, exports and the audit trail are English. docs/contributing.md says how to add a text.
"""

import asyncio
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from pathlib import Path

ROOT = Path(__file__).parent.parent / "locale"
DOMAIN = "console"
RANGES_MAX = 20  # of an Accept-Language header; later ones are ignored


class Language(StrEnum):
    """A language of the console; the value is that of `<html lang>`."""

    ENGLISH = "en"
    CHINESE = "zh-CN"

    @property
    def own_name(self) -> str:
        """The name of the language in the language itself."""
        return OWN_NAMES[self]


OWN_NAMES = {Language.ENGLISH: "English", Language.CHINESE: "中文"}
CATALOGUES = {Language.CHINESE: ROOT / "zh_CN" / "LC_MESSAGES" / f"{DOMAIN}.po"}


@dataclass(frozen=True)
class Catalogue:
    """Translations by English text; plural forms by the English singular."""

    texts: Mapping[str, str]
    plurals: Mapping[str, str]


ENGLISH = Catalogue({}, {})
_loaded = {Language.ENGLISH}
_spoken: ContextVar[Language] = ContextVar("language", default=Language.ENGLISH)


def speak(language: Language) -> None:
    """Set the language of this request's texts."""
    _spoken.set(language)


def spoken() -> Language:
    """The language of this request's texts."""
    return _spoken.get()


def N_(text: str) -> str:
    """Mark a constant for the catalogue; `translated` translates it later."""
    return text


def translated(text: str) -> str:
    """`text` in the language of this request, or itself if the catalogue lacks it."""
    return _catalogue(_spoken.get()).texts.get(text, text)


def _(text: str, /, **values: object) -> str:
    """`text` in the language of this request, its `%(name)s` filled in."""
    translation = translated(text)
    return translation % values if values else translation


def ngettext(singular: str, plural: str, n: int, /, **values: object) -> str:
    """The form that fits the number `n`; `%(num)s` is `n` with separators unless given."""
    filled = {"num": f"{n:,}", **values}
    return plural_form(singular, plural, n) % filled


def plural_form(singular: str, plural: str, n: int) -> str:
    """The plural form for `n`, with its placeholders."""
    form = _catalogue(_spoken.get()).plurals.get(singular)
    if form is not None:
        return form
    return singular if n == 1 else plural


def parse(text: str) -> Language | None:
    """The language in a cookie or a form; None if it is unknown."""
    return Language(text) if text in set(Language) else None


def preferred(accept: str) -> Language:
    """The preferred language of an Accept-Language header, or English.

    Every variant of Chinese gives simplified Chinese, the only one available.
    """
    best, chosen = 0.0, Language.ENGLISH
    for part in accept.split(",")[:RANGES_MAX]:
        name, __, rest = part.strip().lower().partition(";")
        weight = _weight(rest)
        language = {"en": Language.ENGLISH, "zh": Language.CHINESE}.get(name.split("-")[0].strip())
        if language is not None and weight > best:
            best, chosen = weight, language
    return chosen


async def load(language: Language) -> None:
    """Read the catalogue of `language` on a thread, at its first page."""
    if language not in _loaded:
        await asyncio.to_thread(_catalogue, language)
        _loaded.add(language)


def _weight(text: str) -> float:
    text = text.strip()
    if not text.startswith("q="):
        return 1.0
    try:
        return float(text[2:])
    except ValueError:
        return 0.0


@lru_cache(maxsize=len(Language))
def _catalogue(language: Language) -> Catalogue:
    path = CATALOGUES.get(language)
    return ENGLISH if path is None else read(path)


def read(path: Path) -> Catalogue:
    """Read a catalogue file, without untranslated and fuzzy entries."""
    # Babel is only needed here; importing it late keeps the start fast.
    from babel.messages.pofile import read_po

    texts: dict[str, str] = {}
    plurals: dict[str, str] = {}
    with path.open("rb") as file:
        for message in read_po(file):
            if not message.id or message.fuzzy or not message.string:
                continue
            if isinstance(message.id, str):
                texts[message.id] = str(message.string)
            else:
                plurals[message.id[0]] = message.string[0]
                # Gettext stores a text that also has a plural only as a plural entry.
                texts.setdefault(message.id[0], message.string[0])
    return Catalogue(texts, plurals)
