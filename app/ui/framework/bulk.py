"""Bulk changes of a list: bounded in number and time, with one result per object.

The objects that are ticked or match the filter are previewed first; the form that applies the
change names each object with its expected state. Topics and groups share this module.
"""

import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from starlette.responses import Response

from app.pause import paced
from app.security.access import Action, Kind, principal_of, require
from app.ui.framework import pages
from app.ui.framework.forms import Form
from app.ui.framework.language import N_, _
from app.ui.framework.page_request import PageRequest
from engine.broker import total
from engine.errors import EngineError, Forbidden, NotFound

ITEMS_MAX = 5_000
SHOWN_MAX = 200
BUDGET_S = 20.0
LINE_CHARS_MAX = 255
# In the order of the list: failures come first.
OUTCOMES = {
    "failed": N_("failed"),
    "unreached": N_("not processed"),
    "would": N_("would change"),
    "left": N_("excluded"),
    "done": N_("done"),
}


@dataclass(frozen=True)
class BulkRow:
    """The planned or actual result for one object; `note` says why it is left out.

    `state` is what the object has to be at when the change is applied.
    """

    name: str
    outcome: str
    note: str = ""
    state: str = ""


Row = TypeVar("Row", bound=BulkRow)


@dataclass(frozen=True)
class Sheet:
    """The context of bulk pages; `rows` are the first SHOWN_MAX, `counts` and `sums` cover all.

    `matching` objects match, of which the first ITEMS_MAX are previewed. `is_asking` is true while
    a parameter is missing, which is one of `choices`; `selection` is the form's list of objects
    with their expected state. `sums` are those of the fields of the rows that would change, and
    `confirm` is the text that confirms their deletion.
    """

    action: str
    form: Form
    carried: Sequence[tuple[str, str]]
    is_asking: bool
    is_done: bool
    rows: Sequence[BulkRow]
    counts: Mapping[str, int]
    sums: Mapping[str, int | None]
    confirm: str
    total: int
    matching: int
    selection: str
    choices: Sequence[tuple[str, str]]
    shown_max: int = SHOWN_MAX


async def each(
    request: PageRequest,
    kind: Kind,
    names: Sequence[str],
    work: Callable[[str], Awaitable[Row]],
    row_of: Callable[[str, str, str], Row],
) -> list[Row]:
    """Run `work` for each name that the user may change, until the time budget is spent.

    `row_of(name, outcome, note)` makes the row of an object that was not reached or was refused by
    the engine or for a missing right.
    """
    end_s, who = time.monotonic() + BUDGET_S, principal_of(request.scope)
    rows: list[Row] = []
    async for name in paced(names):
        if time.monotonic() >= end_s:
            rows.append(row_of(name, "unreached", _("time limit reached; repeat to continue")))
            continue
        try:
            require(who, Action.ADMINISTER, kind, name)
            rows.append(await work(name))
        except (NotFound, Forbidden) as error:
            rows.append(row_of(name, "left", error.detail))
        except EngineError as error:
            rows.append(row_of(name, "failed", error.detail))
    return rows


def confirmation(count: int) -> str:
    """The text that confirms the deletion of `count` objects, the same in every language."""
    return f"delete {count}"


async def respond(
    request: PageRequest,
    kind: Kind,
    form: Form,
    rows: Sequence[BulkRow] = (),
    matching: int = 0,
    *,
    summed: Sequence[str] = (),
    choices: Sequence[tuple[str, str]] = (),
    asking: Iterable[str] | None = None,
    is_done: bool = False,
) -> Response:
    """The page of `rows`, failures first, with the sums of the fields `summed`.

    `asking` holds the ticked names while a parameter is missing.
    """
    order = list(OUTCOMES)
    tally = Counter(row.outcome for row in rows)
    own = ("confirm", "selection")  # what each step has of its own
    carried = [(name, value) for name, value in form.values.items() if value and name not in own]
    would = [row for row in rows if row.outcome == "would"]
    context = Sheet(
        action=form.values["action"],
        form=form,
        carried=[*carried, *((kind.value, name) for name in asking or ())],
        is_asking=asking is not None,
        is_done=is_done,
        rows=sorted(rows, key=lambda row: order.index(row.outcome))[:SHOWN_MAX],
        counts={name: tally[name] for name in OUTCOMES if tally[name]},
        sums={name: total(getattr(row, name) for row in would) for name in summed},
        confirm=confirmation(len(would)),
        total=len(rows),
        matching=matching,
        selection="\n".join(f"{row.state} {row.name}" for row in would),
        choices=choices,
    )
    title = _("Bulk change of topics") if kind is Kind.TOPIC else _("Bulk change of groups")
    return await pages.respond(
        request, f"{kind}_bulk.html", context, title=title, section=f"{kind}s"
    )


def parsed(text: str) -> dict[str, str]:
    """Parse `Sheet.selection` into the expected state by name; malformed lines are skipped."""
    expected_by_name: dict[str, str] = {}
    for line in text[: ITEMS_MAX * 2 * LINE_CHARS_MAX].split("\n", ITEMS_MAX)[:ITEMS_MAX]:
        expected, __, name = line[: 2 * LINE_CHARS_MAX].rstrip("\r").partition(" ")
        if name:
            expected_by_name[name] = expected
    return expected_by_name
