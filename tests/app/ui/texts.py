"""The console's texts as Babel's own extractors find them, and the catalogue brought up to date.

    python -m tests.app.ui.texts

adds every new text to the Chinese catalogue, still untranslated, drops those that nothing uses any
more, sorts it, and prints what is left to translate. The tests refuse a catalogue that is not done.
"""

import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from babel.messages.catalog import Catalog, Message
from babel.messages.extract import extract_from_dir
from babel.messages.pofile import read_po, write_po

from app.monitoring.forecast import NOT_BEGUN, TOO_YOUNG
from app.monitoring.lag_reader import SPANS
from app.services.alerts.rules import ABOUT
from app.services.connections import WHY_NOT
from app.services.member_queues import QUEUES_UNKNOWN
from app.ui.framework import language
from app.ui.framework.language import Language
from app.ui.help.glossary import CHAPTERS, TERMS
from engine.broker import ReplayState, TransactionState
from engine.delivery.dead_letter import DeadLetterReason
from kitemq.model.alerts import Severity

UI = Path(language.__file__).parent.parent
METHODS = [("**/templates/**.html", "jinja2.ext:babel_extract"), ("**.py", "python")]
KEYWORDS = {"_": None, "gettext": None, "N_": None, "ngettext": (1, 2)}
OPTIONS = {"**.html": {"trimmed": "true", "newstyle_gettext": "true", "silent": "false"}}
WIDTH = 10_000  # one line a text, so that searching finds it


def extract(folder: Path = UI) -> Catalog:
    """Every text that templates and Python of the console use."""
    catalog = Catalog()
    messages = extract_from_dir(
        folder, METHODS, {"**/templates/**.html": OPTIONS["**.html"]}, keywords=KEYWORDS
    )
    for __, ___, text, ____, _____ in messages:
        catalog.add(text)
    for text in filter(None, borrowed()):
        catalog.add(text)
    return catalog


def _extracted(folder: Path) -> Iterator[Any]:
    """What Babel finds: file, line, text, comments, context."""
    options = {"**/templates/**.html": OPTIONS["**.html"]}
    return extract_from_dir(folder, METHODS, options, keywords=KEYWORDS)


def english() -> set[str]:
    """Every English text."""
    ids = {text for text in borrowed() if text}
    for _, __, text, ___, ____ in _extracted(UI):
        ids.update((text,) if isinstance(text, str) else text)
    return ids


def borrowed() -> Iterator[str]:
    """Words that pages show and that data and other packages hold: they know no language."""
    for about in ABOUT.values():
        yield from (about.label, about.unit, about.help)
    yield from Severity
    yield from WHY_NOT
    yield from QUEUES_UNKNOWN
    yield from (span.label for span in SPANS)
    yield from (chapter.title for chapter in CHAPTERS)
    for term in TERMS.values():
        yield from (term.name, term.text)
    yield from (NOT_BEGUN, TOO_YOUNG)
    yield from (state.value for state in ReplayState)
    yield from (state.value.replace("_", " ") for state in TransactionState)
    yield from (reason.value.replace("_", " ") for reason in DeadLetterReason)


def read(tongue: Language) -> Catalog:
    """The committed catalogue."""
    with language.CATALOGUES[tongue].open("rb") as file:
        return read_po(file, abort_invalid=True)


def update(tongue: Language) -> Iterator[str]:
    """Bring a catalogue's file up to date; the texts that wait for somebody to translate them."""
    path = language.CATALOGUES[tongue]
    catalog = read(tongue)
    catalog.update(extract(), no_fuzzy_matching=True)
    catalog.obsolete.clear()
    for message in catalog:  # Babel's word for one that got a plural, or lost it
        if message.fuzzy and message.id:
            message.flags.discard("fuzzy")
            message.string = "" if isinstance(message.id, str) else ("",)
    body = io.BytesIO()
    write_po(body, catalog, width=WIDTH, no_location=True, sort_output=True, omit_header=True)
    # The head is written by hand: its comment lists the words to use.
    head = path.read_text("utf-8").partition("\n\n")[0].rstrip("\n")
    path.write_text(f"{head}\n\n{body.getvalue().decode()}", "utf-8")
    for message in catalog:
        if message.id and not is_translated(message):
            yield message.id if isinstance(message.id, str) else message.id[0]


def is_translated(message: Message) -> bool:
    """Whether every form of it has words."""
    forms = (message.string,) if isinstance(message.string, str) else message.string or ()
    return bool(forms) and all(forms)


if __name__ == "__main__":
    for tongue in language.CATALOGUES:
        for text in update(tongue):
            sys.stdout.write(f"{tongue}: {text}\n")
