"""Journal entries by chance: every type that is registered, each field legal or wild.

Names, queues and offsets come mostly from what a small broker has, so that many an entry fits its
state and many another nearly does; numbers also from the borders of what their field can hold.
"""

import random
import types
import typing
import zlib
from array import array
from collections.abc import Sequence
from enum import Enum
from typing import Any, Union

import msgspec

from engine.delivery.changes import HandedOut, QueueChange, Restored
from engine.delivery.message_state import MessageState
from engine.delivery.queue_progress import QueueProgress
from engine.run_length import to_runs
from engine.store.journal import JournalEntry

NAMES = ("orders", "steps", "g", "h", "%RETRY%g", "%DLQ%g", "%RETRY%h", "b@c1", "fa1", "red", "")
ODD_NAMES = (
    "../up",
    "a b",
    "\0",
    "x" * 300,
    "\u0661",
    "SCHEDULE_TOPIC_XXXX",
    "rmq_sys_wheel_timer",
)
BORDERS = (-1, 2**31 - 1, 2**31, 2**53, 2**62, 2**63 - 1, 2**63, 2**64 - 1)
SMALL_MAX = 12
FITTING = {
    "queue": (0, 0, 0, 1),
    "kind": (0, 1),
    "permission": (0, 2, 4, 6),
    "start_at_ms": (0, 0, 0, 5),
    "retention_ms": (0, 5000),
    "initial_ms": (1, 5000),
    "max_ms": (5000, 60_000),
    "timeout_ms": (1, 5000),
}


