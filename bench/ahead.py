"""A sender that goes before other programs: what it waits for a processor is not the server's."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from app.priority import FIRST, session_share, share_session


@contextmanager
def ahead() -> Iterator[None]:
    """Put this process and its session before others meanwhile, where the system permits it."""
    nice, share = os.getpriority(os.PRIO_PROCESS, 0), session_share(os.getpid())
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, FIRST)
    share_session(os.getpid(), FIRST)
    try:
        yield
    finally:
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, 0, nice)
        if share is not None:
            share_session(os.getpid(), share)
