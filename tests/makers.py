"""Which maker of the verbs stands behind the servers of a test: the embedded engine, or a cluster.

What is marked `makers` runs once before each, where KiteMQ's own port for classic clients takes the
place of the cluster. What is marked with `capabilities` that a cluster lacks is left out
there, and what is marked `apache` is run by tests/rocketmq instead; the end of a run says how much
and why. `python -m pytest --collect-only -qq -m makers tests/app tests/kitemq` counts all of it.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

import pytest

from app.capabilities import LACKS, lack_of
from app.cluster.catalog import CLUSTER as CAPABILITIES

EMBEDDED, CLUSTER = "embedded", "cluster"
APACHE = "apache"  # has topics of retries and dead letters that KiteMQ's port names otherwise
COUNTS = pytest.StashKey[Counter[str]]()


def parametrize(metafunc: pytest.Metafunc) -> None:
    """Run a test that is marked `makers` before each of them."""
    if "maker_name" in metafunc.fixturenames and metafunc.definition.get_closest_marker("makers"):
        cluster = pytest.param(CLUSTER, marks=pytest.mark.before_cluster)
        metafunc.parametrize("maker_name", [EMBEDDED, cluster], indirect=True, scope="module")


def lacking(marks: Iterable[pytest.Mark]) -> list[str]:
    """The capabilities that these marks need and a cluster lacks."""
    names = [name for mark in marks if mark.name == "capabilities" for name in mark.args]
    return [name for name in names if lack_of(CAPABILITIES, name)]


def lacks(item: pytest.Item) -> list[str]:
    """Why a test does not run before a cluster: capabilities, or APACHE where only that will do."""
    return lacking(item.iter_markers()) + [APACHE for _ in item.iter_markers(APACHE)]


def maker_of(item: pytest.Item) -> str:
    """The maker that a test runs before; "" where it is not marked."""
    call = getattr(item, "callspec", None)
    return str(call.params.get("maker_name", "")) if call else ""


def leave_out(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Take out what a cluster cannot do, and count what is there before each maker."""
    left_out = [item for item in items if maker_of(item) == CLUSTER and lacks(item)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in set(left_out)]
    counts = config.stash.setdefault(COUNTS, Counter())
    counts.update(maker for item in items if (maker := maker_of(item)))
    counts.update(lacks(item)[0] for item in left_out)


def summary(config: pytest.Config) -> Sequence[str]:
    """How many tests run before each maker, and why others do not."""
    counts = config.stash.get(COUNTS, Counter[str]())
    lines = [f"{counts[name]} before {words}" for name, words in BEFORE if counts[name]]
    lines += [
        f"{counts[name]} left out before a cluster: it {lack.detail} ({name})"
        for name, lack in LACKS.items()
        if counts[name]
    ]
    return lines + [f"{counts[APACHE]} before Apache only: tests/rocketmq"] * bool(counts[APACHE])


BEFORE = ((EMBEDDED, "the embedded engine"), (CLUSTER, "a cluster"))
