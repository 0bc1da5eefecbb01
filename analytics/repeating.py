"""Something done over and over beside other work, by a thread of its own."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def repeating(work: Callable[[], None], every_s: float, name: str) -> Iterator[None]:
    """Do `work` every so many seconds until the block ends; what it raises ends it, silently."""
    stop = threading.Event()

    def run() -> None:
        while not stop.wait(every_s):
            try:
                work()
            except Exception:  # optional: a caller that needs its result checks it
                return

    thread = threading.Thread(target=run, daemon=True, name=name)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
