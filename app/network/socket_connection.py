"""uvicorn's WebSocket protocol with limits: it keeps the place of its connection, slow readers."""

from typing import Any

from uvicorn.config import Config
from uvicorn.server import ServerState

from app.network import places
from app.network.bounded_socket import BoundedSocket
from app.network.places import Place
from app.network.watch import FRAMES_BYTES_MAX, Watch, Watched


class SocketConnection(Watched, BoundedSocket):
    """One WebSocket, from its handshake on; `with_budget` makes the class that knows the budget."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        *,
        place: Place,
        watch: Watch,
    ) -> None:
        BoundedSocket.__init__(self, config, server_state, app_state)
        self._enter(place, watch)

    def data_received(self, data: bytes) -> None:
        # Pings are answered without the application, whether the answers are read or not.
        if self._watch.is_stalled(self):
            left = self.transport.get_write_buffer_size()
            if left > self._stall_bytes + FRAMES_BYTES_MAX:
                self.end(places.SLOW_READER)
                return
        super().data_received(data)
