"""What is written at the end of a run of answers, in the same turn of the event loop.

A turn that stores a hundred sends answers them one by one, and each answer asks for its connection
to be written to. The write has to wait for the last answer, yet not for the loop's next turn.
"""

from collections.abc import Callable


class TurnEnd:
    """The end of the run of answers under way; used on the event loop's thread only."""

    def __init__(self) -> None:
        self._due: list[Callable[[], None]] | None = None

    def run(self, work: Callable[[], None]) -> None:
        """Do `work`, then everything that was deferred meanwhile."""
        due = self._due = []
        try:
            work()
        finally:
            self._due = None
            for callback in due:
                callback()

    def defer(self, callback: Callable[[], None]) -> bool:
        """Call back at the end of the run; False where none is under way."""
        if self._due is None:
            return False
        self._due.append(callback)
        return True
