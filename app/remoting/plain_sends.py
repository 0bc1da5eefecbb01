"""The plain sends of one read, by topic and queue: stored as columns, without an object for each.

They wait until the read ends or another request comes, so that the order within a queue is that of
the requests. What turns out to be special is handled as all other requests are, by `sending`; so is
what a limit leaves no room for, which is then refused as any request.
"""

from typing import TYPE_CHECKING

from app.remoting.column_sends import ColumnSends, SendRun
from app.remoting.plain_headers import PlainSend, plain_send
from engine.plain_columns import COLUMNS_COUNT_MIN, batch_columns
from protocol.remoting.batches import SHORT_MAX, message_parts, message_size
from protocol.remoting.frames import RawFrame

if TYPE_CHECKING:
    from app.remoting.connection import RemotingConnection
    from app.security.access import Principal

RUN_BYTES_MAX = 1024 * 1024


class PlainSends:
    """Collects sends of one connection; `submit` stores what it has."""

    def __init__(
        self, connection: "RemotingConnection", principal: "Principal", frame_count: int
    ) -> None:
        """`principal` may send to any topic; the read has brought so many frames."""
        self._connection = connection
        self._principal = principal
        self._takes_single = frame_count >= COLUMNS_COUNT_MIN
        self._runs: list[SendRun] = []
        self._open: dict[tuple[str, int], SendRun] = {}  # of single messages

    def take(self, frame: RawFrame) -> bool:
        """Whether this frame may be a plain send, which then waits for `submit`."""
        send = plain_send(frame, takes_single=self._takes_single)
        if send is None or len(send.properties) > SHORT_MAX:
            return False
        key, size_bytes = (send.topic, send.queue), len(frame.body)
        if send.is_batch:
            self._open.pop(key, None)  # what comes after it is stored after it
            self._begin(send).add(frame, send, ())
            return True
        run = self._open.get(key)
        if run is None or run.code != send.code or run.size_bytes + size_bytes > RUN_BYTES_MAX:
            run = self._open[key] = self._begin(send)
        run.add(frame, send, message_parts(send.flag, frame.body, send.properties))
        return True

    def submit(self) -> None:
        """Store the sends so far; the answers follow."""
        runs, self._runs, self._open = self._runs, [], {}
        for run in runs:
            if run.is_batch:
                self._submit_batch(run)
            else:
                self._submit_messages(run)

    def _submit_batch(self, run: SendRun) -> None:
        batch = run.frames[0].body
        columns = batch_columns(batch)
        if columns.message_count and columns.end == len(batch):
            ColumnSends(self._connection, self._principal, run, columns).submit()
        else:
            run.send_singly(self._connection)

    def _submit_messages(self, run: SendRun) -> None:
        batch, at = b"".join(run.parts), 0
        while run.frames:
            columns = batch_columns(batch, at)
            if columns.message_count:
                plain = run.split(columns.message_count)
                ColumnSends(self._connection, self._principal, plain, columns).submit()
            if run.frames:
                run.split(1).send_singly(self._connection)
                at = columns.end + message_size(batch, columns.end)

    def _begin(self, send: PlainSend) -> SendRun:
        run = SendRun(send.code, send.topic, send.queue, is_batch=send.is_batch)
        self._runs.append(run)
        return run
