"""The console's Jinja environment: strict names, autoescape, rendering of single blocks."""

import shlex
from collections.abc import Mapping, Sequence
from datetime import UTC, tzinfo
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jinja2

from app.ui.framework import formats, language, markdown
from app.ui.framework.assets import Assets
from app.ui.framework.formats import say_length
from app.ui.reports import words as report_words

ROOTS = sorted(Path(__file__).parent.parent.glob("*/templates"))


class Templates:
    """Renders a page, or one named block of it, from the same template."""

    def __init__(self, assets: Assets, roots: Sequence[Path] = ROOTS) -> None:
        self._environment = jinja2.Environment(
            loader=jinja2.FileSystemLoader(roots),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
            cache_size=100,
            extensions=["jinja2.ext.i18n"],
        )
        # A text may span lines in the template; its key has single spaces.
        self._environment.policies["ext.i18n.trimmed"] = True
        self._environment.install_gettext_callables(  # type: ignore[attr-defined]
            language.translated, language.plural_form, newstyle=True
        )
        self._environment.filters.update(
            count=formats.count,
            size=formats.size,
            rate=formats.rate,
            duration=formats.duration,
            absolute=_absolute,
            iso=formats.iso,
            segment=segment,
            shell=shlex.quote,
            translated=language.translated,
            markdown=markdown.html,
        )
        self._environment.globals.update(
            asset=assets.url, ago=formats.ago, clock=_clock, tongues=language.OWN_NAMES.items()
        )
        self._environment.globals.update(
            say_length=say_length, state_word=report_words.state, state_tone=report_words.tone
        )
        self._environment.globals.update(
            change_word=report_words.change, verdict_word=report_words.verdict
        )

    def has_block(self, template: str, block: str) -> bool:
        return block in self._environment.get_template(template).blocks

    def render(self, template: str, block: str, values: Mapping[str, Any]) -> str:
        """Render the whole page, or one named block as it appears in the page."""
        source = self._environment.get_template(template)
        if not block:
            return source.render(values)
        context = source.new_context(dict(values))
        return "".join(source.blocks[block](context))


@jinja2.pass_context
def _absolute(context: jinja2.runtime.Context, at_ms: int) -> str:
    return formats.absolute(at_ms, _zone(context))


@jinja2.pass_context
def _clock(context: jinja2.runtime.Context, at_ms: int, now_ms: int) -> str:
    return formats.clock(at_ms, now_ms, _zone(context))


def _zone(context: jinja2.runtime.Context) -> tzinfo:
    """The zone of the page's user; UTC for a page without a user."""
    frame = context.get("frame")
    return UTC if frame is None else frame.zone.rules


def segment(name: str) -> str:
    """A name as one segment of a path: "%DLQ%g" becomes "%25DLQ%25g"."""
    return quote(name, safe="")
