"""The notes on a topic: what it is for, written by people as Markdown."""

from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from app.container import services_of
from app.ui.framework import forms, pages
from app.ui.framework.forms import Form
from app.ui.framework.language import _
from app.ui.framework.templating import segment
from app.ui.topics import starred
from app.ui.topics.head import Head, head_of
from engine.broker import TopicConfig
from engine.errors import Conflict, Invalid
from kitemq.model.numbers import is_whole
from kitemq.model.stars_and_notes import NOTE_CHARS_MAX

FIELDS = ("text", "version")
VERSION_CHARS_MAX = 18


@dataclass(frozen=True)
class TopicDocs:
    """The context of `topic_docs.html`; `text` is the stored note, `form` the edited one.

    `is_older` if the note is about an earlier topic of this name; `is_conflict` if another user
    changed it meanwhile.
    """

    head: Head
    tab: str
    text: str
    author: str
    changed_ms: int | None
    is_older: bool
    is_editing: bool
    is_conflict: bool
    form: Form
    chars_max: int = NOTE_CHARS_MAX


async def show(request: Request) -> Response:
    """GET /topics/{topic}/docs, with `edit` the form."""
    config = pages.console_of(request).broker.topic(request.path_params["topic"])
    is_editing = "edit" in request.query_params
    return await _page(request, config, None, is_editing=is_editing)


async def change(request: Request) -> Response:
    """POST /topics/{topic}/docs: save the note, or show the form with its errors.

    On a conflict the page shows both texts: the stored one above, the user's own in the field.
    """
    config = pages.console_of(request).broker.topic(request.path_params["topic"])
    form = forms.fill(await forms.read(request), FIELDS)
    version = form.values["version"]
    if not is_whole(version, VERSION_CHARS_MAX):
        form.error = _("The form is not whole: open the note again.")
        return await _page(request, config, form, status=422)
    marks, actor = services_of(request.scope).stars_and_notes, starred.actor(request)
    try:
        await marks.write_note(actor, config.name, form.values["text"], int(version))
    except Conflict as error:
        form.blame(error, {"version": ""})
        return await _page(request, config, form, status=409)
    except Invalid as error:
        form.blame(error)
        return await _page(request, config, form, status=422)
    return forms.go(request, f"/topics/{segment(config.name)}/docs?done=changed")


async def _page(
    request: Request,
    config: TopicConfig,
    form: Form | None,
    *,
    is_editing: bool = True,
    status: int = 200,
) -> Response:
    note = await services_of(request.scope).stars_and_notes.note(config.name)
    if form is None:
        form = Form({"text": note.text})
    # The next change is checked against the note shown now.
    form.values["version"] = str(note.changed_ms)
    context = TopicDocs(
        head=await head_of(request, config),
        tab="docs",
        text=note.text,
        author=note.author,
        changed_ms=note.changed_ms or None,
        is_older=0 < note.changed_ms < config.created_ms,
        is_editing=is_editing,
        is_conflict=status == 409,
        form=form,
    )
    return await pages.respond(
        request, "topic_docs.html", context, title=config.name, section="topics", status=status
    )
