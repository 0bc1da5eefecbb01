"""HTML forms: parsing posted fields, errors at fields, and the redirect afterwards.

A form has limits on its bytes and fields. More than a few pages of text is parsed on a thread,
since unescaping megabytes would block the event loop.
"""

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from app.errors import ProblemError, status_of
from app.ui.framework import typed_time, zones
from app.ui.framework.language import _
from app.ui.framework.typed_time import NoMoment
from app.ui.framework.zones import UTC_ZONE, Zone
from engine.errors import EngineError, Invalid
from kitemq.model.numbers import is_whole

FIELDS_MAX = 200
FORM_BYTES_MAX = 256 * 1024
LOGIN_BYTES_MAX = 16 * 1024  # of the login form, which needs no session
LARGE_BYTES_MAX = 16 * 1024 * 1024  # a message, a file, many names: `request_bytes_max` binds them
INLINE_BYTES_MAX = 16 * 1024  # parsed on the event loop
# A bounded run of escapes, so that other threads get their turn between two matches.
ESCAPES = re.compile(rb"(?:%[0-9A-Fa-f]{2}){1,4096}")
SAFE_IN_HEADER = ":/%#?=@[]!$&'()*+,;"


@dataclass(frozen=True)
class Posted:
    """The fields of a form as text; lines end with a line feed, as they were typed."""

    values: Mapping[str, list[str]]

    def one(self, name: str, default: str = "") -> str:
        return self.values.get(name, [default])[0]


@dataclass
class Form:
    """A form on a page: the values and errors of its fields, by field name."""

    values: dict[str, str]
    errors: dict[str, str] = field(default_factory=dict)
    # An error that belongs to no field.
    error: str = ""
    # The values of fields that a form has several times.
    lists: dict[str, tuple[str, ...]] = field(default_factory=dict)
    # The status of what the engine refused.
    error_status: int = 422

    @property
    def status(self) -> int:
        """The status of a page with this form: 200 without an error."""
        return self.error_status if self.is_wrong else 200

    def refuse(self, name: str, detail: str) -> None:
        """Set the error of a field; the first error is kept."""
        self.errors.setdefault(name, detail)

    @property
    def is_wrong(self) -> bool:
        return bool(self.errors or self.error)

    def blame(self, error: EngineError, names: Mapping[str, str] | None = None) -> None:
        """Report an engine error at its field; `names` maps the engine's fields to the form's."""
        text = sentence(error)
        name = error.field.rpartition(".")[2].partition("[")[0]
        name = (names or {}).get(name, name)
        self.error_status = status_of(error)
        if name in self.values:
            self.refuse(name, text)
        else:
            self.error = text

    def number(self, name: str, label: str, low: int, high: int) -> int:
        """The whole number in a field; an error at the field, and `low`, if there is none."""
        text = self.values.get(name, "").strip()
        if is_whole(text) and low <= int(text) <= high:
            return int(text)
        self.refuse(
            name,
            _(
                "%(label)s must be a whole number from %(low)s to %(high)s.",
                label=label,
                low=f"{low:,}",
                high=f"{high:,}",
            ),
        )
        return low

    def moment(self, name: str, zone_name: str, display_zone: Zone) -> int | None:
        """The time in a field as ms since 1970; an error at the field, and None, if there is none.

        The field is read in the zone `zone_name`, "" for UTC, and rewritten in `display_zone`,
        which the page names beside it.
        """
        zone = zones.parse(zone_name) if zone_name else UTC_ZONE
        if zone is None:
            self.refuse(name, _("%(zone)s is not a time zone.", zone=repr(zone_name[:64])))
            return None
        try:
            at_ms = typed_time.moment_ms(self.values.get(name, ""), zone)
        except NoMoment as error:
            self.refuse(name, str(error))
            return None
        self.values[name] = typed_time.moment_text(at_ms, display_zone)
        return at_ms

    def choice(self, name: str, label: str, choices: tuple[str, ...]) -> str:
        text = self.values.get(name, "")
        if text not in choices:
            self.refuse(
                name,
                _(
                    "%(label)s must be one of: %(choices)s.",
                    label=label,
                    choices=", ".join(choices),
                ),
            )
            return choices[0]
        return text


