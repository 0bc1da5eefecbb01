"""RocketMQ's configuration files in JSON, as they lie in the folder `config`.

What KiteMQ wrote says so in a field that RocketMQ does not know and leaves out when it writes the
file itself: so it is known whose a file is. RocketMQ's JSON has numbers as keys, without quotes.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from engine.store.files import Files, read_whole

WRITER = "writtenBy"
KITEMQ = "KiteMQ"
EARLIER = b'{"topicConfigTable":{'  # topics.json of earlier versions; RocketMQ's has line breaks
BYTES_MAX = 256 * 1024 * 1024
KEY_DIGITS_MAX = 9
BARE_KEY = re.compile(rb"([{,]\s*)(-?\d+)(\s*:)")

TOPICS = "topics.json"
GROUPS = "subscriptionGroup.json"
OFFSETS = "consumerOffset.json"
DELAYS = "delayOffset.json"

HALF_GROUP = "CID_RMQ_SYS_TRANS"  # RocketMQ's own, which reads half messages
OWN_GROUPS = frozenset(
    """TOOLS_CONSUMER FILTERSRV_CONSUMER SELF_TEST_C_GROUP CID_ONS-HTTP-PROXY CID_ONSAPI_PULL
    CID_ONSAPI_PERMISSION CID_ONSAPI_OWNER CID_SYS_RMQ_TRANS CID_RMQ_SYS_TRANS""".split()
)
OWN_GROUP_PREFIX = "CID_RMQ_SYS_"
INHERITED = 1  # a permission of topics that are RocketMQ's own: its cluster's, its broker's


class UnreadableTable(Exception):
    """A file of RocketMQ's that cannot be read, and why."""


class RocketmqTable:
    """One file: its fields, and whether KiteMQ wrote it last."""

    def __init__(self, fields: dict[str, Any] | None = None, *, is_ours: bool = True) -> None:
        self._fields = fields or {}
        self.is_ours = is_ours

    def section(self, name: str) -> dict[str, Any]:
        """An object in it; an empty one where there is none."""
        section = self._fields.get(name)
        return section if isinstance(section, dict) else {}


def read_table(files: Files, path: Path) -> RocketmqTable:
    """Read the file; an empty table where there is none. Raises UnreadableTable.

    Where it is missing or empty, the backup beside it is read, as RocketMQ does: a broker that is
    killed while it replaces the file leaves only that.
    """
    return _read(files, path) or read_backup(files, path)


def read_backup(files: Files, path: Path) -> RocketmqTable:
    """Read the file as it was before its last change. Raises UnreadableTable."""
    return _read(files, path.with_name(f"{path.name}.bak")) or RocketmqTable()


def _read(files: Files, path: Path) -> RocketmqTable | None:
    """None for a file that is missing or empty."""
    try:
        file = files.open(path)
    except FileNotFoundError:
        return None
    size_bytes = file.size()
    file.close()
    if size_bytes > BYTES_MAX:
        raise UnreadableTable(f"{path.name} has {size_bytes} bytes, {BYTES_MAX} is the most")
    return table_of(read_whole(files, path), path.name) if size_bytes else None


def table_of(data: bytes, name: str) -> RocketmqTable:
    """Parse the content of a file. Raises Unreadable."""
    try:
        fields = msgspec.json.decode(BARE_KEY.sub(rb'\1"\2"\3', data))
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise UnreadableTable(f"{name} cannot be read: {error}") from None
    if not isinstance(fields, dict):
        raise UnreadableTable(f"{name} is no JSON object")
    is_ours = fields.get(WRITER) == KITEMQ or data.startswith(EARLIER)
    return RocketmqTable(fields, is_ours=is_ours)


def number(value: object, default: int = -1) -> int:
    """A whole number that is not negative; else the default."""
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and isinstance(value, int) and value >= 0 else default


def numbered(section: Mapping[str, object]) -> dict[int, int]:
    """The entries whose key and value are both whole numbers."""
    return {
        int(key): value
        for key, value in section.items()
        if key.isascii() and key.isdigit() and len(key) <= KEY_DIGITS_MAX
        if isinstance(value, int) and number(value) >= 0
    }


def is_own_group(name: str) -> bool:
    """Whether a consumer group is one of RocketMQ's own making."""
    return name in OWN_GROUPS or name.startswith(OWN_GROUP_PREFIX)
