"""The SDK's tests of a consumer before Apache: those that the embedded engine has to pass.

What needs a capability that a cluster lacks is left out, as before KiteMQ's port in its place; what
that port has not, retries and dead letters by Apache's names, is here.
"""

from typing import Any

from tests.kitemq import test_consumer as suite
from tests.makers import lacking
from tests.rocketmq.test_verbs import pytestmark

__all__ = ["pytestmark"]


def _runs(test: Any) -> bool:
    """Whether nothing that it needs is lacking, and it needs a server."""
    return "server" in test.__code__.co_varnames and not lacking(getattr(test, "pytestmark", ()))


globals().update(
    {name: test for name, test in vars(suite).items() if name.startswith("test_") and _runs(test)}
)
