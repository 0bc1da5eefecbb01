"""Routes the most frequent calls straight from the security middleware to their endpoint.

These operations are ordinary routes too, for everything that a router does (405, links, the
description). But trying thirty patterns in turn, through the framework's layers, costs more than
storing a message; their endpoints answer errors themselves and need none of it.
"""

from collections.abc import Iterable

from starlette.types import ASGIApp, Receive, Scope, Send

from app.api.framework.operation import API, DirectWay, Operation
from app.eager import EAGER

# "/api/v1/topics/orders/messages" in its six parts.
PARTS = 6
KIND, NAME, VERB = 3, 4, 5


class FastLane:
    """ASGI callable: operations on `/api/v1/{kind}/{name}/{verb}` go here, the rest goes on."""

    def __init__(self, app: ASGIApp, *, operations: Iterable[Operation]) -> None:
        self._app = app
        self._lanes: dict[tuple[str, str, str], tuple[ASGIApp, str, DirectWay | None]] = {}
        for item in operations:
            parts = item.path.split("/")
            assert len(parts) == PARTS, f"{item.path} has no short way"
            assert item.path.startswith(f"{API}/"), f"{item.path} has no short way"
            key = (item.method, parts[KIND], parts[VERB])
            self._lanes[key] = (item.route().app, parts[NAME].strip("{}"), item.direct)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            parts = scope["path"].split("/")
            if len(parts) == PARTS and parts[NAME] and parts[1] == "api" and parts[2] == "v1":
                lane = self._lanes.get((scope["method"], parts[KIND], parts[VERB]))
                if lane is not None:
                    endpoint, name, direct = lane
                    scope["path_params"] = {name: parts[NAME]}
                    scope[EAGER] = direct
                    await endpoint(scope, receive, send)
                    return
        await self._app(scope, receive, send)
