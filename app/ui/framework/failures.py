"""Error pages: a sentence, the next step, and an id that also is in the log."""

import logging
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from app.capabilities import NOT_SUPPORTED
from app.errors import REFUSED, ProblemError, status_of
from app.ui.framework import pages, preferences
from app.ui.framework.language import N_, _, translated
from app.ui.framework.page_request import PageRequest
from engine.errors import Busy, EngineError, NotFound

log = logging.getLogger("kitemq.console")

Handler = Callable[[PageRequest], Awaitable[Response]]

HEADLINES = {
    400: N_("Invalid request"),
    403: N_("Permission denied"),
    404: N_("Not found"),
    409: N_("Not possible in the current state"),
    410: N_("Gone"),
    422: N_("Invalid input"),
    500: N_("Internal error"),
    503: N_("Not right now"),
}
LACK = N_("Not available with this engine")
STEPS = {
    404: N_("Check the name or choose from the lists of topics and groups."),
    409: N_("Check the current state and try again."),
    500: N_("No partial change was made by the page. Search the server log for the error id."),
    503: N_("Try again in a moment."),
}


@dataclass(frozen=True)
class ErrorPage:
    """The context of `error.html`."""

    status: int
    headline: str
    detail: str
    remedy: str
    code: str
    error_id: str


def page(handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    """Wrap a handler so that its errors become pages; the only catch-all of the console."""

    async def guarded(request: Request) -> Response:
        await preferences.speak(request)
        try:
            return await handler(PageRequest(request.scope, request.receive))
        except (EngineError, ProblemError) as error:
            request.scope[REFUSED] = error
            return await refused(request, error)
        except ClientDisconnect:
            return Response(status_code=400)  # the client is gone
        except Exception:
            error_id = secrets.token_hex(4)
            log.exception("error %s: %s %r", error_id, request.method, request.url.path)
            return await _show(
                request, 500, _("The server encountered an unexpected error."), "", "", error_id
            )

    return guarded


async def refused(request: Request, error: EngineError | ProblemError) -> Response:
    """The page for an expected error of the engine, or of a request that no handler took."""
    status = error.status_code if isinstance(error, ProblemError) else status_of(error)
    error_id = ""
    if status >= 500 and isinstance(error, EngineError):
        error_id = secrets.token_hex(4)
        log.warning("error %s: %s %r: %s", error_id, request.method, request.url.path, error)
    detail = _sentence(str(error.detail))
    response = await _show(request, status, detail, error.remedy, error.code, error_id)
    retry_after_s = getattr(error, "retry_after_s", None)
    if retry_after_s or isinstance(error, Busy):
        response.headers["Retry-After"] = str(max(1, round(retry_after_s or 0)))
    return response


async def unknown_page(request: Request) -> Response:
    """The 404 page for an unknown address."""
    await preferences.speak(request)
    return await refused(
        request, NotFound(_("there is no page at %(path)s", path=request.scope["path"]))
    )


async def _show(
    request: Request, status: int, detail: str, remedy: str, code: str, error_id: str
) -> Response:
    headline = HEADLINES.get(status, HEADLINES[500 if status >= 500 else 400])
    headline = translated(LACK if code == NOT_SUPPORTED else headline)
    failure = ErrorPage(
        status=status,
        headline=headline,
        detail=detail,
        remedy=_sentence(remedy) if remedy else translated(STEPS.get(status, "")),
        code=code,
        error_id=error_id,
    )
    if request.headers.get("hx-request-type") == "partial":
        response = pages.respond_block(request, "error.html", "failure", failure, status=status)
        response.headers["HX-Reswap"] = "innerHTML"
        return response
    return await pages.respond(
        request, "error.html", failure, title=headline, section="", status=status
    )


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:].rstrip(".") + "."
