"""Numbers at the borders of their kind in every operation of REST: answered or refused, never 500.

Afterwards a server on the same directory starts, and finds nothing to set aside.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.app.conftest import App, started

pytestmark = pytest.mark.anyio
BORDERS = (0, -1, 2**31, 2**63 - 1, 2**63, 2**64)
NAMES = {"topic": "orders", "group": "g", "client": "c", "key": "k", "state": "", "name": "g"}
LEFT_OUT = ("/users", "/me", "/login", "/reports", "/control", "/simulator", "/support", "/tail")
DEPTH_MAX = 6
KEPT_DEPTH = 5
Request = tuple[str, str, dict[str, Any], Any]


class Schemas:
    """Values of the shapes that the description has, every whole number being the same."""

    def __init__(self, document: dict[str, Any], number: int) -> None:
        self.document = document
        self.number = number

    def value(self, schema: dict[str, Any], name: str = "", depth: int = 0) -> Any:
        if "$ref" in schema:
            schema = self.document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        for union in ("anyOf", "oneOf", "allOf"):
            if union in schema:
                return self.value(schema[union][0], name, depth)
        if "enum" in schema:
            return schema["enum"][0]
        kind = schema.get("type", "string")
        kind = kind[0] if isinstance(kind, list) else kind
        if kind in ("integer", "number"):
            return self.number
        if kind == "array":
            items = schema.get("items") or (schema.get("prefixItems") or [{}])[0]
            return [] if depth > DEPTH_MAX else [self.value(items, name, depth + 1)]
        if kind == "object":
            fields = schema.get("properties", {})
            return {key: self.value(each, key, depth + 1) for key, each in fields.items()}
        if kind == "boolean":
            return False
        return self.text(name, schema)

    def text(self, name: str, schema: dict[str, Any]) -> str:
        if name in ("receipt", "receipts"):
            return f"orders:0:{abs(self.number)}:0"
        if name in NAMES:
            return NAMES[name]
        return (
            str(self.number)
            if "offset" in name or name == "id"
            else str(schema.get("default", "x"))
        )


def requests_of(document: dict[str, Any], number: int) -> Iterator[Request]:
    schemas = Schemas(document, number)
    for path, methods in document["paths"].items():
        if any(part in path for part in LEFT_OUT):
            continue
        for method, operation in methods.items():
            if method == "delete" and path.count("/") < KEPT_DEPTH:
                continue  # topic and group are needed
            url, query = target_of(path, operation, schemas)
            for body in bodies_of(operation, schemas):
                yield method.upper(), url, query, body


def target_of(path: str, operation: Any, schemas: Schemas) -> tuple[str, dict[str, Any]]:
    query = {}
    for parameter in operation.get("parameters", ()):
        name, schema = parameter["name"], parameter["schema"]
        value = schemas.value(schema, name)
        is_number = schema.get("type") in ("integer", "number")
        if parameter["in"] == "path":
            text = str(schemas.number) if name in ("queue", "offset", "id") else str(value)
            path = path.replace("{" + name + "}", text)
        elif is_number or parameter.get("required"):
            query[name] = value
    return path, query


def bodies_of(operation: Any, schemas: Schemas) -> Iterator[Any]:
    """All fields, then one at a time: that gets further."""
    body = operation.get("requestBody", {}).get("content", {}).get("application/json")
    given = None if body is None else schemas.value(body["schema"])
    yield given
    if isinstance(given, dict):
        for name, value in given.items():
            if isinstance(value, (int, list, dict)):
                yield {name: value}


async def test_no_number_is_more_than_refused_over_rest(tmp_path: Path) -> None:
    bad: list[str] = []
    async with started(tmp_path / "data") as running:
        await running.post("/topics", {"name": "orders", "read_queues": 1, "write_queues": 1}, 201)
        await running.post("/groups", {"name": "g"}, 201)
        await running.send("orders", "a", "b")
        document = (await running.http.get("/openapi.json")).json()
        for number in BORDERS:
            for method, url, query, body in requests_of(document, number):
                answer = await running.http.request(method, url, params=query, json=body)
                if answer.status_code == 500:
                    bad.append(f"{method} {url} {query} {body}: {answer.text}")
        running.advance(60)
        health = running.app.services.host.broker.health()
        assert health.is_ready, health.failures
    assert not bad, "\n".join(bad)
    await check_start(tmp_path / "data")


async def check_start(data: Path) -> None:
    async with started(data) as running:
        app: App = running
        assert not app.app.services.host.broker.health().damages
        assert app.app.services.host.broker.health().is_ready
