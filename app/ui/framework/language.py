"""The language that a page is written in: English texts are the keys, catalogues hold the rest.

`speak` says once per request which language its texts have; a context variable carries the
choice, also to the thread that renders. Whatever nobody chose a language for is English: the API,
exports, the audit trail. How a new text is written: docs/contributing.md.
"""

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from pathlib import Path

ROOT = Path(__file__).parent.parent / "locale"
DOMAIN = "console"
RANGES_MAX = 20  # of an Accept-Language header; what follows is not read


class Language(StrEnum):
    """As `<html lang>` names it."""

    ENGLISH = "en"
    CHINESE = "zh-CN"

    @property
    def own_name(self) -> str:
        """What those who speak it call it."""
        return OWN_NAMES[self]


OWN_NAMES = {Language.ENGLISH: "English", Language.CHINESE: "中文"}
CATALOGUES = {Language.CHINESE: ROOT / "zh_CN" / "LC_MESSAGES" / f"{DOMAIN}.po"}


@dataclass(frozen=True)
class Catalogue:
    """Texts by their English one, and for sentences with a count by its singular."""

    texts: Mapping[str, str]
    plurals: Mapping[str, str]


ENGLISH = Catalogue({}, {})
_spoken: ContextVar[Language] = ContextVar("language", default=Language.ENGLISH)


def speak(language: Language) -> None:
    """From here on texts of this request are in `language`."""
    _spoken.set(language)


def spoken() -> Language:
    """The language that texts have now."""
    return _spoken.get()


def N_(text: str) -> str:
    """Mark a constant for the catalogue; `translated` puts it into words later."""
    return text


def translated(text: str) -> str:
    """`text` in the language of this request; as it is where the catalogue does not have it."""
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
    """The form that fits `n`, its placeholders still in it."""
    form = _catalogue(_spoken.get()).plurals.get(singular)
    if form is not None:
        return form
    return singular if n == 1 else plural


def parse(text: str) -> Language | None:
    """The language of a cookie or a form; None for what is none."""
    return Language(text) if text in set(Language) else None


def preferred(accept: str) -> Language:
    """The language that an Accept-Language header asks for first; English if it names none.

    Any Chinese is answered in the simplified Chinese there is.
    """
    best, chosen = 0.0, Language.ENGLISH
    for part in accept.split(",")[:RANGES_MAX]:
        name, __, rest = part.strip().lower().partition(";")
        weight = _weight(rest)
        language = {"en": Language.ENGLISH, "zh": Language.CHINESE}.get(name.split("-")[0].strip())
        if language is not None and weight > best:
            best, chosen = weight, language
    return chosen


def load() -> None:
    """Read the catalogues now, so that the first page in another language need not wait."""
    for language in Language:
        _catalogue(language)


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
    """A catalogue file as look-ups; what is untranslated or fuzzy is left out."""
    # Babel is only needed here, and a server starts without waiting for it.
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
                # Gettext holds a word that also stands alone only with its plural.
                texts.setdefault(message.id[0], message.string[0])
    return Catalogue(texts, plurals)
