"""Getting out of the broker's way: the idle scheduling class, inherited by whatever is started."""

import os
from contextlib import suppress

NICE_MOST = 19


def become_idle() -> None:
    """Run only when no other process wants the processor or, where that is not allowed, last."""
    if hasattr(os, "sched_setscheduler"):
        with suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
            return
    with suppress(OSError):
        os.nice(NICE_MOST)
