"""`kitemq move --to NAMESRV`: a running KiteMQ into an Apache RocketMQ cluster."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

import click

from kitemq.async_client import AsyncClient
from kitemq.backoff import Backoff
from kitemq.commands.command import ClientCommand, CommandOptions, flag, option
from kitemq.commands.output import Exit, Output, note
from kitemq.commands.serving import server_needed
from kitemq.errors import Busy, NotFound, Rejected, Unreachable
from kitemq.model.groups import Group
from kitemq.model.messages import PullPage
from kitemq.model.progress import Lag
from kitemq.model.topics import Topic, TopicDetail

if TYPE_CHECKING:
    from app.cluster.move import Move, MoveRound

NAME = "kitemq_move"
ACCESS_KEY, SECRET_KEY = "ROCKETMQ_ACCESS_KEY", "ROCKETMQ_SECRET_KEY"
ROUND_S = 2.0
TELL_S = 5.0
TIMEOUT_S = 60.0
QUIET_S = 60.0
Answer = TypeVar("Answer", TopicDetail, Lag)
COUNT_MAX = 1000  # of waiting messages and open transactions that are counted


class ClusterMoveOptions(CommandOptions):
    to: str
    follow: bool
    quiet_s: float
    name: str


@click.command(
    cls=ClientCommand,
    epilog=f"The access key and secret of the cluster, if it asks for them, are read from "
    f"{ACCESS_KEY} and {SECRET_KEY}. See docs/clusters.md.",
)
@option("--to", required=True, metavar="NAMESRV[;NAMESRV]", help="name servers of the cluster")
@flag("--follow", "keep the cluster in step until nobody uses this server any more")
@option(
    "--quiet-s",
    type=float,
    default=QUIET_S,
    show_default=True,
    help="with --follow: done after so long without a message, offset or consumer",
)
@option("--name", default=NAME, show_default=True, help="another for each server that moves there")
def move(options: ClusterMoveOptions, output: Output) -> int:
    """Copy topics, groups, kept messages and offsets into an Apache RocketMQ cluster.

    Started again after an end of any kind it goes on: each message is copied once.
    """
    return asyncio.run(_move(options, output))


async def _move(options: ClusterMoveOptions, output: Output) -> int:
    with server_needed():
        from app.cluster.client import ClusterClient  # a client never loads the server
        from app.cluster.errors import ClusterError
        from app.cluster.move import Move

    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    keys = {
        "access_key": os.environ.get(ACCESS_KEY, ""),
        "secret_key": os.environ.get(SECRET_KEY, ""),
    }
    async with AsyncClient(options.server, timeout_s=TIMEOUT_S) as client:
        try:
            async with ClusterClient(options.to, **keys) as cluster:
                move = Move(_Source(client), cluster, options.name)
                await move.prepare()
                rounds = _Rounds(client, move, output)
                return await rounds.run(follow=options.follow, quiet_s=options.quiet_s)
        except asyncio.CancelledError:
            note("stopped; start it again to go on")
            return Exit.INTERRUPTED
        except ClusterError as error:
            kind = Unreachable if error.code != "cluster_refused" else Rejected
            raise kind(error.detail, code=error.code, field="--to", remedy=error.remedy) from None


class _Rounds:
    """Rounds of a move, and what the person is told of them."""

    def __init__(self, client: AsyncClient, move: "Move", output: Output) -> None:
        self._client = client
        self._move = move
        self._output = output

    async def run(self, *, follow: bool, quiet_s: float) -> int:
        """One round, or rounds until nothing is left and nobody is connected; the exit code."""
        backoff = Backoff(ROUND_S)
        busy_s = time.monotonic()
        while True:
            try:
                done, left = await self._round()
            except (Busy, NotFound, Unreachable) as error:  # a topic may go while it is read
                if not follow:
                    raise
                note(f"{error}; trying again")
                await asyncio.sleep(backoff.next_s())
                continue
            backoff.reset()
            if not follow:
                return Exit.PARTIAL if done.failures else Exit.OK
            if done.copied or done.offsets or done.failures or any(left.values()):
                busy_s = time.monotonic()
            elif time.monotonic() - busy_s >= quiet_s:
                note("done: all is in the cluster, and nobody is connected here any more")
                return Exit.OK
            await asyncio.sleep(ROUND_S)

    async def _round(self) -> tuple["MoveRound", dict[str, int]]:
        telling = asyncio.create_task(self._tell())
        try:
            done = await self._move.round()
        finally:
            telling.cancel()
            with suppress(asyncio.CancelledError):
                await telling
        left = await _left(self._client)
        for failure in done.failures:
            note(failure)
        self._output.row(
            {
                "topics": done.topics,
                "groups": done.groups,
                "copied": done.copied,
                "offsets": done.offsets,
                "failures": len(done.failures),
                **left,
            }
        )
        return done, left

    async def _tell(self) -> None:
        begun = self._move.copied
        while True:
            await asyncio.sleep(TELL_S)
            note(f"{self._move.copied - begun:,} of {self._move.remaining:,} messages copied")


class _Source:
    """What a move reads, from the server's REST interface."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def topics(self) -> Sequence[Topic]:
        return [each async for each in self._client.topics.list(system=True)]

    async def topic(self, name: str) -> TopicDetail:
        return _whole(await self._client.topics.get(name))

    async def groups(self) -> Sequence[Group]:
        return [each async for each in self._client.groups.list()]

    async def lag(self, group: str) -> Lag:
        return _whole(await self._client.groups.lag(group))

    async def pull(self, topic: str, queue: int, offset: int, *, limit: int) -> PullPage:
        return await self._client.messages.pull(topic, queue, offset, limit=limit)


def _whole(answer: Answer) -> Answer:
    """The answer; Busy where queues are missing in it."""
    if answer.unknown:
        raise Busy(answer.unknown, remedy="wait until it is back")
    return answer


async def _left(client: AsyncClient) -> dict[str, int]:
    """What comes to its topic only later, and who is connected; it keeps this server in use."""
    groups = [each async for each in client.groups.list()]
    return {
        "waiting": await _count(client.scheduled.list()),
        "transactions": await _count(client.transactions.list()),
        "consumers": sum(each.members for each in groups),
    }


async def _count(items: AsyncIterator[object]) -> int:
    """How many there are, at most COUNT_MAX."""
    count = 0
    async for _ in items:
        count += 1
        if count == COUNT_MAX:
            break
    return count
