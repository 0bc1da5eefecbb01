"""The SDK and the REST API agree: each operation has a method, with its structs and parameters."""

import inspect
import re
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, get_args, get_origin

import httpx
import msgspec
import pytest

from app.api.catalog import OPERATIONS
from app.api.framework.operation import Operation
from kitemq import Client
from kitemq.api.connection import Api, RestConnection
from kitemq.message import Message
from kitemq.model.conversion import decoded
from kitemq.rest import API

pytestmark = pytest.mark.makers

# Operations that no method of the client calls.
LEFT_OUT = {
    "GET /healthz": "for probes of processes, which speak plain HTTP",
    "GET /readyz": "for probes of load balancers, which speak plain HTTP",
    "GET /metrics": "for Prometheus, which reads text",
}
NEEDED: dict[str, dict[str, Any]] = {  # further arguments where a struct asks for them, by method
    "groups.create": {"start": "earliest"},
    "alerts.create_rule": {"kind": "lag"},
    "alerts.create_receiver": {"kind": "webhook"},
    "server.set_log_level": {"level": "info"},
    "scheduled.reschedule": {"delay_ms": 1},
    "topics.purge": {"everything": True},
    "transactions.decide": {"decision": "commit"},
    "groups.preview_reset": {"to": "earliest"},
    "groups.reset": {"to": "earliest"},
    "replays.create": {"to": "origin"},
    "dead_letters.redrive": {"to": "group"},
}
DECISIONS = ("rollback", "unknown", "resume")


class Sent(Exception):
    """A request of the client, which gets no answer."""

    def __init__(self, request: httpx.Request) -> None:
        super().__init__(f"{request.method} {request.url}")
        self.request = request


class Call(typing.NamedTuple):
    """One call of the client: its method, the request, and the struct of its answer."""

    name: str
    request: httpx.Request
    answer: Any

    @property
    def operation(self) -> Operation:
        path = self.request.url.path
        fitting = [
            each
            for each in OPERATIONS
            if each.method == self.request.method and _pattern(each).fullmatch(path)
        ]
        assert fitting, f"{self.name} calls {self.request.method} {path}, which is no operation"
        return min(fitting, key=lambda each: each.path.count("{"))


def _pattern(operation: Operation) -> re.Pattern[str]:
    return re.compile(re.sub(r"\{\w+\}", "[^/]+", operation.path))


def _argument(name: str, kind: Any) -> Any:
    """A value of this type."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (types.UnionType, typing.Union):
        kinds = [part for part in parts if part is not types.NoneType]
        return _argument(name, str if str in kinds else kinds[0])
    if inspect.isclass(origin) and issubclass(origin, Mapping):
        return {_argument(name, parts[0]): _argument(name, parts[1])}
    if inspect.isclass(origin) and issubclass(origin, Iterable):
        return [_argument(name, parts[0])]
    if kind is Message:
        return Message(body="x")
    if kind in (int, float):
        return 1
    assert kind is str, (name, kind)
    return "1"


def _methods(client: Client) -> Iterator[tuple[str, Any]]:
    for resource, api in vars(client).items():
        if isinstance(api, Api):
            for name in vars(type(api)):
                if not name.startswith("_"):
                    yield f"{resource}.{name}", getattr(api, name)


def _arguments(method: Any) -> dict[str, Any]:
    hints = typing.get_type_hints(method)
    return {
        name: _argument(name, hints[name])
        for name, parameter in inspect.signature(method).parameters.items()
        if parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD
    }


def _request(method: Any, arguments: dict[str, Any]) -> httpx.Request:
    """The request of a call; that of a list is sent for its first item."""
    try:
        next(iter(method(**arguments)))
    except Sent as sent:
        return sent.request
    raise AssertionError(f"{method} sent nothing")


@pytest.fixture(scope="module")
def calls() -> list[Call]:
    """A call of each method of the client."""

    def refuse(request: httpx.Request) -> httpx.Response:
        raise Sent(request)

    answers: list[Any] = []
    fetch = RestConnection.fetch

    def recorded(self: RestConnection, kind: Any, *arguments: Any, **named: Any) -> Any:
        answers.append(kind)
        return fetch(self, kind, *arguments, **named)

    made: list[Call] = []
    with pytest.MonkeyPatch.context() as patch, Client("http://127.0.0.1:9") as client:
        patch.setattr(RestConnection, "fetch", recorded)
        patch.setattr(
            client._rest,
            "_http",
            httpx.Client(base_url=client.url + API, transport=httpx.MockTransport(refuse)),
        )
        for name, method in _methods(client):
            needed = _arguments(method) | NEEDED.get(name, {})
            variants = [needed]
            if name == "transactions.decide":
                variants += [{**needed, "decision": decision} for decision in DECISIONS]
            for arguments in variants:
                answers.clear()
                answers.append(None)
                request = _request(method, arguments)
                made.append(Call(name, request, answers[-1]))
    return made


def test_every_operation_has_a_method_or_a_reason(calls: list[Call]) -> None:
    covered = {f"{each.operation.method} {each.operation.path}" for each in calls}
    every = {f"{each.method} {each.path}" for each in OPERATIONS}
    assert every - covered == set(LEFT_OUT)


def test_a_method_returns_the_struct_of_its_operation(calls: list[Call]) -> None:
    wrong = {
        each.name: (each.answer, each.operation.answer)
        for each in calls
        if each.answer is not each.operation.answer
        and not (each.answer is None and each.operation.media_type != "application/json")
    }
    assert not wrong


def test_a_method_sends_the_parameters_of_its_operation(calls: list[Call]) -> None:
    for call in calls:
        query = call.operation.query
        names = set(query.__struct_fields__) if query is not None else set()
        assert set(call.request.url.params) <= names, call.name


def test_a_method_sends_the_body_of_its_operation(calls: list[Call]) -> None:
    for call in calls:
        bodies = call.operation.body
        if bodies is None:
            assert not call.request.content, call.name
            continue
        kind = bodies[0] if isinstance(bodies, tuple) else bodies
        msgspec.json.decode(call.request.content, type=kind, dec_hook=decoded)
