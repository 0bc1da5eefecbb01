"""Moving a consumer group to another place, over REST: a part of `kitemq.Client`."""

from collections.abc import Iterator, Sequence
from typing import Any, TypedDict, Unpack
from urllib.parse import quote

from kitemq.model.resets import (
    CompletedReset,
    GroupResetPage,
    GroupResetPreview,
    NewReset,
    ResetPlace,
    UndoReset,
)
from kitemq.model.values import OffsetInput
from kitemq.rest import RestConnection

PAGE = 100


class ResetFields(TypedDict, total=False):
    """The places that need a value, and the queues that go there; all of them without any."""

    queues: Sequence[int]
    time_ms: int | None
    offset: int | None
    by: int | None
    from_group: str


class Resetting(RestConnection):
    """Look at a reset, carry it out, list what was done, and take it back.

    `to` is earliest, latest, time (with `time_ms`), offset (with `offset`), shift (with `by`, back
    if negative) or group (with `from_group`). Without `queues` all queues of the topics go there.
    """

    def preview_reset(
        self,
        group: str,
        topics: str | Sequence[str],
        to: str,
        **target: Unpack[ResetFields],
    ) -> GroupResetPreview:
        """What a reset would do to each queue; changes nothing. Its `precondition` applies it."""
        place = ResetPlace(**_place(topics, to, target))
        return self._typed(GroupResetPreview, "POST", f"{_resets(group)}/preview", body=place)

    def reset_offsets(
        self,
        group: str,
        topics: str | Sequence[str],
        to: str,
        *,
        precondition: str = "",
        force: bool = False,
        **target: Unpack[ResetFields],
    ) -> CompletedReset:
        """Move the group, all queues or none; the reset with its `id`.

        Give the `precondition` of a preview, or `force`. Raises Refused (`offsets_moved`) where
        the group has gone on since the preview.
        """
        place = _place(topics, to, target)
        body = NewReset(**place, precondition=precondition, force=force)
        return self._typed(CompletedReset, "POST", _resets(group), body=body)

    def resets(self, group: str) -> Iterator[CompletedReset]:
        """What was done, newest first; the last 100 are remembered."""
        return self._listed(GroupResetPage, _resets(group), page_size=PAGE)

    def preview_undo(self, group: str, reset_id: str) -> GroupResetPreview:
        """What undoing a reset would do; changes nothing."""
        return self._typed(GroupResetPreview, "POST", f"{_undo(group, reset_id)}/preview")

    def undo_reset(
        self, group: str, reset_id: str, *, precondition: str = "", force: bool = False
    ) -> CompletedReset:
        """Back to where that reset found the group; a reset itself.

        Without precondition or force the group must still be where the reset put it: else Refused
        (`offsets_moved`).
        """
        body = UndoReset(precondition, force)
        return self._typed(CompletedReset, "POST", _undo(group, reset_id), body=body)


def _resets(group: str) -> str:
    return f"/groups/{quote(group, safe='')}/resets"


def _undo(group: str, reset_id: str) -> str:
    return f"{_resets(group)}/{quote(reset_id, safe='')}/undo"


def _place(
    topics: str | Sequence[str],
    to: str,
    target: ResetFields,
) -> dict[str, Any]:
    offset = target.get("offset")
    return {
        **target,
        "topics": [topics] if isinstance(topics, str) else list(topics),
        "to": to,
        "queues": list(target.get("queues", ())),
        "offset": None if offset is None else OffsetInput(offset),
    }
