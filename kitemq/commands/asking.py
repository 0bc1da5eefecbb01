"""Asking before something is destroyed."""

import sys

from kitemq.errors import Refused


def confirmed(what: str, *, yes: bool) -> None:
    """Return if the user agrees, or gave `--yes` (`yes`); raises Refused otherwise.

    Without a terminal there is no question, so `--yes` is needed.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise Refused(f"will not {what} unasked", code="not_confirmed", remedy="add --yes")
    sys.stderr.write(f"Really {what}? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise Refused("nothing was changed", code="not_confirmed")
