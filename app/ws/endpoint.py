"""The WebSocket endpoint `/ws/v1`: frames of `protocol`, many messages in each.

A raw ASGI endpoint, which only opens connections: messages go from the socket to the session and
back without ASGI, whose wrappers would cost more per message than the engine.
`app.security` has decided before whether the client may connect (Host, Origin, token).
"""

from weakref import WeakKeyDictionary

from starlette.routing import BaseRoute, WebSocketRoute
from starlette.types import Receive, Scope, Send

from app.container import services_of
from app.server_host import ServerHost
from app.ws.connection import Hub
from app.ws.limits import SocketLimits
from app.ws.session import Session
from engine.host import host_text
from kitemq.protocol.frames import STANDBY_HEADER

PATH = "/ws/v1"
PROTOCOL = "kitemq.v1"  # the subprotocol that a browser's script offers beside the token
CLOSE_TRY_LATER = 1013


class SocketEndpoint:
    """Accepts connections and gives each a `Session`."""

    def __init__(self) -> None:
        self._hubs: WeakKeyDictionary[ServerHost, Hub] = WeakKeyDictionary()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()  # websocket.connect
        services = services_of(scope)
        host = services.host
        if not host.is_ready:
            await send({"type": "websocket.close", "code": CLOSE_TRY_LATER})
            return
        hub = self._hubs.get(host)
        if hub is None:
            limits = SocketLimits(frame_bytes_max=services.settings.request_bytes_max)
            hub = self._hubs[host] = Hub(host, limits)
        offered = scope.get("subprotocols") or ()
        leader = services.following.leader
        headers: list[tuple[bytes, bytes]] = []
        if leader:
            headers = [(STANDBY_HEADER.encode(), f"standby of {leader}".encode())]
        subprotocol = PROTOCOL if PROTOCOL in offered else None
        await send({"type": "websocket.accept", "subprotocol": subprotocol, "headers": headers})
        address = _address(scope)
        session = Session(hub, address, scope)
        since_ms = host.clock.now_ms()
        connections = services.connections
        with connections.opened(lambda: session.client, address, since_ms, session.disconnect):
            await session.run()


def _address(scope: Scope) -> str:
    """The client's address as messages keep it: "127.0.0.1:52100", "[::1]:52100"."""
    client = scope.get("client")
    if not client:
        return ""
    return host_text(client[0], client[1])


routes: list[BaseRoute] = [WebSocketRoute(PATH, SocketEndpoint())]
