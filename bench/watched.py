"""`kitemq serve` with a probe of its event loop: what the line `console` starts.

A timer every millisecond; its lateness is what any request would have waited at that moment, less
what the loop's thread waited for a processor that other programs had. `GET /bench/delay` answers
the worst in ms since it was asked last.
"""

import asyncio
import sys
import time
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from app import serve
from app.main import Application, create_app
from app.settings import Settings
from bench.server import DELAY_PATH

BEAT_S = 0.001
RUN_DELAY = Path("/proc/thread-self/schedstat")


class Probe:
    """Begins to beat at its first question."""

    def __init__(self) -> None:
        self._is_on = False
        self._worst_s = 0.0

    async def answer(self, request: Request) -> Response:
        """The worst lateness since the last question."""
        if not self._is_on:
            self._is_on = True
            self._wait(asyncio.get_running_loop())
        worst_s, self._worst_s = self._worst_s, 0.0
        return PlainTextResponse(f"{worst_s * 1000:.3f}")

    def _wait(self, loop: asyncio.AbstractEventLoop) -> None:
        # By a clock of our own: uvloop's stands still while a callback runs.
        due_s = time.perf_counter() + BEAT_S - _waited_s()
        loop.call_later(BEAT_S, self._beat, loop, due_s)

    def _beat(self, loop: asyncio.AbstractEventLoop, due_s: float) -> None:
        self._worst_s = max(self._worst_s, time.perf_counter() - _waited_s() - due_s)
        self._wait(loop)


def _waited_s() -> float:
    """How long this thread was ready to run and had no processor; 0 where Linux does not tell."""
    try:
        return int(RUN_DELAY.read_bytes().split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0


def watched(settings: Settings, **others: Any) -> Application:
    """The application with the probe in front of its own addresses."""
    app = create_app(settings, **others)
    app.router.routes.insert(0, Route(DELAY_PATH, Probe().answer))
    return app


def main() -> int:
    """Serve until SIGTERM."""
    vars(serve)["create_app"] = watched
    return serve.main(sys.argv[1:])


if __name__ == "__main__":
    raise SystemExit(main())
