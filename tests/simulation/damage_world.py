"""A seeded life of a broker that is stopped or killed, has one file damaged, and starts again.

What must hold: nothing is missing, or what is missing is named. The measure is a broker that starts
on the same directory undamaged. A start may refuse; then it names file, offset and the command that
repairs, and after that it starts.
"""

import random
from pathlib import Path
from typing import Any

import msgspec

from engine.broker import Broker
from engine.clock import ManualClock
from engine.errors import Corrupt
from engine.events import CorruptRecord, EngineEvent
from engine.inspection import inspect, repair
from engine.message import StoredMessage
from engine.store.pool import InlinePool
from engine.topic.names import HALF_TOPIC
from tests.simulation.broker_world import ROOT, BrokerWorld
from tests.simulation.disk import Crash, Disk, Node

Image = dict[Path, bytes | None]
DAMAGES_A_LIFE = 12
SPARED = ("lock", "abort")  # what they hold means nothing
SET_ASIDE = ROOT / "set-aside"
BLOCKS = (16, 64, 512)
LOOKUP_MAX = 1000


class DamageWorld:
    """One seed, one life, and some damages to what it leaves; each is met by a start of its own."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.life = BrokerWorld(seed)
        self.is_clean = self.chance.random() < 0.5

    def run(self, steps: int) -> None:
        life = self.life
        verbs = (
            [life.send] * 14
            + [life.receive] * 20
            + [life.ack] * 14
            + [life.nack] * 5
            + [life.release, life.extend]
            + [life.tick] * 14
            + [life.work] * 8
            + [verb for verb, weight in life.reminders.actions() for _ in range(weight)]
            + [verb for verb, weight in life.payments.actions() for _ in range(weight)]
        )
        for _ in range(steps):
            life.act(self.chance.choice(verbs))
            if self.chance.random() < 0.01:
                life.broker._store.journal.compact()
        if self.is_clean:
            life.pool.drain()
            life.broker.stop()
        life.disk.kill()
        self.now_ms = life.clock.now_ms()
        image = image_of(life.disk)
        whole = self.start(image)
        assert whole is not None
        expected, _ = whole
        for _ in range(DAMAGES_A_LIFE):
            self.damage_one(image, expected)

    def damage_one(self, image: Image, expected: dict[str, Any]) -> None:
        path, told, damaged = self.damaged(image)
        where = f"{told} of {path} after a {'clean stop' if self.is_clean else 'kill'}"
        faults = self.verify(damaged, where)
        started = self.start(damaged, where)
        if started is None:
            assert faults, f"{where}: refused, and verifying finds nothing"
            return
        found, damages = started
        wrong = [name for name in expected if expected[name] != found.get(name)]
        wrong += [name for name in found if name not in expected]
        if wrong:
            assert damages, f"{where}: silence about {wrong[:5]}: {first_change(expected, found)}"
            assert faults, f"{where}: verifying finds nothing; {wrong[:5]}; started with {damages}"

    def damaged(self, image: Image) -> tuple[Path, str, Image]:
        """One file changed: which, and what was done to it."""
        chance = self.chance
        groups: dict[str, list[Path]] = {}
        for path, data in image.items():
            if data and path.name not in SPARED:
                groups.setdefault(path.relative_to(ROOT).parts[0], []).append(path)
        path = chance.choice(groups[chance.choice(sorted(groups))])
        data = bytearray(image[path] or b"")
        end = len(data.rstrip(b"\0"))
        limit = min(len(data), end + 40) if chance.random() < 0.9 else len(data)
        if path.parts[-2] == "index":
            limit = len(data)
        at = chance.randrange(max(1, limit))
        kind = chance.random()
        if kind < 0.6:
            bit = chance.randrange(8)
            data[at] ^= 1 << bit
            told = f"bit {bit} of byte {at} flipped"
        else:
            size = chance.choice(BLOCKS)
            at -= at % size
            source = chance.randrange(len(data)) // size * size
            size = min(size, len(data) - at, len(data) - source)
            block = bytes(size) if kind < 0.8 else bytes(data[source : source + size])
            data[at : at + size] = block
            told = f"{size} bytes from {at} {'zeroed' if kind < 0.8 else f'taken from {source}'}"
        return path, told, image | {path: bytes(data)}

    # -- starting -------------------------------------------------------------------------------

    def disk_of(self, image: Image) -> Disk:
        disk = Disk(random.Random(1))
        for path, data in image.items():
            node: Node | None = None
            if data is not None:
                node = Node()
                node.shown, node.kept = bytearray(data), bytearray(data)
            disk.shown[path] = disk.kept[path] = node
        return disk

    def verify(self, image: Image, where: str) -> list[str]:
        config = self.life.config
        files = self.disk_of(image).boot()
        try:
            report = inspect(
                files,
                ROOT,
                patience_s=(),
                index_slots=config.index_slots,
                index_items=config.index_items,
            )
        except Corrupt as error:
            return [error.detail]
        except Exception as error:
            raise AssertionError(f"{where}: verifying fails: {error!r}") from error
        return [f"{fault.where}: {fault.detail}" for fault in report.faults]

    def start(
        self, image: Image, where: str = "undamaged"
    ) -> tuple[dict[str, Any], list[str]] | None:
        """What a broker finds and names; None where it refused as it should, and was repaired."""
        disk = self.disk_of(image)
        try:
            return self.look(disk, where)
        except Corrupt as error:
            disk.kill()
            self.check_refusal(error, where)
            mended = repair(disk.boot(), ROOT)
            disk.kill()
            assert mended.done, f"{where}: refused, and nothing repaired"
            self.look(disk, f"{where}, repaired")
            return None
        except (Crash, AssertionError):
            raise
        except Exception as error:
            raise AssertionError(f"{where}: {error!r}") from error

    def check_refusal(self, error: Corrupt, where: str) -> None:
        assert "kitemq store repair --data /data" in error.remedy, f"{where}: {error.detail}"
        assert " at offset " in error.detail, f"{where}: {error.detail}"

    def look(self, disk: Disk, where: str) -> tuple[dict[str, Any], list[str]]:
        heard: list[EngineEvent] = []
        clock = ManualClock()
        clock.advance((self.now_ms - clock.now_ms()) / 1000 + 1)
        broker = Broker(self.life.config, clock=clock, pool=InlinePool(), files=disk.boot())
        broker.start()
        broker.events.subscribe(heard.append)
        found = dump(broker)
        damages = list(map(str, broker.health().damages))
        damages += [str(event) for event in heard if isinstance(event, CorruptRecord)]
        for _ in range(3):
            broker.tick()
            clock.advance(1.0)
        assert broker.health().is_ready, f"{where}: {broker.health().failures}"
        broker.stop()
        disk.kill()
        return found, damages


def image_of(disk: Disk) -> Image:
    return {path: None if node is None else bytes(node.shown) for path, node in disk.shown.items()}


def dump(broker: Broker) -> dict[str, Any]:
    """Everything that a start is to bring back, by name."""
    store = broker._store
    found: dict[str, Any] = {}
    where: dict[int, StoredMessage] = {}
    for part in store.journal._parts:
        for entry in part.snapshot():
            data = msgspec.msgpack.encode(entry)
            found[f"{type(entry).__name__} {data[:60]!r}"] = data
    keys = {(config.name, queue) for config in broker.topics(system=True) for queue in range(32)}
    for topic, queue in sorted(keys | set(store.queue_keys())):
        low, high = store.bounds(topic, queue)
        if (low, high) == (0, 0):
            continue
        found[f"{topic}/{queue}"] = (low, high)
        offset = low
        while entries := store.entries(topic, queue, offset, 100):
            messages = store.read_entries(entries, (topic, queue))
            entries = store.entries(topic, queue, offset, 100)  # as reading mended them
            for entry, message in zip(entries, messages, strict=True):
                found[f"{topic}/{queue}@{entry.offset}"] = message and (
                    # Half messages: any time of a first check may be one by a setting.
                    entry.tag_code if topic != HALF_TOPIC else 0,
                    message.body,
                    message.properties,
                    message.position,
                    message.stored_ms,
                    message.born_host,
                )
                if message is not None:
                    where[message.position] = message
            offset = entries[-1].offset + 1
    found |= lookups(broker, list(where.values()))
    return found


def lookups(broker: Broker, messages: list[StoredMessage]) -> dict[str, Any]:
    """What is found by the message ids and keys of messages, by what was asked."""
    found: dict[str, Any] = {}
    for message_id in {message.message_id for message in messages}:
        places = [each.position for each in broker.messages_by_id(message_id)]
        found[f"id {message_id}"] = places
    for topic, key in {(message.topic, key) for message in messages for key in message.keys}:
        places = broker._store.positions_of_key(topic, key, count_max=LOOKUP_MAX)
        found[f"key {key} of {topic}"] = sorted(set(places))
    return found


def first_change(expected: dict[str, Any], found: dict[str, Any]) -> str:
    for name in [*expected, *found]:
        if expected.get(name) != found.get(name):
            return f"{name}: {expected.get(name)!r:.300} became {found.get(name)!r:.300}"
    return ""
