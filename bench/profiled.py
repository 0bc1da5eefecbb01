"""`kitemq serve` under cProfile: what `python -m bench --profile` starts in the server's place.

Only the event loop's thread is seen, which is the one that counts. cProfile makes small functions
look dearer than they are: believe its order, not its times.
"""

import cProfile
import os
import signal
import sys

from bench.server import PROFILE_ENV


def main() -> int:
    """Serve until SIGTERM, then write the profile where the environment says."""
    # uvicorn raises the signal again once it has stopped; without this the process would end there.
    signal.signal(signal.SIGTERM, lambda _number, _frame: None)
    from kitemq.cli import main as cli

    profile = cProfile.Profile()
    try:
        return profile.runcall(cli, sys.argv[1:])
    finally:
        profile.dump_stats(os.environ[PROFILE_ENV])


if __name__ == "__main__":
    raise SystemExit(main())
