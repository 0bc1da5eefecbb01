"""uvicorn's WebSocket protocol with the connection's slot and a limit for slow readers."""

from typing import Any

from uvicorn.config import Config
from uvicorn.server import ServerState

from app.network import connection_limits
from app.network.connection_limits import ConnectionSlot
from app.network.connection_monitor import FRAMES_BYTES_MAX, ConnectionMonitor, MonitoredConnection
from app.network.websocket_protocol import BoundedWebSocketProtocol


class SocketConnection(MonitoredConnection, BoundedWebSocketProtocol):
    """One WebSocket from its handshake on; `with_budget` creates the class for a budget."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        *,
        slot: ConnectionSlot,
        monitor: ConnectionMonitor,
    ) -> None:
        BoundedWebSocketProtocol.__init__(self, config, server_state, app_state)
        self._enter(slot, monitor)

    def data_received(self, data: bytes) -> None:
        # Pongs are sent without the application, even if the client does not read them.
        if self._monitor.is_stalled(self):
            unwritten_bytes = self.transport.get_write_buffer_size()
            if unwritten_bytes > self._stall_bytes + FRAMES_BYTES_MAX:
                self.end(connection_limits.SLOW_READER)
                return
        super().data_received(data)
