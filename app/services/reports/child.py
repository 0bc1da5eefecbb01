"""A process of the reports, from its start until nothing of it is left."""

import asyncio
import ctypes
import os
import platform
import signal
import struct
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from app.priority import LAST, share_session
from app.services.reports.leftovers import MARK, end_marked

BEAT_S = 0.5
LOOK_S = 0.05  # how soon it is seen that a process has ended
TERM_S = 5.0  # between SIGTERM and SIGKILL
SCHED_SETATTR = {"x86_64": 314, "aarch64": 274, "riscv64": 274}  # of the system call, by machine
# `struct sched_attr`: size, policy, flags, nice, priority, runtime (a slice), deadline, period
ATTRIBUTES = struct.Struct("=IIQiIQQQ")
SLICE_MOST_NS = 100_000_000
LOG_BYTES_MAX = 4 * 1024 * 1024
TAIL_BYTES = 8 * 1024

Beat = Callable[[], Awaitable[None]]


class ChildTimeout(Exception):
    """The process took longer than it may, and was ended."""


async def run(
    words: Sequence[str],
    *,
    mark: str,
    output: Path,
    log: Path,
    limit_s: float,
    beat: Beat | None = None,
    processors: int = 0,
    environment: Mapping[str, str] = {},
) -> int:
    """Run a module of the reports; its exit code, negative for a signal.

    It may use that many `processors`, 0 for all but one. Its standard output goes to `output`, its
    errors to `log`, at most some 4 MB. `beat` is called twice a second; what it raises ends the
    process, as being cancelled does. Raises ChildTimeout. When this returns or raises, no process
    that carries the mark is left.
    """
    process = _start(words, {MARK: mark, **environment}, output, log)
    _give_way(process.pid, processors)
    deadline_s = asyncio.get_running_loop().time() + limit_s
    try:
        while not await _is_over(process, BEAT_S):
            if beat is not None:
                await beat()
            await asyncio.to_thread(_bound, log)
            if asyncio.get_running_loop().time() >= deadline_s:
                raise ChildTimeout
    finally:
        await _end(process)
        await asyncio.to_thread(end_marked, mark)
    return int(process.returncode)


def tail_of(*logs: Path) -> str:
    """The last 8 KB of each log that has anything."""
    lines = []
    for log in logs:
        with suppress(OSError), log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - TAIL_BYTES))
            text = file.read().decode(errors="replace").replace("\0", "\ufffd").strip()
            if text:
                lines.append(text)
    return "\n".join(lines)


def _start(
    words: Sequence[str], variables: Mapping[str, str], output: Path, log: Path
) -> "subprocess.Popen[bytes]":
    """Start a process in a session of its own.

    Not by asyncio: uvloop copies the server's page tables for it, for which all requests wait.
    """
    environment = os.environ | variables | {"PYTHONUNBUFFERED": "1"}
    # Opened by number, as opening and closing wait for nothing but the page cache.
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    out, err = os.open(output, flags, 0o600), os.open(log, flags, 0o600)
    try:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", *words],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
            env=environment,
        )
    finally:
        os.close(out)
        os.close(err)
    return process


def _give_way(pid: int, processors: int) -> None:
    """Have a process, and all that it will start, run when nobody else wants the processor.

    At once, as loading its libraries is already work. Linux shares the processors between sessions
    before it looks at the class (`sched_autogroup`), so the session is made the last one as well;
    and lets who has a turn finish it unless another's is shorter, so its turns are made long. Even
    so who comes last has a turn now and then, until the next tick of the clock, and what the kernel
    does for it meanwhile cannot be cut short: hence one processor is left to others altogether.
    """
    with suppress(OSError):  # it would inherit what the server has
        os.setpriority(os.PRIO_PROCESS, pid, LAST)
    if hasattr(os, "sched_setscheduler"):
        _take_long_turns(pid)
        with suppress(OSError):
            os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0))
    share_session(pid, LAST)
    if hasattr(os, "sched_setaffinity"):
        ours = sorted(os.sched_getaffinity(0))
        with suppress(OSError):  # it is gone already
            os.sched_setaffinity(pid, ours[: max(1, processors or len(ours) - 1)])


def _take_long_turns(pid: int) -> None:
    """Ask Linux 6.12 or newer for the longest time slice; what is older has no such choice.

    `sched_setattr` has no function in C's library, hence the bare call.
    """
    number = SCHED_SETATTR.get(platform.machine())
    if number is None:
        return
    attributes = ATTRIBUTES.pack(ATTRIBUTES.size, 0, 0, LAST, 0, SLICE_MOST_NS, 0, 0)
    ctypes.CDLL(None).syscall(number, pid, attributes, 0)


async def _is_over(process: "subprocess.Popen[bytes]", wait_s: float) -> bool:
    """Whether a process has ended; waits for that, but not longer than this."""
    loop = asyncio.get_running_loop()
    until_s = loop.time() + wait_s
    while process.poll() is None:
        if loop.time() >= until_s:
            return False
        await asyncio.sleep(LOOK_S)
    return True


async def _end(process: "subprocess.Popen[bytes]") -> None:
    """SIGTERM, so that it takes its Java machine and its folders with it; then SIGKILL."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is None:
            process.send_signal(number)
            await _is_over(process, TERM_S)


def _bound(log: Path) -> None:
    """A log that grows without end begins anew: its end is what is looked at."""
    with suppress(OSError):
        if log.stat().st_size > LOG_BYTES_MAX:
            os.truncate(log, 0)
