"""What is kept for how long, over REST: a part of `kitemq.Client`."""

from collections.abc import Mapping

from kitemq.model.retention import Purged, PurgeOrder, Retention
from kitemq.rest import RestConnection, segment


class Keeping(RestConnection):
    """What a client can ask of retention, and purging a topic."""

    def retention(self) -> Retention:
        """The policy in force, how full log and disk are, and what goes next."""
        return self._typed(Retention, "GET", "/retention")

    def purge(
        self,
        topic: str,
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
        return self._typed(Purged, "POST", f"/topics/{segment(topic)}/purge", body=order)
