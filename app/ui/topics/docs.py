"""The notes on a topic: what it is for, written by people as Markdown."""

from dataclasses import dataclass

from starlette.responses import Response

from app.ui.framework import forms
from app.ui.framework.forms import Form
from app.ui.framework.language import _
from app.ui.framework.page_request import PageRequest
from app.ui.framework.templating import segment
from app.ui.framework.typed_forms import Fields, Verbatim
from app.ui.topics.head import TopicTab, head_of, respond, topic_of
from engine.broker import TopicConfig
from engine.errors import Conflict, Invalid
from kitemq.model.stars_and_notes import NOTE_CHARS_MAX


class NoteFields(Fields, frozen=True):
    """The form for a note; `version` is that of the note which it was filled from."""

    text: Verbatim
    version: int


@dataclass(frozen=True)
class TopicDocs(TopicTab):
    """The context of `topic_docs.html`; `text` is the stored note, `form` the edited one.

    `is_older` if the note is about an earlier topic of this name; `is_conflict` if another user
    changed it meanwhile.
    """

    text: str
    author: str
    changed_ms: int | None
    is_older: bool
    is_editing: bool
    is_conflict: bool
    form: Form
    chars_max: int = NOTE_CHARS_MAX


async def show(request: PageRequest) -> Response:
    """GET /topics/{topic}/docs, with `edit` the form."""
    config = await topic_of(request)
    is_editing = "edit" in request.query_params
    return await _page(request, config, None, is_editing=is_editing)


async def change(request: PageRequest) -> Response:
    """POST /topics/{topic}/docs: save the note, or show the form with its errors.

    On a conflict the page shows both texts: the stored one above, the user's own in the field.
    """
    config = await topic_of(request)
    form, fields = await request.read_form(NoteFields)
    if form.is_wrong:
        form.error = _("The form is incomplete: open the note again.")
        return await _page(request, config, form)
    marks, actor = request.services.stars_and_notes, request.actor
    try:
        await marks.write_note(actor, config.name, fields.text, fields.version)
    except (Conflict, Invalid) as error:
        form.blame(error, {"version": ""})
        return await _page(request, config, form)
    return forms.go(request, f"/topics/{segment(config.name)}/docs?done=changed")


async def _page(
    request: PageRequest, config: TopicConfig, form: Form | None, *, is_editing: bool = True
) -> Response:
    note = await request.services.stars_and_notes.note(config.name)
    if form is None:
        form = Form({"text": note.text})
    # The next change is checked against the note shown now.
    form.values["version"] = str(note.changed_ms)
    context = TopicDocs(
        head=await head_of(request, config, "docs"),
        text=note.text,
        author=note.author,
        changed_ms=note.changed_ms or None,
        is_older=0 < note.changed_ms < config.created_ms,
        is_editing=is_editing,
        is_conflict=form.status == 409,
        form=form,
    )
    return await respond(request, "topic_docs.html", context)
