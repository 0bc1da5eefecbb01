"""What is kept for how long, over REST: a part of `kitemq.Client`."""

from collections.abc import Mapping
from urllib.parse import quote

from kitemq.rest import Json, RestConnection


class Keeping(RestConnection):
    """What a client can ask of retention, and purging a topic."""

    def retention(self) -> Json:
        """The policy in force, how full log and disk are, and what goes next."""
        return self._call("GET", "/retention")

    def purge(
        self,
        topic: str,
        *,
        before_offset: Mapping[int, int] | None = None,
        before_ms: int | None = None,
        everything: bool = False,
        dry_run: bool = False,
    ) -> Json:
        """Make messages of a topic unreadable for good; what went, queue by queue.

        Exactly one says which: those before an offset, by queue; those stored before a time (ms
        since 1970 UTC); or all that can be read now. With `dry_run` they are only counted.
        """
        document: Json = {"dry_run": dry_run}
        if before_offset is not None:
            offsets = {str(queue): str(offset) for queue, offset in before_offset.items()}
            document["before_offset"] = offsets
        if before_ms is not None:
            document["before_ms"] = before_ms
        if everything:
            document["all"] = True
        return self._call("POST", f"/topics/{quote(topic, safe='')}/purge", json=document)
