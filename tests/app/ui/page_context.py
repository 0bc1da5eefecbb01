"""What a page is made of, for tests: with `?format=json` a page's context instead of its markup.

Only the tests have it, in the servers that run in their process. Programs have the REST API.
"""

from datetime import tzinfo
from pathlib import Path
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from app.ui.framework import pages
from kitemq.model import conversion

# As text, as in the REST API's answers.
AS_TEXT = frozenset(
    {"offset", "position", "min_offset", "max_offset", "next_offset", "cursor", "offsets"}
    | {"committed", "current_offset", "new_offset", "seen_offset"}
)

_respond = pages.respond


def install() -> None:
    """Let the pages of this process answer with their contexts where a test asks for them."""
    pages.respond = respond_with_context


async def respond_with_context(
    request: Request, template: str, context: object, *, status: int | None = None, **words: object
) -> Response:
    if request.query_params.get("format") != "json":
        return await _respond(request, template, context, status=status, **words)
    content = await pages.console_of(request).render(lambda: encoded(context))
    status = pages.status_of(context) if status is None else status
    return Response(content, status, media_type="application/json")


def encoded(context: object) -> bytes:
    """The context as JSON."""
    return msgspec.json.encode(_plain(msgspec.to_builtins(context, enc_hook=_encoded)))


def _encoded(value: object) -> object:
    # How a column makes its cells is no figure of the page.
    if isinstance(value, Path | tzinfo):
        return str(value)
    return None if callable(value) else conversion.encoded(value)


def _plain(value: Any, name: str = "") -> Any:
    if isinstance(value, dict):
        return {key: _plain(child, key) for key, child in value.items()}
    if isinstance(value, list):
        return [_plain(child, name) for child in value]
    return str(value) if name in AS_TEXT and isinstance(value, int) else value
