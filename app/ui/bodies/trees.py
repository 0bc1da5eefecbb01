"""Decoded values of any decoder as a bounded tree of nodes. Pure."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from app.ui.framework.language import _, ngettext

NODES_MAX = 1000
DEPTH_OPEN = 3
DEPTH_MAX = 60
BYTES_SHOWN = 64


class NotDecodable(Exception):
    """A decoder cannot read the bytes; `text` says why."""

    def __init__(self, text: str, **values: object) -> None:
        super().__init__(_(text, **values))


@dataclass
class Node:
    """One value; `children` of objects and arrays, in their order."""

    label: str
    kind: str
    text: str
    is_open: bool = False
    children: list["Node"] = field(default_factory=list)


class Tree:
    """Builds at most NODES_MAX nodes of a document."""

    def __init__(self) -> None:
        self._left = NODES_MAX
        self.is_cut = False

    def build(self, label: str, value: Any, depth: int = 0) -> Node:
        self._left -= 1
        if isinstance(value, dict):
            text = ngettext("%(num)s key", "%(num)s keys", len(value))
            node = Node(label, "object", text, depth < DEPTH_OPEN)
            self._fill(node, ((str(key), child) for key, child in value.items()), depth)
        elif isinstance(value, list | tuple):
            text = ngettext("%(num)s item", "%(num)s items", len(value))
            node = Node(label, "array", text, depth < DEPTH_OPEN)
            self._fill(node, ((str(index), child) for index, child in enumerate(value)), depth)
        else:
            node = Node(label, _kind(value), _text(value))
        return node

    def _fill(self, node: Node, children: Iterator[tuple[str, Any]], depth: int) -> None:
        for label, child in children:
            if self._left <= 0 or depth > DEPTH_MAX:
                self.is_cut = True
                return
            node.children.append(self.build(label, child, depth + 1))


def _kind(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return "word"
    if isinstance(value, int | float):
        return "number"
    return "bytes" if isinstance(value, bytes | msgspec.msgpack.Ext) else "string"


def _text(value: Any) -> str:
    if isinstance(value, msgspec.msgpack.Ext):
        return _("extension %(code)s: %(body)s", code=value.code, body=_text(bytes(value.data)))
    if isinstance(value, bytes):
        more = " …" if len(value) > BYTES_SHOWN else ""
        length = ngettext("%(num)s byte", "%(num)s bytes", len(value))
        return f"{length}: {value[:BYTES_SHOWN].hex(' ')}{more}" if value else length
    if value is None or isinstance(value, bool | int | float | str):
        return json.dumps(value, ensure_ascii=False)
    return str(value)
