"""The page of the brokers of a cluster: who is there, and how much each has."""

from collections.abc import Sequence
from dataclasses import dataclass

from starlette.responses import Response

from app.ui.framework import pages
from app.ui.framework.language import _
from app.ui.framework.page_request import PageRequest
from engine.broker import total
from kitemq.model.brokers import BrokerItem

DISK_WARNING, DISK_FULL = 0.75, 0.9  # of the disk: brokers delete early, and refuse


@dataclass(frozen=True)
class BrokersPage:
    """The context of `brokers.html`; sums leave out the brokers that are `away`."""

    brokers: Sequence[BrokerItem]
    away: int
    stored_today: int | None
    in_per_s: float | None
    out_per_s: float | None
    disk_warning: float = DISK_WARNING
    disk_full: float = DISK_FULL


async def show(request: PageRequest) -> Response:
    """GET /brokers"""
    brokers = await request.administration.brokers()
    present = [each for each in brokers if each.reachable]
    context = BrokersPage(
        brokers=brokers,
        away=len(brokers) - len(present),
        stored_today=total(each.stored_today for each in present) if present else None,
        in_per_s=_rate([each.in_per_s for each in present]),
        out_per_s=_rate([each.out_per_s for each in present]),
    )
    return await pages.respond(request, "brokers.html", context, title=_("Brokers"), is_live=True)


def _rate(rates: Sequence[float | None]) -> float | None:
    """The sum; None where one of them is not known, or there is none."""
    known = [each for each in rates if each is not None]
    return sum(known) if known and len(known) == len(rates) else None
