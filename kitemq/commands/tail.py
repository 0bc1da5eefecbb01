"""`kitemq tail TOPIC`: follow a topic without a group; nothing is consumed by it."""

import asyncio
import contextlib
import signal
from typing import Any
from urllib.parse import quote

import click
import httpx

from kitemq.address import server_url, tls_context, token_headers
from kitemq.background import together
from kitemq.backoff import Backoff
from kitemq.commands.command import ClientCommand, Options, argument, flag, option
from kitemq.commands.consume import FILTER_HELP, human_line
from kitemq.commands.output import Exit, Output
from kitemq.errors import Busy, Unreachable
from kitemq.rest import API, TIMEOUT_S, Json, answer_of

WAIT_MS = 20_000
LIMIT = 160


class _Enough(Exception):
    """As many messages as were wanted are printed."""


@click.command(cls=ClientCommand)
@argument("topic")
@option("--filter", default="*", help=FILTER_HELP)
@option("--queue", type=int, help="this queue only")
@option("--last", type=int, default=0, help="begin so many back in each queue")
@flag("--from-start", "begin with the oldest")
@option("--count", type=int, default=0, help="stop after so many; 0 = never")
def tail(options: Options, output: Output) -> int:
    return asyncio.run(_tail(options, output))


async def _tail(options: Options, output: Output) -> int:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    url = server_url(options.server)
    timeout = httpx.Timeout(TIMEOUT_S, read=WAIT_MS / 1000 + TIMEOUT_S)
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(
        base_url=url + API,
        headers=token_headers(),
        timeout=timeout,
        limits=limits,
        trust_env=False,
        verify=tls_context(url) or False,
    ) as http:
        follower = _Follower(http, options, output)
        queues = (await follower.get(f"/topics/{quote(options.topic, safe='')}"))["queues"]
        chosen = [each for each in queues if options.queue in (None, each["queue"])]
        tasks = [
            asyncio.create_task(follower.follow(each["queue"], _start(options, each)))
            for each in chosen
        ]
        with contextlib.suppress(_Enough, asyncio.CancelledError):
            await together(tasks)
    return Exit.OK


class _Follower:
    """Reads queues of one topic, each by its own long poll."""

    def __init__(self, http: httpx.AsyncClient, options: Options, output: Output) -> None:
        self._http = http
        self._path = f"/topics/{quote(options.topic, safe='')}/messages"
        self._filter = options.filter
        self._remaining = options.count or -1
        self._output = output

    async def get(self, path: str, **params: Any) -> Json:
        try:
            return answer_of(await self._http.get(path, params=params))
        except httpx.HTTPError as error:
            raise Unreachable(
                f"no KiteMQ at {self._http.base_url}: {str(error) or type(error).__name__}",
                remedy="start it with `kitemq serve`, or give --server or KITEMQ_SERVER",
            ) from None

    async def follow(self, queue: int, offset: int) -> None:
        """Print the messages of a queue from `offset` on; a server that comes back is found."""
        backoff = Backoff()
        while True:
            try:
                page = await self.get(
                    self._path,
                    queue=queue,
                    offset=offset,
                    limit=LIMIT,
                    filter=self._filter,
                    wait_ms=WAIT_MS,
                )
            except (Busy, Unreachable):
                await asyncio.sleep(backoff.next_s())
                continue
            backoff.reset()
            for row in page["messages"]:
                self._output.line(human_line(row), row)
                self._remaining -= 1
                if not self._remaining:
                    raise _Enough
            offset = int(page["next_offset"])


def _start(options: Options, queue: Json) -> int:
    if options.from_start:
        return int(queue["min_offset"])
    last: int = options.last
    return max(int(queue["min_offset"]), int(queue["max_offset"]) - last)
