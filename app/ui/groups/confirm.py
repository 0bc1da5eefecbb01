"""The confirmation of a change to a group: its consequences and one button."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from starlette.responses import Response

from app.ui.framework.page_request import PageRequest
from app.ui.groups.head import GroupTab, head_of, respond
from engine.broker import GroupConfig


@dataclass(frozen=True)
class Confirmation:
    """A confirmation; the form posts hidden `fields` to the group's address plus `action`."""

    action: str
    question: str
    impact: Sequence[str]
    verb: str
    fields: Mapping[str, str]
    tone: str = "primary"


@dataclass(frozen=True)
class ConfirmPage(GroupTab):
    """The context of `group_confirm.html`."""

    confirmation: Confirmation


async def ask(request: PageRequest, config: GroupConfig, confirmation: Confirmation) -> Response:
    """The page, or the dialog, that asks."""
    page = ConfirmPage(await head_of(request.console, config), confirmation)
    return await respond(request, "group_confirm.html", page, title=confirmation.question)
