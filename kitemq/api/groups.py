# Made from kitemq/async_api/groups.py by `python -m tools.synchronous`: change that file.
"""Consumer groups: their settings, offsets and lag, pausing and resetting them."""

from collections.abc import Iterator, Sequence
from typing import Any, Unpack

from kitemq.api.connection import Api
from kitemq.model.groups import Group, GroupPage, GroupSettings, NewGroup
from kitemq.model.progress import Lag, NewOffset, Offsets
from kitemq.model.resets import (
    CompletedReset,
    GroupResetPage,
    GroupResetPreview,
    NewReset,
    ResetFields,
    ResetPlace,
    UndoReset,
)
from kitemq.model.values import OffsetInput
from kitemq.rest import segment

RESETS_PAGE = 100


class GroupsApi(Api):
    """`client.groups`: consumer groups, how far they are, and moving them elsewhere.

    Of a reset, `to` is earliest, latest, time (with `time_ms`), offset (with `offset`), shift (with
    `by`, back if negative) or group (with `from_group`). Without `queues` all queues of the topics
    go there.
    """

    def list(self, *, q: str = "", status: str = "") -> Iterator[Group]:
        """Every consumer group by name, page by page; with `q` in the name and this `status`."""
        return self._rest.pages(GroupPage, "/groups", q=q, status=status)

    def get(self, name: str) -> Group:
        """One group's settings; NotFound."""
        return self._rest.fetch(Group, "GET", _path(name))

    def create(self, name: str, **settings: Any) -> Group:
        """Create a group; `settings` are the fields of `kitemq.model.groups.NewGroup`."""
        body = NewGroup(name=name, **settings)
        return self._rest.fetch(Group, "POST", "/groups", body=body)

    def change(self, name: str, **settings: Any) -> Group:
        """Change the given fields: those of `kitemq.model.groups.GroupSettings`."""
        return self._rest.fetch(Group, "PATCH", _path(name), body=GroupSettings(**settings))

    def delete(self, name: str) -> None:
        """Delete a group with its progress."""
        self._rest.call("DELETE", _path(name))

    def pause(self, name: str, *, topic: str = "") -> Group:
        """Hand out nothing more to a group, or nothing of one topic; the group as it is then."""
        return self._rest.fetch(Group, "POST", _path(name, "pause"), params={"topic": topic})

    def resume(self, name: str, *, topic: str = "") -> Group:
        """End a pause of the group, or of one topic."""
        return self._rest.fetch(Group, "POST", _path(name, "resume"), params={"topic": topic})

    # -- progress -------------------------------------------------------------------------------

    def lag(self, name: str) -> Lag:
        """The lag of a group, queue by queue."""
        return self._rest.fetch(Lag, "GET", _path(name, "lag"))

    def offsets(self, name: str, topic: str, *, client: str = "") -> Offsets:
        """A group's committed offsets in a topic; those of `client` where it broadcasts."""
        params = {"topic": topic, "client": client}
        return self._rest.fetch(Offsets, "GET", _path(name, "offsets"), params=params)

    def commit_offset(
        self, name: str, topic: str, queue: int, offset: int, *, client: str = ""
    ) -> None:
        """Set where a group goes on in a queue, backwards too; `client` where it broadcasts."""
        body = NewOffset(topic, queue, OffsetInput(offset), client)
        self._rest.call("PUT", _path(name, "offsets"), body=body)

    # -- resets ---------------------------------------------------------------------------------

    def preview_reset(
        self,
        name: str,
        topics: str | Sequence[str],
        to: str,
        **target: Unpack[ResetFields],
    ) -> GroupResetPreview:
        """Preview a reset queue by queue; changes nothing. Its `precondition` applies it."""
        place = ResetPlace(**_place(topics, to, target))
        path = _path(name, "resets/preview")
        return self._rest.fetch(GroupResetPreview, "POST", path, body=place)

    def reset(
        self,
        name: str,
        topics: str | Sequence[str],
        to: str,
        *,
        precondition: str = "",
        force: bool = False,
        **target: Unpack[ResetFields],
    ) -> CompletedReset:
        """Move the group, all queues or none; the reset with its `id`.

        Give the `precondition` of a preview, or `force`. Raises Refused (`offsets_moved`) where
        the group has gone on since the preview, or (`reset_incomplete`) where a broker
        of a cluster went away meanwhile.
        """
        place = _place(topics, to, target)
        body = NewReset(**place, precondition=precondition, force=force)
        return self._rest.fetch(CompletedReset, "POST", _path(name, "resets"), body=body)

    def resets(self, name: str) -> Iterator[CompletedReset]:
        """The last 100 resets, newest first."""
        return self._rest.pages(GroupResetPage, _path(name, "resets"), page_size=RESETS_PAGE)

    def preview_undo(self, name: str, reset_id: str) -> GroupResetPreview:
        """Preview undoing a reset; changes nothing."""
        path = _path(name, f"resets/{segment(reset_id)}/undo/preview")
        return self._rest.fetch(GroupResetPreview, "POST", path)

    def undo_reset(
        self, name: str, reset_id: str, *, precondition: str = "", force: bool = False
    ) -> CompletedReset:
        """Back to where that reset found the group; a reset itself.

        Without precondition or force the group must still be where the reset put it: else Refused
        (`offsets_moved`).
        """
        path = _path(name, f"resets/{segment(reset_id)}/undo")
        body = UndoReset(precondition, force)
        return self._rest.fetch(CompletedReset, "POST", path, body=body)


def _path(name: str, rest: str = "") -> str:
    return f"/groups/{segment(name)}" + (f"/{rest}" if rest else "")


def _place(topics: str | Sequence[str], to: str, target: ResetFields) -> dict[str, Any]:
    offset = target.get("offset")
    return {
        **target,
        "topics": [topics] if isinstance(topics, str) else list(topics),
        "to": to,
        "queues": list(target.get("queues", ())),
        "offset": None if offset is None else OffsetInput(offset),
    }