def sentence(error: EngineError) -> str:
    """An engine error and its remedy as one sentence."""
    text = f"{error.detail}; {error.remedy}" if error.remedy else error.detail
    return text[:1].upper() + text[1:].rstrip(".") + "."


async def read(request: Request, *, bytes_max: int = FORM_BYTES_MAX) -> Posted:
    """Read the form in the request's body; raises Invalid for what no browser sends.

    Raises ProblemError (413) for more than `bytes_max`, before reading if the length is declared.
    """
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/x-www-form-urlencoded":
        raise Invalid(
            _("the console accepts HTML forms only"), remedy=_("use /api/v1 for programs")
        )
    body = await _body(request, bytes_max)
    try:
        if len(body) <= INLINE_BYTES_MAX:
            values = _parsed(body)
        else:
            values = await asyncio.to_thread(_parsed, body)
    except ValueError as error:
        raise Invalid(_("the form's encoding is invalid"), remedy=_("send UTF-8")) from error
    return Posted(values)


async def _body(request: Request, bytes_max: int) -> bytes:
    length = request.headers.get("content-length", "")
    if length.isascii() and length.isdigit() and (len(length) > 18 or int(length) > bytes_max):
        raise _too_large(bytes_max)
    parts: list[bytes] = []
    size_bytes = 0
    async for part in request.stream():
        size_bytes += len(part)
        if size_bytes > bytes_max:
            raise _too_large(bytes_max)
        parts.append(part)
    return b"".join(parts)


def _too_large(bytes_max: int) -> ProblemError:
    return ProblemError(
        413,
        "form_too_large",
        f"the form is larger than {bytes_max} bytes",
        field="body",
        remedy="send less at once; programs use /api/v1",
    )


def _parsed(body: bytes) -> dict[str, list[str]]:
    """The fields in their order; raises ValueError for too many fields or invalid UTF-8."""
    if body.count(b"&") >= FIELDS_MAX:
        raise ValueError("too many fields")
    values: dict[str, list[str]] = {}
    for pair in body.split(b"&"):
        if pair:
            name, __, value = pair.partition(b"=")
            values.setdefault(_unescaped(name), []).append(_lines(_unescaped(value)))
    return values


def _unescaped(data: bytes) -> str:
    """Unescape a name or a value; a percent sign that begins no escape is kept."""
    if not data.isascii():
        raise ValueError("a byte that must be escaped")
    return ESCAPES.sub(_octets, data.replace(b"+", b" ")).decode()


def _octets(escapes: re.Match[bytes]) -> bytes:
    return bytes.fromhex(escapes[0].replace(b"%", b"").decode())


def fill(posted: Posted, names: tuple[str, ...]) -> Form:
    """A form with the posted values of the named fields."""
    return Form({name: posted.one(name) for name in names})


async def confirmation(request: Request, name: str, refusal: str) -> Form:
    """The form that confirms a deletion; `refusal` is its error unless it repeats `name`."""
    form = fill(await read(request), ("confirm",))
    if form.values["confirm"].strip() != name:
        form.refuse("confirm", refusal)
    return form


def go(request: Request, path: str) -> Response:
    """Redirect to `path` after a change; for htmx by a header, as it would swap a redirect in."""
    if request.headers.get("hx-request") == "true":
        escaped = quote(path, safe=SAFE_IN_HEADER)  # as RedirectResponse does it
        return Response(status_code=204, headers={"HX-Redirect": escaped})
    return RedirectResponse(path, status_code=303)


def local_path(text: str) -> str:
    """`text` if it is a path on this server, else "/"."""
    is_path = text.startswith("/") and not text.startswith(("//", "/\\"))
    return text if is_path and text.isprintable() and "\\" not in text else "/"


def quoted(text: str) -> str:
    """`text` as a value in an address's query."""
    return quote(text, safe=":,")


def _lines(text: str) -> str:
    return text.replace("\r\n", "\n")
