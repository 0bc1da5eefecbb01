"""Files as Apache RocketMQ's broker leaves them."""

import json
import re
from pathlib import Path
from typing import Any

from engine.handover.timer_files import CHECK, CHECK_BYTES


def touch_checkpoint(root: Path) -> None:
    """RocketMQ's own fields are others than KiteMQ wrote; the rest is as it was."""
    path = root / "checkpoint"
    data = bytearray(path.read_bytes())
    data[:8] = (int.from_bytes(data[:8], "big") + 1).to_bytes(8, "big")
    path.write_bytes(data)


def write_table(root: Path, name: str, **sections: Any) -> None:
    """JSON in RocketMQ's form: many lines, and numbers as keys without quotes."""
    text = json.dumps(sections, indent="\t")
    text = re.sub(r'"(\d+)":', r"\1:", text)
    (root / "config" / name).write_text(text)


def read_table(root: Path, name: str) -> dict[str, Any]:
    """What KiteMQ wrote for RocketMQ."""
    table: dict[str, Any] = json.loads((root / "config" / name).read_bytes())
    return table


def write_timercheck(root: Path, read_ms: int, offset: int) -> None:
    """How far RocketMQ is with exact times."""
    data = CHECK.pack(read_ms, 0, offset, offset).ljust(CHECK_BYTES, b"\0")
    (root / "config" / "timercheck").write_bytes(data)
