"""The console's main jobs before Apache: those of tests/app/ui/test_main_jobs.py without a browser.

What a cluster lacks is left out, as before KiteMQ's port in its place; dead letters, which that
port names otherwise, are here. A browser's tests come last of a run, when this cluster has ended.
"""

from typing import Any

from tests.app.ui import test_main_jobs as suite
from tests.app.ui.test_main_jobs import dead_group, done_group, guarded, visitor
from tests.makers import lacking
from tests.rocketmq.test_verbs import pytestmark

__all__ = ["dead_group", "done_group", "guarded", "pytestmark", "visitor"]


def _runs(test: Any) -> bool:
    """Whether nothing that it needs is lacking, and it needs no browser."""
    return "open_page" not in test.__code__.co_varnames and not lacking(
        getattr(test, "pytestmark", ())
    )


globals().update(
    {name: test for name, test in vars(suite).items() if name.startswith("test_") and _runs(test)}
)
