"""A message body as people can read it, and the account of how it was decoded. Pure."""

import json
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

SHOWN_BYTES_MAX = 64 * 1024
ALL_BYTES_MAX = 1024 * 1024
HEX_BYTES_MAX = 8 * 1024
JSON_BYTES_MAX = 256 * 1024
TREE_NODES_MAX = 1000
TREE_DEPTH_OPEN = 3
PREVIEW_CHARS = 160
HEX_ROW = 16
VIEWS = ("json", "text", "hex")


@dataclass(frozen=True)
class Tried:
    """One decoder's turn: what it made of the bytes, or why it could not."""

    name: str
    is_ok: bool
    detail: str


@dataclass
class Node:
    """One value of a JSON document; `children` of objects and arrays, in their order."""

    label: str
    kind: str
    text: str
    is_open: bool = False
    children: list["Node"] = field(default_factory=list)


@dataclass(frozen=True)
class HexRow:
    offset: str
    octets: str
    text: str


@dataclass(frozen=True)
class Body:
    """What the page shows: one of the `views` that fit, and what was tried."""

    view: str
    views: tuple[str, ...]
    size_bytes: int
    shown_bytes: int
    text: str
    tree: Node | None
    tree_cut: bool
    rows: list[HexRow]
    tried: list[Tried]

    @property
    def is_cut(self) -> bool:
        return self.shown_bytes < self.size_bytes


def decode(body: bytes, *, view: str = "", is_all: bool = False) -> Body:
    """Decode a body for `view`, or for the best view that fits; never raises.

    At most SHOWN_BYTES_MAX bytes are turned into text, ALL_BYTES_MAX when `is_all`;
    the rest is for the download.
    """
    tried: list[Tried] = []
    text = _text(body, tried)
    document, is_json = _json(body, text, tried)
    tried.append(Tried("hex", True, "shows any bytes"))
    views = (
        ("json", "text", "hex") if is_json else ("text", "hex") if text is not None else ("hex",)
    )
    chosen = view if view in views else views[0]
    tree = _Tree() if chosen == "json" else None
    limit = _limit(chosen, is_all)
    return Body(
        view=chosen,
        views=views,
        size_bytes=len(body),
        shown_bytes=len(body) if chosen == "json" else min(len(body), limit),
        text=body[:limit].decode("utf-8", "ignore") if chosen == "text" else "",
        tree=tree.build("", document, 0) if tree else None,
        tree_cut=tree.is_cut if tree else False,
        rows=list(_hex_rows(body[:limit])) if chosen == "hex" else [],
        tried=tried,
    )


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


def _limit(view: str, is_all: bool) -> int:
    if view == "hex":
        return HEX_BYTES_MAX * (8 if is_all else 1)
    return ALL_BYTES_MAX if is_all else SHOWN_BYTES_MAX


def _text(body: bytes, tried: list[Tried]) -> str | None:
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        tried.append(
            Tried("text", False, f"byte {error.start} (0x{body[error.start]:02x}) is not UTF-8")
        )
        return None
    strange = _unprintable(text[:SHOWN_BYTES_MAX])
    if strange:
        name = unicodedata.name(strange, f"U+{ord(strange):04X}")
        tried.append(Tried("text", False, f"UTF-8, but holds the control character {name}"))
        return None
    tried.append(Tried("text", True, "valid UTF-8" if text else "empty"))
    return text


def _json(body: bytes, text: str | None, tried: list[Tried]) -> tuple[Any, bool]:
    if text is None or not text.lstrip()[:1] or text.lstrip()[0] not in "{[":
        tried.append(Tried("json", False, "does not begin with { or ["))
        return None, False
    if len(body) > JSON_BYTES_MAX:
        tried.append(Tried("json", False, f"larger than {JSON_BYTES_MAX // 1024} KiB"))
        return None, False
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        tried.append(Tried("json", False, str(error) or "nested too deeply"))
        return None, False
    tried.append(Tried("json", True, "valid JSON"))
    return document, True


def _unprintable(text: str) -> str:
    """The first control character that no text file holds, or ""."""
    return next((c for c in text if c < " " and c not in "\t\n\r\f\x1b"), "")


class _Tree:
    """Builds the nodes of a JSON document, TREE_NODES_MAX of them at most."""

    def __init__(self) -> None:
        self._left = TREE_NODES_MAX
        self.is_cut = False

    def build(self, label: str, value: Any, depth: int) -> Node:
        self._left -= 1
        if isinstance(value, dict):
            noun = "key" if len(value) == 1 else "keys"
            node = Node(label, "object", f"{len(value)} {noun}", depth < TREE_DEPTH_OPEN)
            self._fill(node, ((str(key), child) for key, child in value.items()), depth)
        elif isinstance(value, list):
            noun = "item" if len(value) == 1 else "items"
            node = Node(label, "array", f"{len(value)} {noun}", depth < TREE_DEPTH_OPEN)
            self._fill(node, ((str(index), child) for index, child in enumerate(value)), depth)
        else:
            node = Node(label, _kind(value), json.dumps(value, ensure_ascii=False))
        return node

    def _fill(self, node: Node, children: Iterator[tuple[str, Any]], depth: int) -> None:
        for label, child in children:
            if self._left <= 0 or depth > 60:
                self.is_cut = True
                return
            node.children.append(self.build(label, child, depth + 1))


def _kind(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return "word"
    return "string" if isinstance(value, str) else "number"


def _hex_rows(body: bytes) -> Iterator[HexRow]:
    for start in range(0, len(body), HEX_ROW):
        row = body[start : start + HEX_ROW]
        octets = f"{row[:8].hex(' '):<23}  {row[8:].hex(' ')}".rstrip()
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        yield HexRow(f"{start:08x}", octets, text)
