"""Renders a page's context, as a whole page or as a fragment for htmx.

A context is a frozen dataclass. The fragment follows from the element that htmx will fill:
`id="topic-list"` is block `topic_list`.
"""

import dataclasses
import hashlib
import itertools
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from app.capabilities import lack_of
from app.container import services_of
from app.following import Following
from app.security.access import Action, Kind, Principal, lacks, principal_of, replay_rights
from app.services.read_only import ReadOnlyState
from app.settings import is_loopback
from app.ui.framework import language, preferences, rights, saved_bar
from app.ui.framework.compression import page_body
from app.ui.framework.forms import Form
from app.ui.framework.language import N_, Language
from app.ui.framework.preferences import Preferences
from app.ui.framework.rights import Lock
from app.ui.framework.saved_bar import SavedBar
from app.ui.framework.unread import reason_of
from app.ui.framework.zones import Zone
from engine.errors import NotFound
from kitemq.model.server import Capabilities

if TYPE_CHECKING:
    from app.ui.framework.console import Console

VARY = "HX-Request, HX-Request-Type, HX-Target, Cookie, Accept-Language, Accept-Encoding"
PASSING = frozenset({"done", "message"})  # what one visit has: a notice, an open drawer
# Messages after a redirect; the query holds the key, never the sentence.
NOTICES = {
    "created": N_("Created."),
    "changed": N_("Saved."),
    "deleted": N_("Deleted."),
    "first": N_("You are logged in as admin. A login or token is now required for all access."),
    "revoked": N_("Token revoked."),
    "ended": N_("Session ended."),
    "password": N_("Password changed. Your other sessions have ended."),
    "recalled": N_("Recalled. The message will not be delivered."),
    "delivered": N_("Delivered."),
    "rescheduled": N_("Rescheduled."),
    "committed": N_("Committed. The message is delivered."),
    "rolled_back": N_("Rolled back. The message is not delivered."),
    "checks_resumed": N_("Checks restarted."),
    "dismissed": N_("Dismissed. Restore them at any time."),
    "restored": N_("Restored. They need review."),
    "purged": N_("Purged. The messages can no longer be read; the audit trail has the numbers."),
    "acknowledged": N_("Acknowledged. The alert keeps firing until it is resolved."),
    "silenced": N_("Silenced. States are still updated; no notifications are sent."),
    "unsilenced": N_("Silence ended. Alerts still firing are sent within 10 seconds."),
    "tested": N_("Test sent. See the deliveries for the result."),
    "job-begun": N_("Started. Sending the messages of the dry run."),
    "job-paused": N_("Paused. Nothing is sent until the job is resumed."),
    "job-resumed": N_("Resumed."),
    "job-stopped": N_("Stopped. Unsent messages stay where they are."),
    "paused": N_("Paused."),
    "resumed": N_("Resumed."),
    "left": N_("Removed."),
    "report-begun": N_("Run started. The current figures stay until it finishes."),
    "report-cancelled": N_("Cancelled. The current figures stay."),
    "frozen": N_("Read-only mode is on. All changes are refused until it is disabled."),
    "thawed": N_("Read-only mode is off."),
    "levelled": N_("Log level changed until the next restart."),
    "template-saved": N_("Template saved."),
    "view-saved": N_("View saved. It appears above the list and in Ctrl K."),
}


@dataclass(frozen=True)
class Frame:
    """The layout around every page."""

    title: str
    section: str
    path: str
    query: Mapping[str, str]
    environment: str
    environment_color: str
    version: str
    choices: Preferences
    language: Language
    origin: str
    now_ms: int
    notice: str
    is_live: bool
    ptag: str
    dead: int
    away: str  # why there may be more dead letters than are counted
    who: Principal
    read_only: ReadOnlyState  # with author, time and reason
    following: Following  # a leader, where this server is a standby
    lag_bytes: int | None  # of a standby
    heir: str  # of a leader that waits for what came of a hand-over
    is_local: bool  # the server listens on this machine only
    capabilities: Capabilities
    block: str = ""  # the block to render; "" for the whole page
    saved: SavedBar | None = None  # above a list, on whole pages
    locks: Iterator[int] = field(default_factory=itertools.count, repr=False, compare=False)

    def lacks(self, action: str, kind: str, name: str = "") -> str:
        """The missing right of the user as text; "" if the user has the right."""
        return lacks(self.who, Action(action), Kind(kind), name)

    def lock(self, action: str, kind: str, name: str = "") -> Lock | None:
        """The reason why the user may not do this now; None if allowed.

        The page then shows a disabled control with the reason: `m.can`, or `m.locked` or
        `m.by` together with `m.why`.
        """
        return rights.lock_of(self.who, self._lock_id(), (Action(action), Kind(kind), name))

    def unread(self, right: str) -> Lock | None:
        """The lock for reading messages if that right is missing, else None."""
        return rights.Lock(self._lock_id(), reason_of(right), right) if right else None

    def absent(self, capability: str) -> str:
        """Why a part of the page is left out: what the engine does not do. "" if it does."""
        return lack_of(self.capabilities, capability)

    def lock_replay(self, source: str, to: str, to_name: str) -> Lock | None:
        """The same for resending messages of `source` by a replay job."""
        return rights.lock_of(self.who, self._lock_id(), *replay_rights(source, to, to_name))

    def _lock_id(self) -> str:
        # Unique in every block, since a page has several.
        return "-".join(filter(None, ("lock", self.block, str(next(self.locks)))))

    @property
    def zone(self) -> Zone:
        return self.choices.zone

    @property
    def zone_label(self) -> str:
        """The zone of all times on the page, for column heads."""
        return self.zone.name.replace("_", " ")

    @property
    def here(self) -> str:
        """The address of this page, without its one-time message and what is in the drawer."""
        return self.link()

    def link(self, **changes: object) -> str:
        """The address of this page with changes to its query; None removes a parameter."""
        merged = {**self.query, **changes}
        query = {k: v for k, v in merged.items() if v not in (None, "") and k not in PASSING}
        return f"{self.path}?{urlencode(query)}" if query else self.path


