"""A real server on a real port, in a thread: for the doors that only a socket can test."""

import asyncio
import socket
import threading
from pathlib import Path
from typing import Any, Self

import uvicorn

from app.main import Application, create_app
from app.network.websocket_protocol import BoundedWebSocketProtocol, with_budget
from app.settings import Settings
from bench.process import free_port
from tests import stand_in
from tests.makers import CLUSTER, EMBEDDED

START_TIMEOUT_S = 60.0


class LiveServer:
    """Starts, stops and starts again on the same port and data; a cluster stays meanwhile."""

    def __init__(self, data: Path, maker_name: str = EMBEDDED, **changes: Any) -> None:
        # Whatever is measured or looked at, no report may begin beside it by itself.
        changes = {"report_schedules": False} | changes
        self._cluster: stand_in.LiveStandIn | None = None
        if maker_name == CLUSTER:
            changes, engine_changes = stand_in.apart(changes)
            self._cluster = stand_in.LiveStandIn(stand_in.place_of(data), **engine_changes)
            self._cluster.start()
            changes["rocketmq"] = self._cluster.address
        self._settings = Settings(data=data, disk_free_min_bytes=0, **changes)
        self._thread: threading.Thread | None = None
        self._server: uvicorn.Server | None = None
        self.port = 0
        self.suffix = ""
        self.app: Application | None = None
        self.loop: asyncio.AbstractEventLoop | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def socket_url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/ws/v1"

    def start(self) -> None:
        """Listen, open the data directory, and be ready."""
        # asyncio sends without delay only on sockets that name their protocol.
        listener = socket.socket(proto=socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Of no range from which a connection may take it between a stop and the next start.
        listener.bind(("127.0.0.1", self.port or free_port()))
        listener.listen(128)
        self.port = listener.getsockname()[1]
        application_of = stand_in.application_of if self._settings.rocketmq else create_app
        app = self.app = application_of(self._settings)
        config = uvicorn.Config(
            app,
            ws=with_budget(BoundedWebSocketProtocol, app.services.request_limits.budget),
            ws_max_size=self._settings.request_bytes_max,
            ws_per_message_deflate=False,
            lifespan="on",
            log_config=None,
            timeout_graceful_shutdown=5,
        )
        self._server = uvicorn.Server(config)
        ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(listener, ready), daemon=True)
        self._thread.start()
        assert ready.wait(START_TIMEOUT_S), "the server did not start"

    def stop(self) -> None:
        """Stop in order; everything kept stays in the data directory."""
        if self._server is not None and self._thread is not None:
            self._server.should_exit = True
            self._thread.join(START_TIMEOUT_S)
            assert not self._thread.is_alive(), "the server did not stop"
            self._server = None

    def named(self, name: str) -> str:
        """A topic or group of a test by its short name: another where tests share a cluster."""
        return f"{name}{self.suffix}"

    def beside(self, name: str, **changes: Any) -> "LiveServer":
        """One that does not run yet, in a directory beside: with its own engine, or before the same
        cluster.
        """
        data = self._settings.data.with_name(name)
        return LiveServer(data, rocketmq=self._settings.rocketmq, **changes)

    def close(self) -> None:
        """Stop for good, and what stands in a cluster's place."""
        try:
            self.stop()
        finally:
            if self._cluster is not None:
                self._cluster.stop()

    def __enter__(self) -> Self:
        """Started."""
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def call(self, work: Any) -> Any:
        """Run a function on the thread that owns the engine; its result."""
        loop = self._cluster.loop if self._cluster else self.loop
        assert loop is not None

        async def run() -> Any:
            return work()

        return asyncio.run_coroutine_threadsafe(run(), loop).result(10)

    @property
    def broker(self) -> Any:
        """The engine that has the messages: its own, or that in the cluster's place."""
        if self._cluster is not None:
            return self._cluster.broker
        assert self.app is not None
        return self.app.services.host.broker

    def _run(self, listener: socket.socket, ready: threading.Event) -> None:
        async def main() -> None:
            assert self._server is not None
            self.loop = asyncio.get_running_loop()
            serving = asyncio.create_task(self._server.serve(sockets=[listener]))
            while not self._server.started and not serving.done():
                await asyncio.sleep(0.005)
            if self._server.started:
                ready.set()
            await serving
            # Connections that were closed last need a turn of the loop to let go of their sockets.
            await asyncio.sleep(0.01)

        with listener:
            asyncio.run(main())
