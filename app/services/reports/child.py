"""A process of the reports, from its start until nothing of it is left."""

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path

from app.services.reports.leftovers import MARK, end_marked

BEAT_S = 0.5
TERM_S = 5.0  # between SIGTERM and SIGKILL
LOG_BYTES_MAX = 4 * 1024 * 1024
TAIL_BYTES = 8 * 1024

Beat = Callable[[], Awaitable[None]]


class TimedOut(Exception):
    """The process took longer than it may, and was ended."""


async def run(
    words: Sequence[str], *, mark: str, output: Path, log: Path, limit_s: float, beat: Beat
) -> int:
    """Run a module of the reports; its exit code, negative for a signal.

    Its standard output goes to `output`, its errors to `log`, at most some 4 MB. `beat` is called
    twice a second; what it raises ends the process, as being cancelled does. Raises TimedOut. When
    this returns or raises, no process that carries the mark is left.
    """
    process = await _start(words, mark, output, log)
    waiting = asyncio.ensure_future(process.wait())
    deadline_s = asyncio.get_running_loop().time() + limit_s
    try:
        while not (await asyncio.wait({waiting}, timeout=BEAT_S))[0]:
            await beat()
            await asyncio.to_thread(_bound, log)
            if asyncio.get_running_loop().time() >= deadline_s:
                raise TimedOut
    finally:
        if not waiting.done():
            await _end(process, waiting)
        await asyncio.to_thread(end_marked, mark)
    return waiting.result()


def tail_of(*logs: Path) -> str:
    """The last 8 KB of each log that has anything."""
    found = []
    for log in logs:
        with suppress(OSError), log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - TAIL_BYTES))
            text = file.read().decode(errors="replace").replace("\0", "\ufffd").strip()
            if text:
                found.append(text)
    return "\n".join(found)


async def _start(
    words: Sequence[str], mark: str, output: Path, log: Path
) -> asyncio.subprocess.Process:
    environment = os.environ | {MARK: mark, "PYTHONUNBUFFERED": "1"}
    # Opened by number, as opening and closing wait for nothing but the page cache.
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    out, err = os.open(output, flags, 0o600), os.open(log, flags, 0o600)
    try:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",
            "-m",
            *words,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
            env=environment,
        )
    finally:
        os.close(out)
        os.close(err)


async def _end(process: asyncio.subprocess.Process, waiting: "asyncio.Future[int]") -> None:
    """SIGTERM, so that it takes its Java machine and its folders with it; then SIGKILL."""
    for number, wait_s in ((signal.SIGTERM, TERM_S), (signal.SIGKILL, TERM_S)):
        with suppress(ProcessLookupError):
            process.send_signal(number)
        if (await asyncio.wait({waiting}, timeout=wait_s))[0]:
            return


def _bound(log: Path) -> None:
    """A log that grows without end begins anew: its end is what is looked at."""
    with suppress(OSError):
        if log.stat().st_size > LOG_BYTES_MAX:
            os.truncate(log, 0)
