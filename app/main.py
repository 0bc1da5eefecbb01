"""The application put together: its services, what every request passes first, its hot routes.

The routes that machines call all the time are here from the start: produce and receive, the probes,
the WebSocket. The others are loaded with the first request to one of them (`routes.py`).
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType

from starlette.routing import Router
from starlette.types import ASGIApp, Receive, Scope, Send

from app.api.framework.fast_lane import FastLane
from app.api.hot import HOT, PROBES
from app.container import Services
from app.deferred import Deferred
from app.security.middleware import SecurityMiddleware
from app.settings import Settings
from app.ui.framework.console import Console
from app.version import VERSION
from app.ws import endpoint as socket
from engine.broker import TransactionCheck
from engine.clock import Clock, SystemClock


class Application:
    """ASGI callable: the gate, the short way behind it, and the routes."""

    console: Console  # while the lifespan runs

    def __init__(self, services: Services) -> None:
        self.services = services
        self.router = Router(
            [*(item.route() for item in PROBES), *socket.routes],
            redirect_slashes=False,
            default=Deferred(self._load_routes),
            lifespan=_lifespan,
        )
        self._gate = SecurityMiddleware(
            FastLane(self.router, operations=HOT),
            settings=services.settings,
            limits=services.request_limits,
            authenticator=services.authenticator,
            refusals=services.refusal_audit,
            following=services.following,
            host=services.host,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["app"] = self
        if scope["type"] == "lifespan":
            await self.router(scope, receive, send)
            return
        await self._gate(scope, receive, send)

    def _load_routes(self) -> ASGIApp:
        from app.routes import Routes  # a third of all modules

        self.console.load()
        return Routes(self.services, self.console)


def create_app(
    settings: Settings,
    *,
    clock: Clock | None = None,
    origins: Mapping[str, str] = MappingProxyType({}),
) -> Application:
    """The application; its lifespan opens the data directory, the engine and the database.

    `origins` says by name which settings were given, and where.
    """
    services = Services(settings, clock or SystemClock(), origins, check_document=_check_document)
    return Application(services)


def _check_document(check: TransactionCheck) -> bytes:
    from app.api.transactions import check_document  # only where there are transactions

    return check_document(check)


@asynccontextmanager
async def _lifespan(app: Application) -> AsyncIterator[None]:
    """Start: engine, services, pages, background work. Stop in the opposite order."""
    services, settings = app.services, app.services.settings
    async with services.running():
        app.console = Console(
            services.host,
            services.messaging,
            services.administration,
            services.mixed_groups,
            services.sampler,
            environment=settings.environment,
            version=VERSION,
            environment_color=settings.environment_color,
        )
        async with app.console.opened(), services.at_work():
            yield
