"""Decodes a message body for display, with a report of the decoders that were tried. Pure."""

import contextlib
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from app.security.message_rights import missing_right
from app.ui.bodies import avro, json_text, protobuf
from app.ui.bodies.trees import Node, NotDecodable, Tree
from app.ui.bodies.unpack import Unpacked, unpack
from app.ui.framework.language import N_, _
from engine.compression import PlainBody
from engine.message import StoredMessage

SHOWN_BYTES_MAX = 64 * 1024
ALL_BYTES_MAX = 1024 * 1024
HEX_BYTES_MAX = 8 * 1024
TREE_BYTES_MAX = 256 * 1024
GUESS_BYTES_MAX = 64 * 1024
PREVIEW_CHARS = 160
HEX_ROW = 16
# The first that fits is shown: self-describing formats come before guesses.
VIEWS = ("avro", "json", "pretty", "text", "msgpack", "protobuf", "hex")
ORDER = ("text", "json", "avro", "msgpack", "protobuf")
GUESSED = ("msgpack", "protobuf")
TREES = ("json", "avro", "msgpack", "protobuf")
CONTAINERS = (*range(0x80, 0xA0), *range(0xDC, 0xE0))  # MessagePack's maps and arrays


@dataclass(frozen=True)
class DecoderResult:
    """The result of one decoder, or why it failed."""

    name: str
    is_ok: bool
    detail: str


@dataclass(frozen=True)
class HexRow:
    offset: str
    octets: str
    text: str


@dataclass(frozen=True)
class Body:
    """A body in one of the `views` that fit, and the decoders that were tried.

    `stored_bytes` is its size in the log, `size_bytes` its decompressed size. `why_packed` says why
    a body that is marked as compressed is shown as stored.
    """

    view: str
    views: tuple[str, ...]
    size_bytes: int
    stored_bytes: int
    shown_bytes: int
    packing: str
    why_packed: str
    text: str
    tree: Node | None
    tree_cut: bool
    rows: list[HexRow]
    results: list[DecoderResult]

    @property
    def is_cut(self) -> bool:
        return self.shown_bytes < self.size_bytes

    @property
    def why_no_text(self) -> str:
        """Why the body is no text; "" for a text."""
        failed = (one.detail for one in self.results if one.name == "text" and not one.is_ok)
        return next(failed, "")


@dataclass(frozen=True)
class _Decoded:
    """A decoder's result: a document for a tree, or nothing for a text."""

    detail: str
    document: Any = None
    is_cut: bool = False


def decode(plain: PlainBody | bytes, *, view: str = "", is_all: bool = False) -> Body:
    """Decode a body for `view`, or for the best view that fits; never raises.

    At most SHOWN_BYTES_MAX bytes are turned into text, ALL_BYTES_MAX when `is_all`;
    the rest is for the download. A PlainBody also has its producer's compression.
    """
    stored = len(plain) if isinstance(plain, bytes) else plain.stored_bytes
    content = unpack(plain)
    body = content.body
    documents, results = _try_all(body, content)
    fits = {*documents, "hex", "pretty" if "json" in documents else "hex"}
    views = tuple(name for name in VIEWS if name in fits)
    choice = view if view in views else views[0]
    document = documents.get(choice, _Decoded(""))
    tree = Tree() if choice in TREES else None
    limit = _limit(choice, is_all)
    text = body[:limit].decode("utf-8", "ignore") if choice == "text" else ""
    if choice == "pretty":
        text = json_text.indented(body.decode(), limit)
    return Body(
        view=choice,
        views=views,
        size_bytes=len(body),
        stored_bytes=stored,
        shown_bytes=len(body) if tree or choice == "pretty" else min(len(body), limit),
        packing=content.kind if content.is_unpacked else "",
        why_packed="" if content.is_unpacked or not _is_marked(plain) else content.detail,
        text=text,
        tree=tree.build("", document.document) if tree else None,
        tree_cut=document.is_cut
        or (tree is not None and tree.is_cut)
        or (choice == "pretty" and len(text) >= limit),
        rows=list(_hex_rows(body[:limit])) if choice == "hex" else [],
        results=results,
    )


def _is_marked(plain: PlainBody | bytes) -> bool:
    return not isinstance(plain, bytes) and bool(plain.codec)


def _try_all(body: bytes, content: Unpacked) -> tuple[dict[str, _Decoded], list[DecoderResult]]:
    """The results of all decoders, and the report of them."""
    results = (
        [DecoderResult("compression", content.is_unpacked, content.detail)] if content.kind else []
    )
    documents: dict[str, _Decoded] = {}
    for name in ORDER:
        if content.is_foreign and name in GUESSED:
            results.append(DecoderResult(name, False, _("not checked: the body is compressed")))
            continue
        try:
            documents[name] = DECODERS[name](body, "text" in documents)
        except NotDecodable as error:
            results.append(DecoderResult(name, False, str(error)))
        else:
            results.append(DecoderResult(name, True, documents[name].detail))
    results.append(DecoderResult("hex", True, _("works for any bytes")))
    return documents, results


def preview(body: bytes) -> str:
    """One line for a table: text as it is, anything else as its first bytes in hex."""
    if not body:
        return ""
    head = body[: PREVIEW_CHARS * 4]
    try:
        text = head.decode("utf-8", "strict" if len(head) == len(body) else "ignore")
    except UnicodeDecodeError:
        text = ""
    if not text or _unprintable(text):
        return body[:24].hex(" ") + (" …" if len(body) > 24 else "")
    line = " ".join(text.split())
    return line if len(line) <= PREVIEW_CHARS else line[:PREVIEW_CHARS] + "…"


