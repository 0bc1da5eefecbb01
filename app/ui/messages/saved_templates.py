"""Templates of the Produce form: filling it in, saving, deleting."""

from starlette.responses import Response

from app.db.rows import TemplateRow
from app.services.ttl_cache import CacheEntry
from app.ui.framework import forms
from app.ui.framework.forms import Form
from app.ui.framework.language import _
from app.ui.framework.page_request import PageRequest
from app.ui.framework.templating import segment
from engine.errors import NotFound
from kitemq.model.numbers import is_whole

ID_CHARS_MAX = 18
# An exact time passes, and a template has a name of its own.
UNSAVED = frozenset({"at", "zone", "template"})


async def glance(request: PageRequest) -> CacheEntry[list[TemplateRow]]:
    """The templates of the user; `failure` says why they are unknown."""
    version = request.services.user_directory.version
    return await request.services.templates.glance(request.who.name, version)


async def fields_of(request: PageRequest) -> dict[str, str]:
    """The texts of the template that the address names; none without one. Raises NotFound."""
    text = request.query_params.get("template", "")
    if not text:
        return {}
    fields = await request.services.templates.fields(request.who.name, _id(text))
    return {name: value for name, value in fields.items() if name not in UNSAVED}


async def save(request: PageRequest, topic: str, form: Form) -> TemplateRow:
    """Keep the texts of the form under the name in its field `template`."""
    name = form.values["template"]
    fields = {key: value for key, value in form.values.items() if key not in UNSAVED}
    templates = request.services.templates
    return await templates.save(request.actor, request.who.name, name, topic, fields)


async def delete(request: PageRequest) -> Response:
    """POST /topics/{topic}/produce/templates/{id}/delete"""
    template_id = _id(request.path_params["id"])
    await request.services.templates.delete(request.actor, request.who.name, template_id)
    return forms.go(
        request, f"/topics/{segment(request.path_params['topic'])}/produce?done=deleted"
    )


def _id(text: str) -> int:
    if not is_whole(text, ID_CHARS_MAX):
        raise NotFound(_("there is no template %(text)s", text=f"{text[:40]!r}"), field="template")
    return int(text)
