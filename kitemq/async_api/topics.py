"""Topics: their settings, files of definitions, purging, stars and notes."""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Literal

from kitemq.async_api.connection import AsyncApi
from kitemq.model.retention import Purged, PurgeOrder
from kitemq.model.stars_and_notes import NewNote, StarList, TopicNote
from kitemq.model.topics import (
    ImportedTopics,
    NewTopic,
    Topic,
    TopicDetail,
    TopicImportFile,
    TopicPage,
    TopicSettings,
)
from kitemq.rest import Json, segment


class AsyncTopicsApi(AsyncApi):
    """`client.topics`: topics and their settings."""

    def list(self, *, q: str = "", type: str = "", system: bool = False) -> AsyncIterator[Topic]:
        """Every topic by name, page by page; `q` is a part of the name."""
        params: Json = {"q": q, "system": "true" if system else "false"}
        if type:
            params["type"] = type
        return self._rest.pages(TopicPage, "/topics", **params)

    async def get(self, name: str) -> TopicDetail:
        """One topic with its queues; NotFound."""
        return await self._rest.fetch(TopicDetail, "GET", _path(name))

    async def create(self, name: str, **settings: Any) -> Topic:
        """Create a topic; `settings` are the fields of `kitemq.model.topics.NewTopic`."""
        body = NewTopic(name=name, **settings)
        return await self._rest.fetch(Topic, "POST", "/topics", body=body)

    async def change(self, name: str, **settings: Any) -> Topic:
        """Change the given fields: those of `kitemq.model.topics.TopicSettings`."""
        return await self._rest.fetch(Topic, "PATCH", _path(name), body=TopicSettings(**settings))

    async def delete(self, name: str) -> None:
        """Delete a topic with its messages."""
        await self._rest.call("DELETE", _path(name))

    async def import_file(
        self, content: str, *, format: Literal["", "csv", "json"] = "", dry_run: bool = False
    ) -> ImportedTopics:
        """Create and change topics by a file's text; its `rows` say what became of each.

        CSV with a head, or JSON; with `dry_run` nothing changes.
        """
        body = TopicImportFile(content=content, format=format, dry_run=dry_run)
        return await self._rest.fetch(ImportedTopics, "POST", "/topics/import", body=body)

    async def purge(
        self,
        name: str,
        *,
        before_offset: Mapping[int, int] | None = None,
        before_ms: int | None = None,
        everything: bool = False,
        dry_run: bool = False,
    ) -> Purged:
        """Make messages of a topic unreadable for good; what went, queue by queue.

        Exactly one says which: those before an offset, by queue; those stored before a time (ms
        since 1970 UTC); or all that can be read now. With `dry_run` they are only counted.
        """
        offsets: dict[str, str | int] | None = None
        if before_offset is not None:
            offsets = {str(queue): offset for queue, offset in before_offset.items()}
        order = PurgeOrder(offsets, before_ms, everything, dry_run)
        return await self._rest.fetch(Purged, "POST", f"{_path(name)}/purge", body=order)

    # -- stars and notes ------------------------------------------------------------------------

    async def stars(self) -> Sequence[str]:
        """The topics that one has starred; while there are no users everybody shares them."""
        return (await self._rest.fetch(StarList, "GET", "/stars")).items

    async def star(self, name: str) -> None:
        """Put a topic first in one's own list of topics; at most 500."""
        await self._rest.call("PUT", f"{_path(name)}/star")

    async def unstar(self, name: str) -> None:
        """Take one's star from a topic, also from one that is gone."""
        await self._rest.call("DELETE", f"{_path(name)}/star")

    async def note(self, name: str) -> TopicNote:
        """What people wrote about a topic, in Markdown."""
        return await self._rest.fetch(TopicNote, "GET", f"{_path(name)}/note")

    async def write_note(self, name: str, text: str, *, version: str) -> TopicNote:
        """Write what a topic is for, at most 20,000 characters.

        `version` is that of the note as it was read; Refused where it has changed since.
        """
        body = NewNote(text, version)
        return await self._rest.fetch(TopicNote, "PUT", f"{_path(name)}/note", body=body)


def _path(name: str) -> str:
    return f"/topics/{segment(name)}"