def preview_of(message: StoredMessage) -> str:
    """The one-line preview of a message's body, or the missing right for a concealed message."""
    missing = missing_right(message)
    if missing:
        return _("(hidden: requires %(right)s)", right=missing)
    return preview(message.plain.body)


def line(plain: PlainBody | bytes, view: str) -> str:
    """A body as one decoder reads it; raises NotDecodable. A JSON text stays as it is."""
    body = unpack(plain).body
    if view == "hex":
        return body[:PREVIEW_CHARS].hex(" ")
    result = _decoded(body, view)
    if view in ("text", "json"):
        return body.decode()
    try:
        return msgspec.json.encode(result.document, enc_hook=str).decode()
    except (ValueError, TypeError, RecursionError) as error:
        raise NotDecodable(str(error) or _("nested too deeply")) from None


def hex_lines(plain: PlainBody | bytes) -> list[str]:
    """The first 64 KiB of a body in hex, 16 bytes on a line."""
    return [
        f"{row.octets:<48}  {row.text}" for row in _hex_rows(unpack(plain).body[:SHOWN_BYTES_MAX])
    ]


def document(plain: PlainBody | bytes, view: str = "") -> Any:
    """A body as a document of `view`, or of the first decoder that fits; raises NotDecodable."""
    body = unpack(plain).body
    if view in TREES:
        return _decoded(body, view).document
    for name in TREES:
        with contextlib.suppress(NotDecodable):
            return _decoded(body, name).document
    raise NotDecodable(N_("not JSON, Avro, MessagePack or Protobuf"))


def _decoded(body: bytes, view: str) -> _Decoded:
    """One decoder's result; raises NotDecodable."""
    try:
        _text(body, True)
        is_text = True
    except NotDecodable:
        if view == "text":
            raise
        is_text = False
    return DECODERS[view](body, is_text)


def _limit(view: str, is_all: bool) -> int:
    if view == "hex":
        return HEX_BYTES_MAX * (8 if is_all else 1)
    return ALL_BYTES_MAX if is_all else SHOWN_BYTES_MAX


def _text(body: bytes, __: bool) -> _Decoded:
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise NotDecodable(
            N_("byte %(start)s (0x%(byte)s) is not UTF-8"),
            start=error.start,
            byte=f"{body[error.start]:02x}",
        ) from None
    strange = _unprintable(text[:SHOWN_BYTES_MAX])
    if strange:
        name = unicodedata.name(strange, f"U+{ord(strange):04X}")
        raise NotDecodable(N_("UTF-8, but contains the control character %(name)s"), name=name)
    return _Decoded(_("valid UTF-8") if text else "empty")


def _json(body: bytes, is_text: bool) -> _Decoded:
    if not is_text or body.lstrip()[:1] not in (b"{", b"["):
        raise NotDecodable(N_("does not begin with { or ["))
    _check_size(body, TREE_BYTES_MAX)
    try:
        return _Decoded(_("valid JSON"), json_text.loads(body))
    except (ValueError, RecursionError) as error:
        raise NotDecodable(str(error) or _("nested too deeply")) from None


def _avro(body: bytes, is_text: bool) -> _Decoded:
    if is_text:
        raise NotDecodable(N_("not checked: the body is text"))
    _check_size(body, TREE_BYTES_MAX)
    document, is_cut = avro.decode(body)
    return _Decoded(_("an object container file with its schema"), document, is_cut)


def _msgpack(body: bytes, is_text: bool) -> _Decoded:
    if is_text:
        raise NotDecodable(N_("not checked: the body is text"))
    if not body or body[0] not in CONTAINERS:
        raise NotDecodable(N_("does not begin with a map or an array"))
    _check_size(body, TREE_BYTES_MAX)
    try:
        return _Decoded(_("exactly one MessagePack value"), msgspec.msgpack.decode(body))
    except (msgspec.MsgspecError, RecursionError, ValueError, TypeError) as error:
        raise NotDecodable(str(error) or _("nested too deeply")) from None


def _protobuf(body: bytes, is_text: bool) -> _Decoded:
    if is_text:
        raise NotDecodable(N_("not checked: the body is text"))
    _check_size(body, GUESS_BYTES_MAX)
    document = protobuf.decode(body)
    return _Decoded(
        _("matches the wire format; field names and exact types need a schema"), document
    )


def _check_size(body: bytes, limit: int) -> None:
    if len(body) > limit:
        raise NotDecodable(N_("larger than %(limit)s KiB"), limit=limit // 1024)


def _unprintable(text: str) -> str:
    """The first control character that is unusual in text, or ""."""
    return next((c for c in text if c < " " and c not in "\t\n\r\f\x1b"), "")


def _hex_rows(body: bytes) -> Iterator[HexRow]:
    for start in range(0, len(body), HEX_ROW):
        row = body[start : start + HEX_ROW]
        octets = f"{row[:8].hex(' '):<23}  {row[8:].hex(' ')}".rstrip()
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        yield HexRow(f"{start:08x}", octets, text)


DECODERS: dict[str, Callable[[bytes, bool], _Decoded]] = {
    "text": _text,
    "json": _json,
    "avro": _avro,
    "msgpack": _msgpack,
    "protobuf": _protobuf,
}
