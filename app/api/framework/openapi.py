"""The OpenAPI document, made from the operations: msgspec's schemas are the component schemas."""

import re
from collections.abc import Iterable, Sequence
from http import HTTPStatus
from typing import Any

import msgspec

from app.api.framework.operation import Operation
from app.errors import Problem
from app.security.access import PUBLIC
from app.version import VERSION
from kitemq.model.conversion import schema_of

REF = "#/components/schemas/{name}"
PLACE = re.compile(r"\{(\w+)\}")
DESCRIPTION = (
    "KiteMQ is RocketMQ's messaging model in one process. Offsets, positions and ids are texts, "
    "times are milliseconds since 1970 UTC. Every error is an RFC 9457 problem whose `code` never "
    "changes."
)
TAGS = {
    "messages": "Produce, and read without consuming.",
    "consume": "Receive with a receipt, then settle.",
    "topics": "Where messages go.",
    "groups": "Who consumes, how far, with which retries.",
    "members": "Live consumers of a group, whose queues are whose, and locks on them.",
    "clients": "Asking one client, and sending it away.",
    "dead letters": "What a group could not consume, and sending it again.",
    "replays": "Chosen messages sent again, at a pace, with an outcome for each.",
    "retention": "How long messages are kept; purging topics.",
    "scheduled": "What waits for its time of delivery.",
    "requests": "Ask over a topic, and reply.",
    "transactions": "What a producer may still commit or roll back.",
    "traces": "What happened to a message.",
    "statistics": "How much, how fast, how long; and lag over time.",
    "alerts": "What to be told of, where it stands, and who was told.",
    "reports": "When Spark computes them, what became of the runs, and the figures.",
    "access": "Users, tokens and logins; who may do what.",
    "views": "Lists of the console with their filters, each under a name of one's own.",
    "system": "The server itself.",
    "control": "Its self-checks, the read-only switch, levels of its log, a support bundle.",
}
# Every operation can answer these: wrong name, too much at once, starting or stopping, failure.
ALWAYS = (400, 421, 429, 500, 503)
GUARDED = (401, 403)  # errors of a server with users
WITH_INPUT = (422,)
WITH_BODY = (413, 415)

Json = dict[str, Any]


def describe(operations: Sequence[Operation]) -> Json:
    """The whole document."""
    kinds: list[Any] = [Problem]
    for item in operations:
        kinds += [kind for kind in (item.query, item.answer) if kind is not None]
        kinds += _bodies(item)
    schemas, components = msgspec.json.schema_components(
        kinds, schema_hook=schema_of, ref_template=REF
    )
    by_kind = {_key(kind): schema for kind, schema in zip(kinds, schemas, strict=True)}
    paths: dict[str, Json] = {}
    for item in operations:
        paths.setdefault(item.path, {})[item.method.lower()] = _entry(item, by_kind, components)
    for item in operations:
        if item.query is not None:  # written out as parameters
            components.pop(item.query.__name__, None)
    return {
        "openapi": "3.1.0",
        "info": {"title": "KiteMQ", "version": VERSION, "description": DESCRIPTION},
        "tags": [{"name": name, "description": text} for name, text in TAGS.items()],
        "paths": paths,
        "components": {"schemas": components},
    }


def statuses_of(item: Operation) -> list[int]:
    """Every error status that an operation can answer, in order."""
    statuses = {*ALWAYS, *item.errors}
    if item.needs is not PUBLIC:
        statuses.update(GUARDED)
    if item.query is not None or item.body is not None or PLACE.search(item.path):
        statuses.update(WITH_INPUT)
    if item.body is not None:
        statuses.update(WITH_BODY)
    return sorted(statuses)


def _key(kind: Any) -> str:
    return repr(kind)


def _bodies(item: Operation) -> tuple[Any, ...]:
    if item.body is None:
        return ()
    return item.body if isinstance(item.body, tuple) else (item.body,)


def _entry(item: Operation, by_kind: dict[str, Json], components: dict[str, Json]) -> Json:
    entry: Json = {
        "operationId": item.name,
        "summary": item.summary.rstrip("."),
        "description": item.description,
        "tags": [item.tag],
        "responses": dict(_responses(item, by_kind)),
    }
    parameters = [*_path_parameters(item), *_query_parameters(item, components)]
    parameters += [
        {
            "name": header.name,
            "in": "header",
            "required": False,
            "description": header.description,
            "schema": {"type": "string"},
        }
        for header in item.headers
    ]
    if parameters:
        entry["parameters"] = parameters
    if item.body is not None:
        schemas = [by_kind[_key(kind)] for kind in _bodies(item)]
        schema = schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
        content: Json = {"application/json": {"schema": schema}}
        if item.raw_body:
            content["application/octet-stream"] = {"schema": {"type": "string", "format": "binary"}}
            content["text/plain"] = {"schema": {"type": "string"}}
        entry["requestBody"] = {"required": True, "content": content}
    return entry


def _path_parameters(item: Operation) -> Iterable[Json]:
    for name in PLACE.findall(item.path):
        yield {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}


def _query_parameters(item: Operation, components: dict[str, Json]) -> Iterable[Json]:
    if item.query is None:
        return
    schema = components[item.query.__name__]
    for name, parameter in schema["properties"].items():
        text = parameter.get("description", "")
        plain = {key: value for key, value in parameter.items() if key != "description"}
        yield {
            "name": name,
            "in": "query",
            "required": name in schema.get("required", ()),
            "description": text,
            "schema": plain,
        }


def _responses(item: Operation, schemas: dict[str, Json]) -> Iterable[tuple[str, Json]]:
    good: Json = {"description": HTTPStatus(item.status).phrase}
    if item.answer is not None:
        good["content"] = {item.media_type: {"schema": schemas[_key(item.answer)]}}
    yield str(item.status), good
    problem = {"application/problem+json": {"schema": schemas[_key(Problem)]}}
    for status in statuses_of(item):
        answer: Json = {"description": HTTPStatus(status).phrase, "content": dict(problem)}
        if status in (429, 503):
            answer["headers"] = {
                "Retry-After": {"description": "Seconds.", "schema": {"type": "integer"}}
            }
        if status == 503 and item.path == "/readyz":
            answer["content"][item.media_type] = {"schema": schemas[_key(item.answer)]}
        yield str(status), answer