class Changes:
    """`entry(kind)` makes one; `clock_ms` is about now, `queues` is all progress that there is."""

    def __init__(
        self, chance: random.Random, clock_ms: int, queues: Sequence[QueueProgress]
    ) -> None:
        self.chance = chance
        self.clock_ms = clock_ms
        self.queues = queues
        self.wildness = chance.choice((0.0, 0.0, 0.03, 0.2))

    def entry(self, kind: type[JournalEntry]) -> JournalEntry:
        """One of a type, perhaps illegal; no field of another type than it says."""
        made: JournalEntry = self._struct(kind)
        if isinstance(made, QueueChange) and self.queues:
            made = self._fitted(made, self.chance.choice(self.queues))
        return made

    def _fitted(self, made: QueueChange, progress: QueueProgress) -> QueueChange:
        """The same for a queue as it is, at least about."""
        place = {"group": progress.group, "topic": progress.topic, "queue": progress.queue}
        made = msgspec.structs.replace(made, **place)
        if isinstance(made, HandedOut):
            return self._handed_out(made, progress)
        if isinstance(made, Restored):
            is_inflight = made.phase is MessageState.INFLIGHT
            free = [at for at in range(min(progress.cursor, 50)) if at not in progress.slots]
            runs = to_runs(self._some(free))
            serial = self.clock_ms << 20 if is_inflight else 0
            return msgspec.structs.replace(made, runs=runs, serial=serial, lanes=[])
        if hasattr(made, "runs") and self.chance.random() < 0.8:
            return msgspec.structs.replace(made, runs=to_runs(self._some(sorted(progress.slots))))
        return made

    def _handed_out(self, made: HandedOut, progress: QueueProgress) -> HandedOut:
        cursor = progress.cursor
        ready = [at for at, slot in progress.slots.items() if slot.phase is MessageState.READY]
        fresh = self._some(list(range(cursor, cursor + self.chance.randrange(5))))
        deferred = [at for at in self._some(fresh) if self.chance.random() < 0.5]
        taken = [at for at in fresh if at not in deferred]
        lanes = [self.chance.choice(NAMES) for _ in taken] if deferred else []
        after = cursor + 5 if self.chance.random() < 0.9 else cursor
        return msgspec.structs.replace(
            made,
            cursor=after,
            runs=to_runs(sorted(self._some(sorted(ready)) + taken)),
            serial=self.clock_ms << 20,
            lanes=lanes,
            deferred=to_runs(deferred),
            deferred_lanes=[self.chance.choice(NAMES) for _ in deferred],
        )

    def _some(self, offsets: list[int]) -> list[int]:
        return [at for at in offsets if self.chance.random() < 0.7]

    def payload(self, kind: type[JournalEntry]) -> bytes:
        """The same as bytes, sometimes cut, longer, or of no type at all."""
        try:
            data = msgspec.msgpack.encode(self.entry(kind))
        except OverflowError:
            data = b"\xc1"
        odd = self.chance.random()
        if odd < 0.05:
            return data[: self.chance.randrange(1, len(data) + 1)]
        if odd < 0.1:
            at = self.chance.randrange(len(data))
            return data[:at] + bytes([self.chance.randrange(256)]) + data[at + 1 :]
        return data

    def _struct(self, kind: Any) -> Any:
        hints = typing.get_type_hints(kind)
        return kind(**{name: self._value(hints[name], name) for name in kind.__struct_fields__})

    def _value(self, hint: Any, name: str) -> Any:
        origin, inner = typing.get_origin(hint), typing.get_args(hint)
        if origin in (Union, types.UnionType):
            return self._value(self.chance.choice(inner), name)
        if origin is list:
            return self._list(inner[0], name)
        if origin is tuple:
            return tuple(self._value(inner[0], name) for _ in range(self.chance.randrange(3)))
        if origin is dict:
            return {
                self._number("queue"): self._number("offset")
                for _ in range(self.chance.randrange(4))
            }
        return self._plain(hint, name)

    def _plain(self, hint: Any, name: str) -> Any:
        if hint is type(None):
            return None
        if hint is bool:
            return self.chance.random() < 0.5
        if hint is int:
            return self._number(name)
        if hint is float:
            odd = (-1.0, float("inf"), float("nan"), 1e300)
            return self.chance.choice(odd if self._is_wild() else (0.0, 0.5, 1.0))
        if hint is str:
            return self._text(name)
        if hint is bytes:
            return self._bytes(name)
        if issubclass(hint, Enum):
            return self.chance.choice(list(hint))
        if issubclass(hint, msgspec.Struct):
            return self._struct(hint)
        return hint(*(self._value(each, field) for field, each in hint.__annotations__.items()))

    def _list(self, item: Any, name: str) -> list[Any]:
        if name in ("runs", "deferred", "half_offsets", "given_up"):
            return self._runs()
        return [self._value(item, name) for _ in range(self.chance.choice((0, 0, 1, 2, 5)))]

    def _runs(self) -> list[int]:
        if self.chance.random() < self.wildness:
            return [self._number("offset") for _ in range(self.chance.randrange(6))]
        runs: list[int] = []
        at = self.chance.randrange(SMALL_MAX)
        for _ in range(self.chance.choice((0, 1, 1, 1, 2, 3))):
            count = self.chance.choice((1, 1, 2, 5))
            runs += (at, count)
            at += count + self.chance.choice((0, 1, 3))
        return runs

    def _number(self, name: str) -> int:
        if self._is_wild():
            return self.chance.choice(BORDERS)
        if name in FITTING:
            return self.chance.choice(FITTING[name])
        if name in ("serial", "created_ms", "started_ms") or name.endswith("_ms"):
            now = self.clock_ms + self.chance.randrange(-90_000, 90_000)
            return self.chance.choice((0, now, now << 20 if name == "serial" else now))
        if name in ("position", "since", "since_position", "record_end", "start"):
            return self.chance.choice((0, 0, self.chance.randrange(4000)))
        return self.chance.randrange(SMALL_MAX)

    def _is_wild(self) -> bool:
        return self.chance.random() < self.wildness

    def _text(self, name: str) -> str:
        if self._is_wild():
            return self.chance.choice(ODD_NAMES)
        if name == "id":
            return self.chance.choice(("0123", "18c", "fa1", "fa2"))
        if name in ("job", "retry_of"):
            return self.chance.choice(("", "fa1", "fa2"))
        if name == "name" or name == "paused_topics":
            return self.chance.choice(NAMES[:5])
        if name == "filter":
            return self.chance.choice(("*", "a", "a||b", "a||"))
        return self.chance.choice(NAMES)

    def _bytes(self, name: str) -> bytes:
        if self.chance.random() < self.wildness:
            return self.chance.randbytes(self.chance.randrange(30))
        if name == "marks":
            marks = bytes(self.chance.randrange(2) for _ in range(self.chance.randrange(9)))
            return zlib.compress(marks)
        if name in ("outcomes", "tail"):
            return bytes(self.chance.randrange(1, 13) for _ in range(self.chance.randrange(4)))
        if name == "which":
            return array("i", [0] * self.chance.randrange(3)).tobytes()
        if name == "counts":
            return bytes(self.chance.randrange(3))
        if name in ("firsts", "ends", "dues"):
            count = self.chance.randrange(3)
            return array("q", sorted(self.chance.randrange(20) for _ in range(count))).tobytes()
        runs = [0, self.chance.randrange(5), self.chance.randrange(1, 4)]
        return array("q", runs * self.chance.choice((0, 1, 1, 1, 2))).tobytes()
