"""`/openapi.json`, `/docs/api` (the same as a page that needs nothing from other sites), and the
text of `docs/rest.md`.
"""

from collections.abc import Sequence
from functools import lru_cache
from importlib.resources import files
from typing import Any

import msgspec
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from app.api.framework.openapi import TAGS, Json, statuses_of
from app.api.framework.operation import Operation
from app.errors import answer_headers

HTML = b"text/html; charset=utf-8"
CSS = b"text/css; charset=utf-8"
EXAMPLE_URL = "http://127.0.0.1:8080"


class Fixed:
    """ASGI callable that answers with bytes made at its first call."""

    def __init__(self, media_type: bytes, make: Any) -> None:
        self._media_type = media_type
        self._make = lru_cache(maxsize=1)(make)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = self._make()
        headers = answer_headers(self._media_type, body)
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def routes(document: Json, operations: Sequence[Operation]) -> list[Route]:
    """The document as JSON, as a page, and the page's style sheet."""
    return [
        Route("/openapi.json", Fixed(b"application/json", lambda: msgspec.json.encode(document))),
        Route("/docs/api", Fixed(HTML, lambda: page(document, operations))),
        Route("/docs/api.css", Fixed(CSS, lambda: _resource("docs.css").encode())),
    ]


def page(document: Json, operations: Sequence[Operation]) -> bytes:
    """The document as HTML."""
    from jinja2 import Environment, StrictUndefined

    template = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    ).from_string(_resource("docs.html"))
    examples = {item.name: item.example for item in operations}
    text = template.render(document=document, examples=examples, name_of=_name_of)
    return text.encode()


def markdown(operations: Sequence[Operation]) -> str:
    """The text of `docs/rest.md`: its introduction, then every operation with its example."""
    lines = [_resource("rest.md").rstrip()]
    for tag, text in TAGS.items():
        lines += ["", f"## {tag.capitalize()}", "", text]
        for item in (item for item in operations if item.tag == tag):
            lines += ["", *_markdown_of(item)]
    return "\n".join(lines) + "\n"


def _markdown_of(item: Operation) -> list[str]:
    lines = [f"### {item.summary.rstrip('.')}", "", f"`{item.method} {item.path}`"]
    if item.description:
        lines += ["", item.description]
    if item.query is not None:
        names = ", ".join(f"`{name}`" for name in item.query.__struct_fields__)
        lines += ["", f"Query: {names}."]
    if item.headers:
        names = ", ".join(f"`{header.name}`" for header in item.headers)
        lines += ["", f"Headers: {names}."]
    errors = ", ".join(str(status) for status in statuses_of(item))
    lines += ["", f"Answers {item.status}; errors {errors}."]
    return [*lines, "", "```sh", item.example.replace("$URL", EXAMPLE_URL), "```"]


def _resource(name: str) -> str:
    return files("app.api.framework").joinpath(name).read_text()


def _name_of(schema: Json) -> str:
    """A schema in a word or two: its name, or its type."""
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2])
    if "anyOf" in schema:
        return " or ".join(_name_of(item) for item in schema["anyOf"])
    if "enum" in schema:
        return " | ".join(str(item) for item in schema["enum"])
    if schema.get("type") == "array":
        items = schema.get("items")
        return f"list of {_name_of(items)}" if isinstance(items, dict) else "list"
    if schema.get("type") == "object":
        return "object"
    return str(schema.get("type", "any"))
