"""Bulk changes of a list: bounded in number and time, with one result per object.

The objects that are ticked or match the filter are previewed first; the form that applies the
change names each object with its expected state. Topics and groups share this module.
"""

import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from starlette.requests import Request

from app.pause import Pause
from app.security.access import Action, Kind
from app.ui.framework import rights
from app.ui.framework.forms import Form
from app.ui.framework.language import N_, _
from engine.errors import EngineError, Forbidden, NotFound

ITEMS_MAX = 5_000
SHOWN_MAX = 200
BUDGET_S = 20.0
LINE_CHARS_MAX = 255
# In the order of the list: failures come first.
OUTCOMES = {
    "failed": N_("failed"),
    "unreached": N_("not reached"),
    "would": N_("would change"),
    "left": N_("left out"),
    "done": N_("done"),
}


class BulkResult(Protocol):
    """A row of a preview or of a result."""

    @property
    def outcome(self) -> str: ...

    @property
    def choice(self) -> tuple[str, str]:
        """The expected state of the object, and its name."""


Row = TypeVar("Row", bound=BulkResult)


@dataclass(frozen=True, kw_only=True)
class Sheet:
    """The shared part of bulk pages; `rows` are the first SHOWN_MAX, `counts` cover all rows.

    `matching` objects match, of which the first ITEMS_MAX are previewed. `is_asking` is true while
    a parameter is missing; `selection` is the form's list of objects with their expected state.
    """

    action: str
    form: Form
    carried: Sequence[tuple[str, str]]
    is_asking: bool
    is_done: bool
    rows: Sequence[BulkResult]
    counts: Mapping[str, int]
    total: int
    matching: int
    selection: str
    shown_max: int = SHOWN_MAX


async def each(
    request: Request,
    kind: Kind,
    names: Sequence[str],
    work: Callable[[str], Awaitable[Row]],
    row_of: Callable[[str, str, str], Row],
) -> list[Row]:
    """Run `work` for each name that the user may change, until the time budget is spent.

    `row_of(name, outcome, note)` makes the row of an object that was not reached or was refused by
    the engine or for a missing right.
    """
    end_s = time.monotonic() + BUDGET_S
    rows: list[Row] = []
    pause = Pause()
    for name in names:
        if time.monotonic() >= end_s:
            rows.append(row_of(name, "unreached", _("the time was over; do it again")))
            continue
        try:
            rights.require(request, Action.ADMINISTER, kind, name)
            rows.append(await work(name))
        except (NotFound, Forbidden) as error:
            rows.append(row_of(name, "left", error.detail))
        except EngineError as error:
            rows.append(row_of(name, "failed", error.detail))
        await pause.when_due()
    return rows


def sheet(
    kind: Kind,
    form: Form,
    rows: Sequence[BulkResult],
    matching: int,
    *,
    asking: Iterable[str] | None = None,
    is_done: bool = False,
) -> Sheet:
    """The page of `rows`, failures first.

    `asking` holds the ticked names while a parameter is missing.
    """
    order = list(OUTCOMES)
    tally = Counter(row.outcome for row in rows)
    own = ("confirm", "selection")  # what each step has of its own
    carried = [(name, value) for name, value in form.values.items() if value and name not in own]
    choices = (row.choice for row in rows if row.outcome == "would")
    return Sheet(
        action=form.values["action"],
        form=form,
        carried=[*carried, *((kind.value, name) for name in asking or ())],
        is_asking=asking is not None,
        is_done=is_done,
        rows=sorted(rows, key=lambda row: order.index(row.outcome))[:SHOWN_MAX],
        counts={name: tally[name] for name in OUTCOMES if tally[name]},
        total=len(rows),
        matching=matching,
        selection="\n".join(f"{expected} {name}" for expected, name in choices),
    )


def parsed(text: str) -> dict[str, str]:
    """Parse `Sheet.selection` into the expected state by name; malformed lines are skipped."""
    expected_by_name: dict[str, str] = {}
    for line in text[: ITEMS_MAX * 2 * LINE_CHARS_MAX].split("\n", ITEMS_MAX)[:ITEMS_MAX]:
        expected, __, name = line[: 2 * LINE_CHARS_MAX].rstrip("\r").partition(" ")
        if name:
            expected_by_name[name] = expected
    return expected_by_name
