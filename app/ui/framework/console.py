"""The state that all pages of a server share: templates, figures, host name."""

import asyncio
import contextlib
import contextvars
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from starlette.requests import Request

from app.administration import Administration
from app.db.rows import Actor, actor_at
from app.messaging import Messaging
from app.monitoring.dead_index import DeadIndex
from app.monitoring.dead_summaries import DeadSummaries
from app.monitoring.lag_reader import LagReader
from app.monitoring.sampler import Sampler
from app.monitoring.trends import Trends
from app.security.access import principal_of
from app.server_host import ServerHost
from app.services.group_members import MixedGroups
from app.ui.framework.assets import Assets
from app.ui.framework.language import N_
from app.ui.framework.turns import Turns

if TYPE_CHECKING:
    from app.ui.framework.templating import Templates

T = TypeVar("T")

UNNAMED = "kitemq"
EXPORTS_MAX = 4
TAILS_MAX = 32


class Console:
    """Lives as long as the server; `open` it once the host has started."""

    def __init__(
        self,
        host: ServerHost,
        messaging: Messaging,
        administration: Administration,
        mixed_groups: MixedGroups,
        sampler: Sampler,
        *,
        environment: str,
        version: str,
        environment_color: str = "",
    ) -> None:
        self.host = host
        self.messaging = messaging
        self.administration = administration
        self.mixed_groups = mixed_groups
        self.environment = environment or UNNAMED
        self.environment_color = environment_color
        self.version = version
        self.now_ms = host.clock.now_ms
        self.started_ms = self.now_ms()
        self.meter = sampler.meter
        self.sampler = sampler
        self.dead_index = DeadIndex(administration)
        self.dead_summaries = DeadSummaries(administration, self.now_ms)
        self.lags = LagReader(lambda: host.lags, self.now_ms)
        self.trends = Trends(lambda: host.lags, self.now_ms)

        self.exports = Turns(EXPORTS_MAX, N_("exports of messages"))
        self.tails = Turns(TAILS_MAX, N_("live tails"))

        # One thread: pages wait for each other and never delay the broker's own work.
        self._renderer = ThreadPoolExecutor(1, thread_name_prefix="kitemq-pages")

    async def render(self, work: Callable[[], T]) -> T:
        """Run `work` on the pages' thread, since a long table would block the event loop."""
        here = contextvars.copy_context()  # the thread needs the page's language
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._renderer, lambda: here.run(work))

    @cached_property
    def assets(self) -> Assets:
        return Assets()

    @cached_property
    def templates(self) -> "Templates":
        from app.ui.framework.templating import Templates  # with Jinja

        return Templates(self.assets)

    def load(self) -> None:
        """Read the assets and make the templates ready, on the thread that loads the pages."""
        _ = self.templates

    @contextlib.asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Render pages for as long as the context is held."""
        try:
            yield
        finally:
            self._renderer.shutdown(wait=False, cancel_futures=True)


def actor_of(request: Request) -> Actor:
    """The actor of a change for the audit trail: the user, or the address without users."""
    name = principal_of(request.scope).audit_name(address_of(request))
    return actor_at(name, request.headers.get("x-request-id", ""))


def address_of(request: Request) -> str:
    """The address that a request came from."""
    return request.client.host if request.client else ""
