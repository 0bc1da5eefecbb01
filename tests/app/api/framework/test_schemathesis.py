"""What the description promises holds for whatever schemathesis makes up: in and out of schema."""

from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import Any

import httpx
import pytest
import requests
import schemathesis
from anyio.from_thread import BlockingPortal, start_blocking_portal
from hypothesis import HealthCheck, settings
from schemathesis import Case
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from app.api.catalog import OPERATIONS
from app.api.framework.openapi import describe
from tests.app.conftest import URL, App, started

EXAMPLES = 25
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
NAMES = ("orders", "0")

schema = schemathesis.openapi.from_dict(describe(OPERATIONS))


class Server:
    """The application on a thread of its own, asked from the test's."""

    def __init__(self, portal: BlockingPortal, app: App) -> None:
        self._portal = portal
        self._app = app

    def ask(self, case: Case) -> httpx.Response:
        """Send what schemathesis made; a long poll is made a short one."""
        for part in (case.body, case.query):
            for name in ("wait_ms", "timeout_ms"):
                if isinstance(part, dict) and isinstance(part.get(name), int):
                    part[name] = min(part[name], 1)
        made = requests.Request(**as_request(case)).prepare()
        request = httpx.Request(
            made.method or "", made.url or "", headers=dict(made.headers), content=made.body
        )
        return self._portal.call(self._app.http.send, request)


def as_request(case: Case) -> dict[str, Any]:
    made = case.as_transport_kwargs(base_url=URL)
    return {name: made[name] for name in made if name != "timeout"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    stack = AsyncExitStack()
    with start_blocking_portal("asyncio") as portal:
        data = tmp_path_factory.mktemp("schemathesis") / "data"
        app = portal.call(stack.enter_async_context, started(data, topics_max=500, groups_max=500))
        for name in NAMES:
            portal.call(app.post, "/topics", {"name": name}, 201)
            portal.call(app.post, "/groups", {"name": name}, 201)
            portal.call(app.send, name, "x", "y")
        yield Server(portal, app)
        portal.call(stack.aclose)


@schema.parametrize()
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
def test_every_answer_is_one_that_the_description_foresees(server: Server, case: Case) -> None:
    response = server.ask(case)
    # That nobody replied to a request in time is an answer, and no failure of the server.
    is_timeout = response.status_code == httpx.codes.GATEWAY_TIMEOUT
    checks = [check for check in CHECKS if not (is_timeout and check is not_a_server_error)]
    case.validate_response(response, checks=checks)
