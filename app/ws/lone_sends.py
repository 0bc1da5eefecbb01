"""SENDs of one message that a client sends one at a time, each after the answer to the last.

They are stored and answered in the turn of the loop in which they come, without an object for what
is the same in each.
"""

from app.send_batcher import LoneSends
from app.ws.send_runs import HEAD, RUN_BYTES_MAX, SendPattern
from engine.message_columns import LonePlace
from kitemq.protocol.frames import HEADER
from kitemq.protocol.sends import SendFrame


class LoneFrames:
    """SENDs of one message of a pattern; `sender` stores their messages."""

    def __init__(self, pattern: SendPattern, sender: LoneSends, frame_bytes_max: int) -> None:
        self.topic = pattern.frame.topic
        self.sender = sender
        self._pattern = pattern
        self._bytes_max = min(frame_bytes_max, RUN_BYTES_MAX)

    def fits(self, data: bytes) -> bool:
        """Whether a WebSocket message is such a frame."""
        if not HEAD.size < len(data) <= self._bytes_max:
            return False
        kind, _, payload_bytes, _, _, _, id_number = HEAD.unpack_from(data)
        return (
            kind == SendFrame.TYPE
            and HEADER.size + payload_bytes == len(data)
            and self._pattern.fits(data, id_number)
        )

    def store(self, data: bytes) -> LonePlace | None:
        """Store the message of a frame that fits; None, and nothing is done, where it may not."""
        born_at, bodies_at = self._pattern.born_at, self._pattern.bodies_at
        born_ms = int.from_bytes(data[born_at:bodies_at], "big", signed=True)
        id_number: int = HEAD.unpack_from(data)[6]
        return self.sender.send(data, bodies_at, born_ms, id_number)


def request_of(data: bytes) -> int:
    """The request number of a frame."""
    number: int = HEADER.unpack_from(data)[1]
    return number
