"""Many messages from a file: the lines are checked first, then sent; each has its result."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta
from starlette.responses import Response

from app.services import message_files
from app.services.message_imports import ImportRun, LineResult, counted
from app.ui.framework import forms, list_exports
from app.ui.framework.forms import Form
from app.ui.framework.language import N_, _
from app.ui.framework.list_exports import Listing
from app.ui.framework.page_request import PageRequest
from app.ui.framework.templating import segment
from app.ui.framework.typed_forms import Fields, Verbatim
from app.ui.topics.head import TopicTab, head_of, respond, topic_of
from engine.errors import Invalid

PREVIEW_MAX = 10
FAULTS_MAX = 100
RESULTS_MAX = 200
PREVIEW_CHARS = 160
COLUMNS = ("line", "result", "message_id", "queue", "offset", "field", "reason", "remedy")


class FileFields(Fields, frozen=True):
    """The form: a file's content, to be checked or sent."""

    content: Verbatim
    step: Annotated[Literal["check", "send"], Meta(title=N_("Step"))]


@dataclass(frozen=True)
class FileLine:
    """A line as the page shows it."""

    number: int
    outcome: str
    tag: str
    keys: tuple[str, ...]
    message_group: str
    preview: str
    message_id: str
    href: str
    field: str
    detail: str
    remedy: str


@dataclass(frozen=True)
class MessageFile(TopicTab):
    """The context of `topic_produce_file.html`: an empty form, a preview, or the results.

    `ready` are the first lines of a preview; `lines` its faults, or results, refusals first.
    """

    form: Form
    counts: Mapping[str, int]
    total: int
    ready: Sequence[FileLine]
    lines: Sequence[FileLine]
    lines_total: int
    run: str = ""
    sent_ms: int = 0
    rows_max: int = message_files.ROWS_MAX
    chars_max: int = message_files.CHARS_MAX
    columns: Sequence[str] = message_files.COLUMNS


async def show(request: PageRequest) -> Response:
    """GET /topics/{topic}/produce/file"""
    return await _page(request, Form({"content": ""}), [])


async def change(request: PageRequest) -> Response:
    """POST /topics/{topic}/produce/file: check a file, or send its valid lines."""
    config = await topic_of(request)
    form, fields = await request.read_form(FileFields, bytes_max=forms.LARGE_BYTES_MAX)
    if form.is_wrong:
        return await _page(request, form, [])
    imports = request.services.message_imports
    try:
        lines = await imports.check(config.name, fields.content, request.born_host)
    except Invalid as error:
        form.blame(error)
        return await _page(request, form, [])
    if fields.step == "check":
        return await _page(request, form, lines)
    run = await imports.send(request.who.name, config.name, lines)
    return forms.go(request, f"/topics/{segment(config.name)}/produce/file/{run.id}")


async def result(request: PageRequest) -> Response:
    """GET /topics/{topic}/produce/file/{run}: what became of each line, also as a file."""
    config = await topic_of(request)
    run = request.services.message_imports.get(
        request.who.name, config.name, request.path_params["run"]
    )
    if kind := list_exports.file_kind(request):
        name = f"{config.name}-results"
        listing = Listing(name, COLUMNS, map(_row, run.lines), len(run.lines))
        return await list_exports.respond(request.console, listing, kind)
    return await _page(request, Form({"content": ""}), run.lines, run)


async def _page(
    request: PageRequest, form: Form, lines: Sequence[LineResult], run: ImportRun | None = None
) -> Response:
    config = await topic_of(request)
    first = sorted(lines, key=lambda line: line.outcome == "sent") if run else _refusals(lines)
    ready = [line for line in lines if line.outcome == "ready"]
    context = MessageFile(
        head=await head_of(request, config, "produce"),
        form=form,
        counts=counted(lines),
        total=len(lines),
        ready=[_line(config.name, line) for line in ready[:PREVIEW_MAX]],
        lines=[_line(config.name, line) for line in first[: RESULTS_MAX if run else FAULTS_MAX]],
        lines_total=len(first),
        run=run.id if run else "",
        sent_ms=run.at_ms if run else 0,
    )
    return await respond(request, "topic_produce_file.html", context, title=_("Send a file"))


def _refusals(lines: Iterable[LineResult]) -> list[LineResult]:
    return [line for line in lines if line.outcome == "refused"]


def _line(topic: str, line: LineResult) -> FileLine:
    message = line.message
    href = f"/messages/{segment(topic)}/{line.place}" if line.place else ""
    if line.message_id and not href:
        href = f"/trace/{segment(line.message_id)}"
    return FileLine(
        number=line.number,
        outcome=line.outcome,
        tag=message.tag if message else "",
        keys=message.keys if message else (),
        message_group=message.message_group if message else "",
        preview=message.body[: 4 * PREVIEW_CHARS].decode(errors="replace")[:PREVIEW_CHARS]
        if message
        else "",
        message_id=line.message_id,
        href=href,
        field=line.field,
        detail=line.detail,
        remedy=line.remedy,
    )


def _row(line: LineResult) -> tuple[str | int | None, ...]:
    queue, __, offset = line.place.partition("/")
    return (
        line.number, line.outcome, line.message_id, queue, offset, line.field, line.detail,
        line.remedy,
    )  # fmt: skip
