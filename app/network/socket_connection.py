"""uvicorn's WebSocket protocol with limits: it keeps the place of its connection, slow readers."""

from typing import Any

from uvicorn.config import Config
from uvicorn.server import ServerState

from app.network import connection_limits
from app.network.bounded_socket import BoundedSocket
from app.network.connection_limits import ConnectionSlot
from app.network.connection_monitor import FRAMES_BYTES_MAX, ConnectionMonitor, MonitoredConnection


class SocketConnection(MonitoredConnection, BoundedSocket):
    """One WebSocket, from its handshake on; `with_budget` makes the class that knows the budget."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        *,
        place: ConnectionSlot,
        watch: ConnectionMonitor,
    ) -> None:
        BoundedSocket.__init__(self, config, server_state, app_state)
        self._enter(place, watch)

    def data_received(self, data: bytes) -> None:
        # Pings are answered without the application, whether the answers are read or not.
        if self._watch.is_stalled(self):
            left = self.transport.get_write_buffer_size()
            if left > self._stall_bytes + FRAMES_BYTES_MAX:
                self.end(connection_limits.SLOW_READER)
                return
        super().data_received(data)
