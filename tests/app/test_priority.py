"""The server goes before other programs where it may, and leaves alone what is not its own."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from app import priority
from app.priority import FIRST, LAST, session_share, share_session
from bench.ahead import ahead
from tests.app.test_serve import LIMIT_S, serving

SLEEPER = "from app.priority import go_first; import time; go_first(); print(flush=True)"
TRIES = 5  # Linux lets people change a session ten times a second at most


def permitted() -> bool:
    """Whether the system lets us go first, asked of a process that ends at once."""
    ask = f"import os; os.setpriority(os.PRIO_PROCESS, 0, {FIRST})"
    return (
        subprocess.run([sys.executable, "-c", ask], check=False, capture_output=True).returncode
        == 0
    )


def as_it_is() -> tuple[int, int | None]:
    """What this process and its session have now."""
    return os.getpriority(os.PRIO_PROCESS, 0), session_share(os.getpid())


@contextmanager
def went_first(*, leads: bool) -> Iterator[int]:
    """A process that went first, in a session of its own or in ours."""
    code = f"{SLEEPER}; time.sleep({LIMIT_S})"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, start_new_session=leads
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"\n"
            yield process.pid
        finally:
            process.kill()


def test_a_process_goes_first_where_it_may_and_takes_its_own_session_with_it() -> None:
    wanted = FIRST if permitted() else os.getpriority(os.PRIO_PROCESS, 0)
    with went_first(leads=True) as pid:
        assert os.getpriority(os.PRIO_PROCESS, pid) == wanted
        assert session_share(pid) in (None, FIRST if permitted() else 0)


def test_the_session_of_somebody_else_is_left_as_it_is() -> None:
    before = session_share(os.getpid())
    with went_first(leads=False) as pid:
        assert session_share(pid) == before == session_share(os.getpid())


@pytest.mark.parametrize("goes_first", [True, False])
def test_all_threads_of_a_server_go_first_unless_told_otherwise(
    tmp_path: Path, goes_first: bool
) -> None:
    wanted = FIRST if goes_first and permitted() else os.getpriority(os.PRIO_PROCESS, 0)
    options = () if goes_first else ("--goes-first", "false")
    with serving(tmp_path / "data", *options) as (process, _):
        threads = [int(each.name) for each in Path(f"/proc/{process.pid}/task").iterdir()]
        found = {os.getpriority(os.PRIO_PROCESS, each) for each in threads}
        assert len(threads) > 1
    assert found == {wanted}


def test_what_a_sender_was_given_for_a_while_is_taken_back() -> None:
    before = as_it_is()
    for _ in range(TRIES):
        with ahead():
            meanwhile = os.getpriority(os.PRIO_PROCESS, 0)
        time.sleep(0.1)
        if as_it_is() == before:
            break
    assert meanwhile == (FIRST if permitted() else before[0])
    assert as_it_is() == before


def test_a_session_that_is_not_there_is_passed_over() -> None:
    with subprocess.Popen(["true"]) as process:
        process.wait()
        share_session(process.pid, LAST)
    assert not Path(f"/proc/{process.pid}").exists()


@pytest.mark.parametrize(
    ("told", "share"), [("/autogroup-7 nice -3\n", -3), ("", None), (None, None)]
)
def test_the_share_of_a_session_is_what_the_system_tells_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: str | None, share: int | None
) -> None:
    """It tells nothing of the session that it began with itself, which CI may run in."""
    monkeypatch.setattr(priority, "PROC", tmp_path)
    (tmp_path / "1").mkdir()
    if told is not None:
        (tmp_path / "1" / "autogroup").write_text(told)
    assert session_share(1) == share
