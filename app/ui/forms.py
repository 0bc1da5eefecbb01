"""HTML forms: reading what was posted, errors at their fields, and where to go afterwards."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qs, quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from app.ui import typed_time, zones
from app.ui.language import _
from app.ui.typed_time import NoMoment
from app.ui.zones import UTC_ZONE, Zone
from engine.errors import EngineError, Invalid

FIELDS_MAX = 200


@dataclass(frozen=True)
class Posted:
    """The fields of a form as text; line ends are "\\n", as they were typed."""

    values: Mapping[str, list[str]]

    def one(self, name: str, default: str = "") -> str:
        return self.values.get(name, [default])[0]


@dataclass
class Form:
    """A form on a page: what its fields hold and what is wrong with them, by field name."""

    values: dict[str, str]
    errors: dict[str, str] = field(default_factory=dict)
    # What belongs to no field of this form.
    error: str = ""

    def refuse(self, name: str, detail: str) -> None:
        """Say what is wrong with a field; the first thing said stands."""
        self.errors.setdefault(name, detail)

    @property
    def is_wrong(self) -> bool:
        return bool(self.errors or self.error)

    def blame(self, error: EngineError, names: Mapping[str, str] | None = None) -> None:
        """Put the engine's refusal at the field it names; `names` maps its names to ours."""
        text = f"{error.detail}; {error.remedy}" if error.remedy else error.detail
        text = text[:1].upper() + text[1:].rstrip(".") + "."
        name = error.field.rpartition(".")[2].partition("[")[0]
        name = (names or {}).get(name, name)
        if name in self.values:
            self.refuse(name, text)
        else:
            self.error = text

    def number(self, name: str, label: str, low: int, high: int) -> int:
        """The whole number in a field; an error at the field, and `low`, if there is none."""
        text = self.values.get(name, "").strip()
        if text.isascii() and text.isdigit() and len(text) < 19 and low <= int(text) <= high:
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

    def moment(self, name: str, zone_name: str, shown: Zone) -> int | None:
        """The time in a field as ms since 1970; an error at the field, and None, if there is none.

        It was typed by the clocks of the zone called `zone_name` (of UTC without one); afterwards
        the field holds it by those of `shown`, which is what the page says beside it.
        """
        zone = zones.parse(zone_name) if zone_name else UTC_ZONE
        if zone is None:
            self.refuse(name, _("%(zone)s is no time zone.", zone=repr(zone_name[:64])))
            return None
        try:
            at_ms = typed_time.moment_ms(self.values.get(name, ""), zone)
        except NoMoment as error:
            self.refuse(name, str(error))
            return None
        self.values[name] = typed_time.moment_text(at_ms, shown)
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


async def read(request: Request) -> Posted:
    """The form in the request's body; raises Invalid for what no browser sends."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/x-www-form-urlencoded":
        raise Invalid(_("the console reads HTML forms only"), remedy=_("use /api/v1 for programs"))
    body = await request.body()
    try:
        values = parse_qs(
            body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=FIELDS_MAX
        )
    except ValueError as error:
        raise Invalid(_("the form's encoding is broken"), remedy=_("send UTF-8")) from error
    return Posted({name: [_lines(value) for value in all_] for name, all_ in values.items()})


def fill(posted: Posted, names: tuple[str, ...]) -> Form:
    """A form with the named fields as they were posted."""
    return Form({name: posted.one(name) for name in names})


def go(request: Request, path: str) -> Response:
    """After a change: show `path` by GET, also when htmx asked (which would swap a redirect in)."""
    if request.headers.get("hx-request") == "true":
        return Response(status_code=204, headers={"HX-Redirect": path})
    return RedirectResponse(path, status_code=303)


def local_path(text: str) -> str:
    """`text` if it is a path on this very server, else "/"; never an address elsewhere."""
    is_path = text.startswith("/") and not text.startswith(("//", "/\\"))
    return text if is_path and text.isprintable() and "\\" not in text else "/"


def quoted(text: str) -> str:
    """`text` as a value in an address's query."""
    return quote(text, safe=":,")


def _lines(text: str) -> str:
    return text.replace("\r\n", "\n")