def console_of(request: Request) -> "Console":
    """The console of the server that a request belongs to."""
    console: Console = request.app.console
    return console


async def exists(look_up: Callable[[str], Awaitable[object]], name: str) -> bool:
    """Whether `look_up` does not raise NotFound."""
    try:
        await look_up(name)
    except NotFound:
        return False
    return True


async def respond(
    request: Request,
    template: str,
    context: Any,
    *,
    title: str,
    section: str | None = None,
    status: int | None = None,
    is_live: bool = False,
) -> Response:
    """Render `context` as a page or the requested block; `is_live` pages refresh themselves.

    The context must hold plain values, because another thread renders it. Without a `status`
    that of its forms counts. The section of the menu follows from the address.
    """
    console = console_of(request)
    status = status_of(context) if status is None else status
    section = section_of(request.scope["path"]) if section is None else section
    block = _target_block(request)
    if not (block and console.templates.has_block(template, block)):
        block = ""
    saved = None if block or status != 200 else await saved_bar.read(request)

    def rendered() -> Response:
        frame = _frame(request, context, title=title, section=section, is_live=is_live, block=block)
        frame = dataclasses.replace(frame, saved=saved)
        headers = {"Vary": VARY, "Cache-Control": "no-store"}
        if block and is_live and status == 200:
            headers["HX-PTag"] = frame.ptag
            if request.headers.get("hx-ptag") == frame.ptag:
                return Response(status_code=304, headers=headers)
        html = console.templates.render(template, block, {"frame": frame, **_fields(context)})
        body, coding = page_body(request, html)
        return HTMLResponse(body, status, headers=headers | coding)

    return await console.render(rendered)


def as_file(name: str, *, is_free: bool = False) -> dict[str, str]:
    """The headers of a download; a name that `is_free` may have any characters."""
    file = f"filename*=UTF-8''{quote(name, safe='-_.')}" if is_free else f'filename="{name}"'
    return {"Content-Disposition": f"attachment; {file}", "Cache-Control": "no-store"}


def section_of(path: str) -> str:
    """The section of the menu that a page belongs to: the first part of its address."""
    first = path[1:].partition("/")[0]
    return {"": "overview", "client": "clients"}.get(first, first)


def status_of(context: Any) -> int:
    """The status of a page by the errors of its forms: 200 without one."""
    forms = (value for value in _fields(context).values() if isinstance(value, Form))
    status = max((form.status for form in forms), default=200)
    return 422 if status == 404 else status  # the page is there, what a field names is not


def respond_block(
    request: Request, template: str, block: str, context: Any, *, status: int
) -> Response:
    """Render one block of a template for any htmx target, also for errors."""
    frame = _frame(request, context, title="", section="", is_live=False, block=block)
    values = {"frame": frame, **_fields(context)}
    html = console_of(request).templates.render(template, block, values)
    return HTMLResponse(html, status, headers={"Vary": VARY, "Cache-Control": "no-store"})


def _fields(context: Any) -> dict[str, Any]:
    return {field.name: getattr(context, field.name) for field in dataclasses.fields(context)}


def _target_block(request: Request) -> str:
    """The block for the target of an htmx request; "" for a whole page."""
    headers = request.headers
    if headers.get("hx-request") != "true" or headers.get("hx-request-type") != "partial":
        return ""
    if headers.get("hx-history-restore-request") == "true":
        return ""
    return headers.get("hx-target", "").partition("#")[2].replace("-", "_")


def _frame(
    request: Request, context: Any, *, title: str, section: str, is_live: bool, block: str
) -> Frame:
    console = console_of(request)
    choices = preferences.read(request)
    who = principal_of(request.scope)
    services = services_of(request.scope)
    following = services.following
    tag = hashlib.blake2b(
        f"{choices}{request.url.query}{who!r}{context!r}".encode(), digest_size=12
    )
    return Frame(
        title=title,
        section=section,
        path=quote(request.scope["path"], safe="/"),
        query=dict(request.query_params),
        environment=console.environment,
        environment_color=console.environment_color,
        version=console.version,
        choices=choices,
        language=language.spoken(),
        origin=str(request.base_url).rstrip("/"),
        now_ms=console.now_ms(),
        notice=language.translated(NOTICES.get(request.query_params.get("done", ""), "")),
        is_live=is_live,
        ptag=tag.hexdigest(),
        who=who,
        read_only=services.read_only.state,
        following=following,
        lag_bytes=following.lag_bytes(services.host.broker.log_end) if following.leader else None,
        heir=services.leadership.state.heir,
        is_local=is_loopback(services.settings.host),
        capabilities=services.messaging.capabilities,
        dead=console.sampler.snapshot.dead,
        away=console.sampler.snapshot.away,
        block=block,
    )
