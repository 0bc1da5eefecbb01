"""A server before a cluster, in the test's process: KiteMQ's own port stands for its broker."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any

import httpx

from app.cluster.administration import ClusterAdministration
from app.cluster.messaging import ClusterMessaging
from app.cluster.numbering import QueueNumbers
from app.main import Application, create_app
from app.settings import Settings
from tests.remoting.port import Running

HTML = {"accept": "text/html"}


@dataclass
class Front:
    """The server, and a client of it."""

    app: Application
    http: httpx.AsyncClient

    @property
    def messaging(self) -> ClusterMessaging:
        messaging = self.app.services.messaging
        assert isinstance(messaging, ClusterMessaging)
        return messaging

    @property
    def administration(self) -> ClusterAdministration:
        administration = self.app.services.administration
        assert isinstance(administration, ClusterAdministration)
        return administration

    def number(self, *brokers: str) -> None:
        """Have the queues numbered by another order of brokers."""
        self.messaging.catalog.numbers = QueueNumbers(brokers)

    async def get(self, path: str, status: int = 200) -> Any:
        """The JSON of an answer of REST."""
        answer = await self.http.get(f"/api/v1{path}")
        assert answer.status_code == status, answer.text
        return answer.json()

    async def page(self, path: str) -> str:
        """The text of a page that is there."""
        answer = await self.http.get(path, headers=HTML)
        assert answer.status_code == 200, answer.text
        return unescape(answer.text)


@asynccontextmanager
async def front_of(running: Running, data: Path) -> AsyncIterator[Front]:
    """A server before the cluster that is `running`."""
    app = create_app(Settings(data=data, rocketmq=running.port.address), clock=running.clock)
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app, client=("127.0.0.1", 50_000))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080") as http:
            yield Front(app, http)
