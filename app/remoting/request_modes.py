"""Which groups POP a topic instead of pulling it; kept in a small file of the data directory."""

import asyncio
import logging
from pathlib import Path

import msgspec

from app import atomic_files
from app.remoting.errors import RemotingRefusal
from protocol.remoting.codes import ResponseCode

log = logging.getLogger("kitemq.remoting")

FILE = "request_modes.json"
MODES_MAX = 10_000
PULL, POP = "PULL", "POP"


class RequestMode(msgspec.Struct, frozen=True):
    """How a group gets the messages of a topic; fields are named as in RocketMQ's file."""

    topic: str
    consumerGroup: str
    mode: str
    popShareQueueNum: int = 0


class RequestModes:
    """All modes that were set; everything else is pulled."""

    def __init__(self, data: Path) -> None:
        self._path = data / FILE
        self._modes: dict[tuple[str, str], RequestMode] = {}
        self._writing = asyncio.Lock()

    def load(self) -> None:
        """Read the file; a damaged one is set aside, and everything is pulled."""
        try:
            modes = msgspec.json.decode(self._path.read_bytes(), type=list[RequestMode])
        except FileNotFoundError:
            return
        except ValueError as error:
            damaged = self._path.with_name(f"{FILE}.damaged")
            self._path.replace(damaged)
            log.error("all groups pull: %s is damaged and now %s: %s", FILE, damaged.name, error)
            return
        self._modes = {(each.consumerGroup, each.topic): each for each in modes}

    def find(self, group: str, topic: str) -> RequestMode | None:
        return self._modes.get((group, topic))

    def all(self) -> list[RequestMode]:
        return list(self._modes.values())

    def share(self, group: str, topic: str) -> int:
        """How many other clients may POP a client's queues; 0 means that all POP all."""
        found = self._modes.get((group, topic))
        return 0 if found is None else found.popShareQueueNum

    def pops(self, group: str, topic: str) -> bool:
        """Whether a group gets the messages of a topic by POP."""
        found = self._modes.get((group, topic))
        return found is not None and found.mode == POP

    def pops_any(self, group: str) -> bool:
        """Whether a group gets the messages of any topic by POP."""
        return any(each.mode == POP for (name, _), each in self._modes.items() if name == group)

    async def set(self, mode: RequestMode) -> None:
        """Keep a mode; RemotingRefusal where there are too many or the file cannot be written."""
        key = (mode.consumerGroup, mode.topic)
        async with self._writing:
            if key not in self._modes and len(self._modes) >= MODES_MAX:
                raise RemotingRefusal(
                    ResponseCode.SYSTEM_BUSY, f"{MODES_MAX} request modes are the most"
                )
            modes = {**self._modes, key: mode}
            try:
                data = msgspec.json.encode(list(modes.values()))
                await asyncio.to_thread(atomic_files.replace, self._path, data)
            except OSError as error:
                raise RemotingRefusal(
                    ResponseCode.SYSTEM_BUSY, f"the mode cannot be kept: {error}"
                ) from error
            self._modes = modes
