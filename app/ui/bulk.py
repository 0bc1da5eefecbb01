"""One change for many things of a list: bounded in number and time, told by each.

What a list's tick boxes and its filter choose is looked at first; the form that applies it names
each thing, with what was expected of it. This is what topics and groups have in common.
"""

import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

from app.pause import Pause
from app.ui.language import N_, _
from engine.errors import EngineError, Forbidden, NotFound

ITEMS_MAX = 5_000
SHOWN_MAX = 200
BUDGET_S = 20.0
LINE_CHARS_MAX = 255
# In the order in which they are listed: what needs a person comes first.
OUTCOMES = {
    "failed": N_("failed"),
    "unreached": N_("not reached"),
    "would": N_("would change"),
    "left": N_("left out"),
    "done": N_("done"),
}


class Outcome(Protocol):
    """A row of a preview or of a result."""

    @property
    def outcome(self) -> str: ...


Row = TypeVar("Row", bound=Outcome)


async def each(
    names: Sequence[str],
    work: Callable[[str], Awaitable[Row]],
    told: Callable[[str, str, str], Row],
) -> list[Row]:
    """The work for one name after the other, for as long as the time is not over.

    `told(name, outcome, note)` makes the row of one that was not reached, or that the engine or
    a missing right refused.
    """
    end_s = time.monotonic() + BUDGET_S
    rows: list[Row] = []
    pause = Pause()
    for name in names:
        if time.monotonic() >= end_s:
            rows.append(told(name, "unreached", _("the time was over; do it again")))
            continue
        try:
            rows.append(await work(name))
        except (NotFound, Forbidden) as error:
            rows.append(told(name, "left", error.detail))
        except EngineError as error:
            rows.append(told(name, "failed", error.detail))
        await pause.when_due()
    return rows


def ordered(rows: Iterable[Row]) -> list[Row]:
    """What needs a person first, otherwise as they were."""
    order = list(OUTCOMES)
    return sorted(rows, key=lambda row: order.index(row.outcome))


def counts(rows: Iterable[Outcome]) -> Mapping[str, int]:
    """How many have each outcome, without those that nothing has."""
    found = Counter(row.outcome for row in rows)
    return {name: found[name] for name in OUTCOMES if found[name]}


def selection(pairs: Iterable[tuple[str, str]]) -> str:
    """What is chosen, a line for each: what is expected of it, its name; as `parsed` reads them."""
    return "\n".join(f"{expected} {name}" for expected, name in pairs)


def parsed(text: str) -> dict[str, str]:
    """Name to what is expected of it; what no preview wrote is left out."""
    found: dict[str, str] = {}
    for line in text.splitlines()[:ITEMS_MAX]:
        expected, __, name = line[: 2 * LINE_CHARS_MAX].partition(" ")
        if name:
            found[name] = expected
    return found
