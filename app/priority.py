"""How much of the processors a process is given before others, as Unix counts it: nice -20 to 19.

Linux may share the processors between sessions before it looks at the processes of one
(`sched_autogroup`); then only the number of the session counts against other programs.
"""

import os
from contextlib import suppress
from pathlib import Path

FIRST, LAST = -10, 19
PROC = Path("/proc")


def go_first() -> None:
    """Put this process, and whatever it starts, before others, as far as the system permits.

    A session is only touched by who leads it, as a service does: in a terminal's there are other
    programs, and it outlives us.
    """
    with suppress(OSError):  # not permitted: it stays as it is
        os.setpriority(os.PRIO_PROCESS, 0, FIRST)
    if os.getsid(0) == os.getpid():
        share_session(os.getpid(), FIRST)


def session_share(pid: int) -> int | None:
    """The number of a process's session; None where sessions share nothing, or it has no share:
    in the session that the system itself began with, and those that did not leave it."""
    try:
        words = (PROC / str(pid) / "autogroup").read_text().split()
    except OSError:
        return None
    return int(words[-1]) if words else None


def share_session(pid: int, nice: int) -> None:
    """Give the session of a process its share; nothing where that is not known or permitted."""
    with suppress(OSError):
        (PROC / str(pid) / "autogroup").write_text(str(nice))
