"""Limits on concurrent long responses: exports and live streams."""

from collections.abc import Iterator
from contextlib import contextmanager

from app.ui.framework.language import _, translated
from engine.errors import Busy

RETRY_AFTER_S = 5.0


class Turns:
    """A limit of `count_max` at once; `noun` names them in errors."""

    def __init__(self, count_max: int, noun: str) -> None:
        self._count_max = count_max
        self._noun = noun
        self.count = 0

    def check(self) -> None:
        """Raise Busy if the limit is reached; call it before the response starts."""
        if self.count >= self._count_max:
            raise Busy(
                _(
                    "%(count)s %(noun)s are already running",
                    count=self.count,
                    noun=translated(self._noun),
                ),
                retry_after_s=RETRY_AFTER_S,
                remedy=_("end one of them or try again in a moment"),
            )

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Hold one place for the duration of the context; raises Busy."""
        self.check()
        self.count += 1
        try:
            yield
        finally:
            self.count -= 1
