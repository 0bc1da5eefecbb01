"""`kitemq tail TOPIC`: follow a topic without a group; nothing is consumed by it."""

import asyncio
import contextlib
import signal

import click

from kitemq.async_client import AsyncClient
from kitemq.background import together
from kitemq.backoff import Backoff
from kitemq.commands.command import ClientCommand, CommandOptions, argument, flag, option
from kitemq.commands.consume import FILTER_HELP, human_line
from kitemq.commands.output import Exit, Output, note
from kitemq.errors import Busy, Unreachable
from kitemq.model.topics import QueueStats

WAIT_S = 20.0
LIMIT = 160


class _Enough(Exception):
    """`--count` messages are printed."""


class TailOptions(CommandOptions):
    topic: str
    filter: str
    queue: int | None
    last: int
    from_start: bool
    count: int


@click.command(cls=ClientCommand)
@argument("topic")
@option("--filter", default="*", help=FILTER_HELP)
@option("--queue", type=int, help="this queue only")
@option("--last", type=int, default=0, help="begin so many back in each queue")
@flag("--from-start", "begin with the oldest")
@option("--count", type=int, default=0, help="stop after so many; 0 = never")
def tail(options: TailOptions, output: Output) -> int:
    return asyncio.run(_tail(options, output))


async def _tail(options: TailOptions, output: Output) -> int:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    async with AsyncClient(options.server) as client:
        topic = await client.topics.get(options.topic)
        if topic.unknown:
            note(f"{topic.unknown}: its queues are not followed")
        follower = _Follower(client, options, output)
        tasks = [
            asyncio.create_task(follower.follow(each.queue, _start(options, each)))
            for each in topic.queues
            if options.queue in (None, each.queue)
        ]
        with contextlib.suppress(_Enough, asyncio.CancelledError):
            await together(tasks)
    return Exit.OK


class _Follower:
    """Reads queues of one topic, each by its own long poll."""

    def __init__(self, client: AsyncClient, options: TailOptions, output: Output) -> None:
        self._client = client
        self._options = options
        self._remaining = options.count or -1
        self._output = output

    async def follow(self, queue: int, offset: int) -> None:
        """Print the messages of a queue from `offset` on; go on where a server comes back."""
        topic, filter = self._options.topic, self._options.filter
        backoff = Backoff()
        while True:
            try:
                page = await self._client.messages.pull(
                    topic, queue, offset, limit=LIMIT, filter=filter, wait_s=WAIT_S
                )
            except (Busy, Unreachable):
                await asyncio.sleep(backoff.next_s())
                continue
            backoff.reset()
            for message in page.messages:
                self._output.line(human_line(message), message)
                self._remaining -= 1
                if not self._remaining:
                    raise _Enough
            offset = int(page.next_offset)


def _start(options: TailOptions, queue: QueueStats) -> int:
    if options.from_start:
        return int(queue.min_offset)
    last: int = options.last
    return max(int(queue.min_offset), int(queue.max_offset) - last)
