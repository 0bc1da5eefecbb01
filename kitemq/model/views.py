"""Saved views: lists of the console with their filters, each under a name of one's own."""

from typing import Annotated

import msgspec
from msgspec import Meta

from kitemq.model.values import Milliseconds

NAME_CHARS_MAX = 80
VIEWS_MAX = 100  # of one owner
PATH_CHARS_MAX = 1024


class NewView(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A view to be kept."""

    name: Annotated[str, Meta(min_length=1, max_length=NAME_CHARS_MAX)]
    path: Annotated[
        str,
        Meta(
            max_length=PATH_CHARS_MAX,
            description="/topics, /groups, /messages, /dlq, /dlq/GROUP, /audit, /jobs, "
            "/scheduled, /transactions or /clients.",
        ),
    ]
    query: Annotated[
        str,
        Meta(
            max_length=10_000,
            description="What stands behind `?` in the address of the list, at most 2,000 "
            "characters; the page and the cursor are left out.",
        ),
    ] = ""


class SavedView(msgspec.Struct, frozen=True):
    """A list of the console, and how it is filtered and sorted."""

    id: int
    name: str
    path: str
    query: str
    address: Annotated[str, Meta(description="Both together, as a browser takes it.")]
    created_ms: Milliseconds


class ViewList(msgspec.Struct, frozen=True):
    """One's views by name, at most 100."""

    items: list[SavedView]
