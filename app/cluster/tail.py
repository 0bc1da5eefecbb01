"""Reads a queue of a cluster on, look by look, without waiting for what is not stored yet."""

from app.cluster.messages import ClusterMessage
from app.cluster.reading import READ_COUNT, ClusterReads
from app.cluster.routes import ClusterQueue

PULL_BYTES = 256 * 1024


class QueueTail:
    """A queue, and the offset at which its next look begins; below 0 before the first one."""

    def __init__(self, place: ClusterQueue, next_offset: int = -1) -> None:
        self.place, self.next_offset = place, next_offset

    def skip_to(self, offset: int) -> None:
        """Read nothing before an offset."""
        self.next_offset = max(self.next_offset, offset)

    async def read(
        self, reads: ClusterReads, end: int, *, pulls_max: int, count_max: int, sql: str = ""
    ) -> list[ClusterMessage]:
        """What was not read yet before `end`, and perhaps some behind it, by at most `pulls_max`.

        It ends with the answer that brings `count_max` messages. `sql` is an SQL92 expression.
        """
        messages: list[ClusterMessage] = []
        for _ in range(pulls_max):
            if self.next_offset >= end or len(messages) >= count_max:
                break
            page = await reads.pull(
                self.place,
                self.next_offset,
                count_max=READ_COUNT,
                tags=sql or "*",
                is_sql=bool(sql),
                bytes_max=PULL_BYTES,
                is_from_master=True,
            )
            messages += page.messages
            if page.next_offset <= self.next_offset:
                break
            self.next_offset = page.next_offset
        return messages
