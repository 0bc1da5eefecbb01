"""The processes of a report: they give way to the server, and nothing of them is left."""

import asyncio
import os
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from app.priority import LAST, session_share
from app.services.reports import child, leftovers
from tests.app.services.reports.report_program import program

pytestmark = pytest.mark.anyio


def ways(mark: str) -> list[tuple[int, int | None]]:
    """The class of each process that sleeps long, and what its session is given of the processors.

    Of that None where Linux does not share by sessions.
    """
    found = []
    for pid in leftovers.marked(mark):
        with suppress(OSError):  # it ended meanwhile
            if Path(f"/proc/{pid}/cmdline").read_bytes() == b"sleep\x00300\x00":
                found.append((os.sched_getscheduler(pid), session_share(pid)))
    return found


async def test_a_process_gives_way_to_others_with_all_that_it_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go, mark = tmp_path / "go", leftovers.mark_of(tmp_path)
    # It starts nothing that stays before it was told its class, as a loading Python would not.
    program(tmp_path, monkeypatch, f"until [ -e {go} ]; do sleep 0.1; done; sleep 300 & sleep 300")
    found: list[tuple[int, int | None]] = []

    class Seen(Exception):
        pass

    async def beat() -> None:
        await asyncio.to_thread(go.touch)
        found[:] = ways(mark)
        if len(found) == 2:
            raise Seen

    for number in range(5):  # Linux lets people change a session ten times a second at most
        logs = tmp_path / f"out-{number}", tmp_path / f"err-{number}"
        await asyncio.to_thread(go.unlink, missing_ok=True)
        with pytest.raises(Seen):
            await child.run(["x"], mark=mark, output=logs[0], log=logs[1], limit_s=60, beat=beat)
        if all(share in (None, LAST) for _, share in found):
            break
    assert {each[0] for each in found} == {os.SCHED_IDLE}
    assert {each[1] for each in found} <= {None, LAST}


def test_a_process_is_given_long_turns_where_linux_has_them_to_give() -> None:
    with subprocess.Popen(["sleep", "300"]) as process:
        try:
            child._take_long_turns(process.pid)
            told = Path(f"/proc/{process.pid}/sched")
            lines = told.read_text().splitlines() if told.exists() else []
        finally:
            process.kill()
    slices = {line.split()[-1] for line in lines if line.startswith("se.slice")}
    assert slices <= {str(child.SLICE_MOST_NS)}, "before Linux 6.12 it tells of none"


@pytest.mark.parametrize("wished", [0, 1, 99])
def test_a_process_leaves_one_processor_to_others_unless_told_otherwise(wished: int) -> None:
    ours = os.sched_getaffinity(0)
    with subprocess.Popen(["sleep", "300"], start_new_session=True) as process:
        try:
            child._give_way(process.pid, wished)
            its = os.sched_getaffinity(process.pid)
            nice = os.getpriority(os.PRIO_PROCESS, process.pid)
        finally:
            process.kill()
    assert nice == LAST
    assert its <= ours
    assert len(its) == {0: max(1, len(ours) - 1), 1: 1, 99: len(ours)}[wished]


async def test_a_process_that_takes_too_long_is_ended_with_all_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A grandchild with a session of its own, deaf to SIGTERM: neither group nor tree leads to it.
    program(tmp_path, monkeypatch, "trap '' TERM; setsid sleep 300 & sleep 300")
    mark = leftovers.mark_of(tmp_path)
    monkeypatch.setattr(child, "TERM_S", 0.2)
    seen: list[int] = []

    async def beat() -> None:
        seen[:] = leftovers.marked(mark)

    logs = tmp_path / "out", tmp_path / "err"
    with pytest.raises(child.ChildTimeout):
        await child.run(["x"], mark=mark, output=logs[0], log=logs[1], limit_s=1, beat=beat)
    assert len(seen) >= 2
    assert leftovers.marked(mark) == []
