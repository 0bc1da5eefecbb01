"""KiteMQ's engine as a process, driven as `Drive.java` is: JSON lines in and out."""

import base64
import json
import sys
import time
from pathlib import Path
from typing import Any

from engine.broker import Broker, GroupConfig
from engine.clock import SystemClock
from engine.config import EngineConfig
from engine.message import Message, StoredMessage
from engine.store.pool import InlinePool
from tests.rocketmq.messages import QUEUES

MOST = 100
COMMITTED = 100


class Kite:
    """One broker, ticked while it waits for commands."""

    def __init__(self, root: Path, **settings: Any) -> None:
        self.root = root
        config = EngineConfig(data=root, disk_free_min_bytes=0, **settings)
        self.broker = Broker(config, clock=SystemClock(), pool=InlinePool())
        self.broker.start()

    def tick(self, seconds: float = 0.0) -> None:
        """Do what is due, for so long."""
        end_s = time.monotonic() + seconds
        while self.broker.tick() <= 0 or time.monotonic() < end_s:
            time.sleep(0.01 if seconds else 0)

    def fill(self, path: Path) -> None:
        """Send what a file of rows says."""
        self.broker.create_group(GroupConfig("workers"))
        for line in path.read_text().splitlines():
            row = json.loads(line)
            if row["kind"] == "batch":
                self.broker.send([_message({**row, **each}) for each in row["messages"]])
                continue
            message = _message(row)
            sent = self._put(message)
            if row.get("decision") == "commit":
                self.broker.transactions.commit(sent)
            elif row.get("decision") == "rollback":
                self.broker.transactions.rollback(sent)

    def commit(self) -> None:
        """How far a group has come."""
        for queue in range(QUEUES):
            self.broker.commit_offset("readers", "orders", queue, COMMITTED)

    def _put(self, message: Message) -> str:
        """Retries and dead letters are the engine's own to send."""
        if message.topic.startswith("%"):
            self.broker._catalog.ensure_system(message.topic)
            self.broker._intake.put([message])
        else:
            self.broker.send([message])
        return message.message_id


def _message(row: dict[str, Any]) -> Message:
    properties = dict(row["properties"])
    ahead_ms = row.get("ahead_ms", 0)
    return Message(
        row["topic"],
        base64.b64decode(row["body"]),
        tag=properties.pop("TAGS", ""),
        keys=tuple(properties.pop("KEYS", "").split()),
        message_id=properties.pop("UNIQ_KEY"),
        delay_level=int(properties.pop("DELAY", "0")),
        deliver_at_ms=SystemClock().now_ms() + ahead_ms if ahead_ms else 0,
        properties=properties,
        queue=row["queue"],
        flag=row.get("flag", 0),
        attempt=row.get("reconsume_times", 0) + 1,
        transaction_group="makers" if row["kind"] == "half" else "",
    )


def described(stored: StoredMessage) -> dict[str, Any]:
    """Every field of a record, as `Drive.java` names them."""
    return {
        "topic": stored.topic,
        "queue": stored.queue,
        "offset": stored.offset,
        "position": stored.position,
        "size_bytes": stored.size_bytes,
        "flag": stored.flag,
        "sys_flag": stored.sys_flag,
        "born_ms": stored.born_ms,
        "born_host": stored.born_host,
        "stored_ms": stored.stored_ms,
        "store_host": stored.store_host,
        "reconsume_times": stored.attempt - 1,
        "prepared_position": stored.prepared_position,
        "body": base64.b64encode(stored.body).decode(),
        "properties": dict(sorted(stored.properties.items())),
    }


def dump(broker: Broker) -> list[dict[str, Any]]:
    """Every message of every queue."""
    found = []
    for topic in broker.topics(system=True):
        for stats in broker.topic_stats(topic.name).queues:
            offset = stats.min_offset
            place = (topic.name, stats.queue)
            while entries := broker._store.entries(*place, offset, MOST):
                for entry, stored in zip(
                    entries, broker._store.read_entries(entries, place), strict=True
                ):
                    assert stored is not None, f"{place} at {entry.offset} cannot be read"
                    found.append(described(stored) | {"tag_code": entry.tag_code})
                offset = entries[-1].offset + 1
    return found


def main() -> None:
    """`python -m tests.rocketmq.kite ROOT SETTINGS ROWS SECONDS`: fill, then wait to be killed."""
    root, settings, path, seconds = sys.argv[1:]
    kite = Kite(Path(root), **json.loads(settings))
    kite.fill(Path(path))
    kite.commit()
    kite.tick(float(seconds))
    sys.stdout.write("filled\n")
    sys.stdout.flush()
    kite.tick(600)


if __name__ == "__main__":
    main()
