"""The import of topics: a pasted or uploaded file is previewed by row, then applied.

The form that applies it holds each row with a change and the state of its topic in the preview; a
topic that changed meanwhile is reported and left alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal

from msgspec import Meta
from starlette.responses import Response

from app.security.access import Action, Kind, require
from app.services import topic_files
from app.services.topic_imports import OUTCOMES, ImportRow, counted
from app.ui.framework import bulk, forms, pages
from app.ui.framework.forms import Form
from app.ui.framework.language import N_, _
from app.ui.framework.page_request import PageRequest
from app.ui.framework.typed_forms import Fields, Verbatim
from engine.errors import Invalid
from kitemq.model.topics import DEFINITION_COLUMNS, IMPORT_CHARS_MAX


class ImportFields(Fields, frozen=True):
    """The form: a file's content, to be previewed or applied."""

    content: Verbatim
    step: Annotated[Literal["look", "apply"], Meta(title=N_("Step"))]


@dataclass(frozen=True)
class TopicImport:
    """The context of `topic_import.html`; `rows` are the first `bulk.SHOWN_MAX`, counts of all.

    `plan` is the hidden field of the form: one definition per line.
    """

    form: Form
    is_done: bool
    rows: Sequence[ImportRow]
    counts: Mapping[str, int]
    total: int
    plan: str
    rows_max: int = topic_files.ROWS_MAX
    chars_max: int = IMPORT_CHARS_MAX
    shown_max: int = bulk.SHOWN_MAX
    columns: Sequence[str] = DEFINITION_COLUMNS


async def show(request: PageRequest) -> Response:
    """GET /import/topics"""
    return await _page(request, Form({"content": ""}), [])


async def change(request: PageRequest) -> Response:
    """POST /import/topics: preview a file, or apply a preview."""
    form, fields = await request.read_form(ImportFields, bytes_max=forms.LARGE_BYTES_MAX)
    if form.is_wrong:
        return await _page(request, form, [])
    imports = request.services.topic_imports
    allowed = partial(require, request.who, Action.ADMINISTER, Kind.TOPIC)
    try:
        rows = await imports.read(fields.content)
    except Invalid as error:
        form.blame(error)
        return await _page(request, form, [])
    if fields.step == "look":
        return await _page(request, form, await imports.preview(rows, allowed))
    results = await imports.apply(request.actor, rows, allowed)
    return await _page(request, Form({"content": ""}), results, is_done=True)


async def _page(
    request: PageRequest, form: Form, rows: list[ImportRow], *, is_done: bool = False
) -> Response:
    order = list(OUTCOMES)
    listed = sorted(rows, key=lambda row: order.index(row.outcome))
    context = TopicImport(
        form=form,
        is_done=is_done,
        rows=listed[: bulk.SHOWN_MAX],
        counts=counted(rows),
        total=len(rows),
        plan="\n".join(topic_files.line(row.definition) for row in rows if row.definition),
    )
    title = _("Import topics")
    return await pages.respond(request, "topic_import.html", context, title=title, section="topics")
