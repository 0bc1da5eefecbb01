"""The application put together: its services, its routes, and what every request passes first."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from app.api.catalog import HOT, OPERATIONS
from app.api.framework import docs
from app.api.framework.fast_lane import FastLane
from app.api.framework.openapi import describe
from app.api.framework.operation import routes_of
from app.api.transactions import check_document
from app.container import Services
from app.errors import problem_answer
from app.security.middleware import SecurityMiddleware
from app.settings import Settings
from app.ui.framework.console import Console
from app.ui.routes import router as console
from app.version import VERSION
from app.ws import endpoint as socket
from engine.clock import Clock, SystemClock


class Application(FastAPI):
    """FastAPI with the gate, and the short way behind it, in front of its own layers."""

    console: Console  # while the lifespan runs

    def __init__(self, services: Services) -> None:
        super().__init__(
            title="KiteMQ",
            version=VERSION,
            openapi_url=None,
            docs_url=None,
            redoc_url=None,
            redirect_slashes=False,
            # Asking the environment at every request whether to trace it costs a tenth of one.
            telemetry={"tracing": False, "metrics": False, "logs": False},
            lifespan=_lifespan,
            exception_handlers={HTTPException: _answer_error, Exception: _answer_error},
        )
        self.services = services
        self._gate = SecurityMiddleware(
            FastLane(super().__call__, operations=HOT),
            settings=services.settings,
            limits=services.request_limits,
            authenticator=services.authenticator,
            refusals=services.refusal_audit,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await super().__call__(scope, receive, send)
            return
        scope["app"] = self
        await self._gate(scope, receive, send)


def create_app(
    settings: Settings,
    *,
    clock: Clock | None = None,
    origins: Mapping[str, str] = MappingProxyType({}),
) -> Application:
    """The application; its lifespan opens the data directory, the engine and the database.

    `origins` says by name which settings were given, and where.
    """
    services = Services(settings, clock or SystemClock(), origins, check_document=check_document)
    app = Application(services)
    document = describe(OPERATIONS)
    app.openapi = lambda: document  # type: ignore[method-assign]
    app.router.routes += routes_of(OPERATIONS)
    app.router.routes += socket.routes
    app.router.routes += docs.routes(document, OPERATIONS)
    app.router.routes += console.routes
    return app


@asynccontextmanager
async def _lifespan(app: Application) -> AsyncIterator[None]:
    """Start: engine, services, pages, background work. Stop in the opposite order."""
    services, settings = app.services, app.services.settings
    async with services.running():
        app.console = Console(
            services.host,
            services.messaging,
            services.mixed_groups,
            environment=settings.environment,
            version=VERSION,
            environment_color=settings.environment_color,
        )
        async with app.console.opened(), services.at_work():
            yield


async def _answer_error(request: Request, error: Exception) -> Response:
    """The problem body for what the router refuses, and for what a page did not expect."""
    status, headers, body = problem_answer(error)
    return Response(body, status, {name.decode(): value.decode() for name, value in headers})
