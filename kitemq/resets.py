"""Moving a consumer group to another place, over REST: a part of `kitemq.Client`."""

from collections.abc import Iterator, Sequence
from urllib.parse import quote

from kitemq.rest import Json, RestConnection

PAGE = 100


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
        *,
        queues: Sequence[int] = (),
        time_ms: int | None = None,
        offset: int | None = None,
        by: int | None = None,
        from_group: str = "",
    ) -> Json:
        """What a reset would do to each queue; changes nothing. Its `precondition` applies it."""
        place = _place(topics, to, queues, time_ms, offset, by, from_group)
        return self._call("POST", f"{_resets(group)}/preview", json=place)

    def reset_offsets(
        self,
        group: str,
        topics: str | Sequence[str],
        to: str,
        *,
        queues: Sequence[int] = (),
        time_ms: int | None = None,
        offset: int | None = None,
        by: int | None = None,
        from_group: str = "",
        precondition: str = "",
        force: bool = False,
    ) -> Json:
        """Move the group, all queues or none; the reset with its `id`.

        Give the `precondition` of a preview, or `force`. Raises Refused (`offsets_moved`) where
        the group has gone on since the preview.
        """
        document = _place(topics, to, queues, time_ms, offset, by, from_group)
        document |= {"precondition": precondition, "force": force}
        return self._call("POST", _resets(group), json=document)

    def resets(self, group: str) -> Iterator[Json]:
        """What was done, newest first; the last 100 are remembered."""
        cursor: str | None = ""
        while cursor is not None:
            params = {"limit": PAGE, "cursor": cursor}
            page = self._call("GET", _resets(group), params=params)
            yield from page["items"]
            cursor = page["next_cursor"]

    def preview_undo(self, group: str, reset_id: str) -> Json:
        """What undoing a reset would do; changes nothing."""
        return self._call("POST", f"{_resets(group)}/{quote(reset_id, safe='')}/undo/preview")

    def undo_reset(
        self, group: str, reset_id: str, *, precondition: str = "", force: bool = False
    ) -> Json:
        """Back to where that reset found the group; a reset itself.

        Without precondition or force the group must still be where the reset put it: else Refused
        (`offsets_moved`).
        """
        document = {"precondition": precondition, "force": force}
        path = f"{_resets(group)}/{quote(reset_id, safe='')}/undo"
        return self._call("POST", path, json=document)


def _resets(group: str) -> str:
    return f"/groups/{quote(group, safe='')}/resets"


def _place(
    topics: str | Sequence[str],
    to: str,
    queues: Sequence[int],
    time_ms: int | None,
    offset: int | None,
    by: int | None,
    from_group: str,
) -> Json:
    given: Json = {"time_ms": time_ms, "offset": None if offset is None else str(offset), "by": by}
    return {
        "topics": [topics] if isinstance(topics, str) else list(topics),
        "to": to,
        "queues": list(queues),
        "from_group": from_group,
        **{name: value for name, value in given.items() if value is not None},
    }
