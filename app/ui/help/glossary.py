"""The glossary of RocketMQ and this console, as glossary.toml beside this module has it."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

import msgspec

FILE = Path(__file__).with_name("glossary.toml")


@dataclass(frozen=True)
class Term:
    """A term; `name` and `text` are English, the keys of the catalogues."""

    slug: str
    name: str
    text: str
    href: str


@dataclass(frozen=True)
class Chapter:
    """A chapter of related terms."""

    slug: str
    title: str
    terms: tuple[Term, ...]


def _terms(terms: dict[str, dict[str, str]]) -> tuple[Term, ...]:
    return tuple(msgspec.convert({"slug": slug, **term}, Term) for slug, term in terms.items())


CHAPTERS = tuple(
    Chapter(slug, chapter["title"], _terms(chapter["terms"]))
    for slug, chapter in tomllib.loads(FILE.read_text("utf-8")).items()
)
TERMS = {term.slug: term for chapter in CHAPTERS for term in chapter.terms}
