"""Columns of a message list that are read from the bodies. Pure.

`view` is the decoder of the body column; each of up to four paths, such as "order.lines[0].price",
is a column of its own. Bodies over 64 KiB are left out, as are those after BUDGET_S of decoding.
"""

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from app.security.message_rights import missing_right
from app.ui.bodies import bodies
from app.ui.bodies.bodies import preview_of
from app.ui.bodies.trees import NotDecodable
from app.ui.framework.forms import Form
from app.ui.framework.language import N_, _
from engine.message import StoredMessage

VIEWS = (
    ("", N_("raw")),
    ("text", N_("Text")),
    ("json", "JSON"),
    ("avro", "Avro"),
    ("msgpack", "MessagePack"),
    ("protobuf", "Protobuf"),
    ("hex", N_("Hex")),
)
PATHS_MAX = 4
BEFORE_CHARS = 24  # of a body before the text that was searched for
PATH_CHARS_MAX = 200
CELL_CHARS_MAX = 160
BODY_BYTES_MAX = 64 * 1024
BUDGET_S = 0.3
STEP = re.compile(r"([^.\[\]]+)|\[(\d{1,9})\]")
PATH = re.compile(r"[^.\[\]]+(\.[^.\[\]]+|\[\d{1,9}\])*\Z")


@dataclass(frozen=True)
class Columns:
    """The columns in a URL; without view and paths, the list has only previews."""

    view: str
    paths: tuple[str, ...]

    @property
    def query(self) -> dict[str, str]:
        """The parameters of a URL with these columns."""
        return {"view": self.view, "fields": ", ".join(self.paths)}


@dataclass(frozen=True)
class BodyCell:
    """A value as text, or the reason why there is none."""

    text: str = ""
    why: str = ""


@dataclass(frozen=True)
class RowColumns:
    """The body of one message in its columns."""

    body: BodyCell
    values: Sequence[BodyCell]


def read(values: Mapping[str, str], form: Form) -> Columns:
    """The columns of a URL; errors of `fields` are added to the form."""
    view = values.get("view", "")
    view = view if view in dict(VIEWS) else ""
    text = values.get("fields", "").strip()[:1000]
    form.values.update({"view": view, "fields": text})
    paths = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    wrong = [path for path in paths if len(path) > PATH_CHARS_MAX or not PATH.match(path)]
    if wrong:
        form.refuse(
            "fields",
            _("%(path)s is not a valid path. Example: order.lines[0].price", path=wrong[0]),
        )
    elif len(paths) > PATHS_MAX:
        form.refuse("fields", _("At most %(n)s values.", n=PATHS_MAX))
    return Columns(view, () if "fields" in form.errors else paths)


def show(
    messages: Iterable[StoredMessage], columns: Columns, contains: str = ""
) -> list[RowColumns]:
    """The columns of each message; those after BUDGET_S have a reason instead.

    A body that holds `contains` is shown from shortly before it.
    """
    until_s = time.perf_counter() + BUDGET_S
    rows = []
    late = BodyCell(why=_("time limit for decoding this page reached"))
    for message in messages:
        if time.perf_counter() < until_s:
            rows.append(_row(message, columns, contains))
        else:
            rows.append(RowColumns(late, [late] * len(columns.paths)))
    return rows


def mark_of(contains: str) -> str:
    """The text that was searched for as cells show it: on one line."""
    return " ".join(contains.split())


def _row(message: StoredMessage, columns: Columns, contains: str) -> RowColumns:
    preview = BodyCell(preview_of(message))
    if not 0 <= preview.text.find(mark_of(contains)) <= BEFORE_CHARS and not missing_right(message):
        preview = BodyCell(_excerpt(message.plain.body, contains) or preview.text)
    if not columns.view and not columns.paths:
        return RowColumns(preview, ())
    if missing_right(message):
        return RowColumns(preview, [BodyCell(why=preview.text)] * len(columns.paths))
    if len(message.plain.body) > BODY_BYTES_MAX:
        why = BodyCell(why=_("larger than %(limit)s KiB", limit=BODY_BYTES_MAX // 1024))
        return RowColumns(preview if not columns.view else why, [why] * len(columns.paths))
    return RowColumns(
        _body(message, columns.view, contains) if columns.view else preview,
        _values(message, columns) if columns.paths else (),
    )


def _excerpt(body: bytes, contains: str) -> str:
    """The part of a body from shortly before `contains`, as one line; "" without it."""
    sought = contains.encode()
    at = body.find(sought)
    start = max(0, at - BEFORE_CHARS)
    part = body[start : at + len(sought) + CELL_CHARS_MAX].decode("utf-8", "ignore")
    line = "".join(each if each.isprintable() else "·" for each in mark_of(part))
    return f"{'…' if start else ''}{line}…" if at >= 0 else ""


def _body(message: StoredMessage, view: str, contains: str) -> BodyCell:
    try:
        line = bodies.line(message.plain, view)
    except NotDecodable as error:
        return BodyCell(why=str(error))
    at = line.find(contains)
    return BodyCell(_cut(line) if at <= BEFORE_CHARS else f"…{_cut(line[at - BEFORE_CHARS :])}")


def _values(message: StoredMessage, columns: Columns) -> list[BodyCell]:
    try:
        document = bodies.document(message.plain, columns.view)
    except NotDecodable as error:
        return [BodyCell(why=str(error))] * len(columns.paths)
    return [_value(document, path) for path in columns.paths]


def _value(document: Any, path: str) -> BodyCell:
    for name, index in STEP.findall(path):
        try:
            document = document[int(index)] if index else document[name]
        except (KeyError, IndexError, TypeError):
            return BodyCell(why=_("no %(path)s in the body", path=path))
    return BodyCell(_cut(document if isinstance(document, str) else _json(document)))


def _json(value: Any) -> str:
    try:
        return msgspec.json.encode(value, enc_hook=str).decode()
    except (TypeError, ValueError, msgspec.MsgspecError):
        return str(value)


def _cut(text: str) -> str:
    line = " ".join(text[: CELL_CHARS_MAX * 4].split())
    return line if len(line) <= CELL_CHARS_MAX else line[:CELL_CHARS_MAX] + "…"
