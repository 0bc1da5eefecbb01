"""Who leads: handing over to a standby, and promoting a standby."""

from dataclasses import dataclass

from starlette.responses import Response

from app.services.handover import TIMEOUT_S
from app.ui.framework import forms, pages
from app.ui.framework.forms import Form
from app.ui.framework.language import _
from app.ui.framework.page_request import PageRequest
from engine.errors import EngineError


@dataclass(frozen=True)
class LeaderPage:
    """The context of both pages: `peer` is the other server's address, which is to be typed.

    `epoch` is the one that was begun, 0 before. `is_risky`: the other one may lead just now.
    """

    form: Form
    peer: str
    lag_bytes: int | None
    epoch: int = 0
    is_risky: bool = False
    timeout_s: float = TIMEOUT_S


async def handover_page(request: PageRequest, form: Form | None = None, epoch: int = 0) -> Response:
    """GET /engine/handover?to=: ask before handing over."""
    to = request.query_params.get("to", "")
    log_end = request.services.host.broker.log_end
    links = [each for each in request.services.standbys.links if each.ha_listen == to]
    lag_bytes = links[0].lag_bytes(log_end) if links else None
    context = LeaderPage(form or Form({"confirm": ""}), to, lag_bytes, epoch)
    title = _("Hand over to %(name)s", name=to)
    return await pages.respond(request, "engine_handover.html", context, title=title)


async def hand_over(request: PageRequest) -> Response:
    """POST /engine/handover?to="""
    to, services = request.query_params.get("to", ""), request.services
    form = await forms.confirmation(request, to, _("Not done. Type the address exactly."))
    epoch = 0
    if not form.is_wrong:
        try:
            epoch, _leader = await services.handover.hand_over(
                request.actor, services.audit, to, timeout_s=TIMEOUT_S
            )
        except EngineError as error:
            form.blame(error)
    return await handover_page(request, form, epoch)


async def promotion_page(
    request: PageRequest, form: Form | None = None, epoch: int = 0
) -> Response:
    """GET /engine/promotion: ask before a standby, or a leader that was stopped, leads."""
    services = request.services
    following, heir = services.following, services.leadership.state.heir
    context = LeaderPage(
        form or Form({"confirm": ""}),
        following.leader or heir,
        following.lag_bytes(request.services.host.broker.log_end),
        epoch,
        is_risky=bool(heir) or following.is_connected,
    )
    return await pages.respond(request, "engine_promotion.html", context, title=_("Promote"))


async def promote(request: PageRequest) -> Response:
    """POST /engine/promotion"""
    services = request.services
    peer = services.following.leader or services.leadership.state.heir
    form = await forms.confirmation(request, peer, _("Not done. Type the address exactly."))
    epoch = 0
    if not form.is_wrong:
        try:
            # The page has said what that may cost.
            epoch = await services.leadership.promote(request.actor, services.audit, is_forced=True)
        except EngineError as error:
            form.blame(error)
    return await promotion_page(request, form, epoch)
