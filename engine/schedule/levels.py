"""The delay levels: 18 fixed waits, numbered from 1, in which order is kept by arrival alone.

Source: docs/rocketmq-rules.md#delay-levels.
"""

from bisect import bisect_left

from engine.errors import Invalid
from engine.message import Message, StoredMessage

DEFAULT = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
UNITS_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class DelayLevels:
    """Waits in ms by level; a level past the last is the last, one below 1 is no wait."""

    def __init__(self, text: str = DEFAULT) -> None:
        """`text` lists the waits, ascending, as "1s 5s 1m 2h"; Invalid when it does not."""
        self._delays_ms = [_parse(word) for word in text.split()]
        if not self._delays_ms or self._delays_ms != sorted(set(self._delays_ms)):
            raise _invalid(f"{text!r} is no ascending list of waits")

    @property
    def count(self) -> int:
        return len(self._delays_ms)

    @property
    def longest_ms(self) -> int:
        return self._delays_ms[-1]

    def clamp(self, level: int) -> int:
        """The level in force: 0 for no wait, at most the last."""
        return max(0, min(level, self.count))

    def delay_ms(self, level: int) -> int:
        """Wait of a level in ms."""
        level = self.clamp(level)
        return self._delays_ms[level - 1] if level else 0

    def level_for(self, delay_ms: int) -> int:
        """The smallest level that waits at least `delay_ms`; 0 for no wait, at most the last."""
        if delay_ms <= 0:
            return 0
        return self.clamp(bisect_left(self._delays_ms, delay_ms) + 1)

    def due_ms(self, queue: int, stored_ms: int) -> int:
        """The third field of a queue entry of the waiting topic: when its message is due."""
        return stored_ms + self.delay_ms(queue + 1)

    def due_ms_of(self, message: Message | StoredMessage, stored_ms: int) -> int:
        """The same, of a message for that topic."""
        return self.due_ms(message.queue, stored_ms)


def _parse(word: str) -> int:
    number, unit = word[:-1], word[-1]
    if not number.isdecimal() or unit not in UNITS_MS:
        raise _invalid(f"{word!r} is no wait")
    return int(number) * UNITS_MS[unit]


def _invalid(detail: str) -> Invalid:
    return Invalid(detail, field="delay_levels", remedy=f'write it like "{DEFAULT}"')
