"""All routes but the few that `main` answers itself: REST, its description, the console.

Loading this module takes half a second and some 25 MiB, so `deferred.py` does it on a thread, with
the first request that comes here.
"""

import functools

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from app.api.catalog import OPERATIONS
from app.api.framework import docs
from app.api.framework.openapi import Json, describe
from app.api.framework.operation import routes_of
from app.container import Services
from app.errors import problem_answer
from app.ui.framework.console import Console
from app.ui.routes import router as pages
from app.version import VERSION


class Routes(FastAPI):
    """FastAPI with every route; endpoints find services and console through it."""

    def __init__(self, services: Services, console: Console) -> None:
        super().__init__(
            title="KiteMQ",
            version=VERSION,
            openapi_url=None,
            docs_url=None,
            redoc_url=None,
            redirect_slashes=False,
            # Asking the environment at every request whether to trace it costs a tenth of one.
            telemetry={"tracing": False, "metrics": False, "logs": False},
            exception_handlers={HTTPException: _answer_error, Exception: _answer_error},
        )
        self.services = services
        self.console = console
        document = _document()
        self.openapi = lambda: document  # type: ignore[method-assign]
        self.router.routes += routes_of(OPERATIONS)
        self.router.routes += docs.routes(document, OPERATIONS)
        self.router.routes += pages.routes


@functools.cache
def _document() -> Json:
    return describe(OPERATIONS)  # the same for each server of a process


async def _answer_error(request: Request, error: Exception) -> Response:
    """The problem body for what the router refuses, and for what a page did not expect."""
    status, headers, body = problem_answer(error)
    return Response(body, status, {name.decode(): value.decode() for name, value in headers})
