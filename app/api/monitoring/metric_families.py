"""Every metric that `/metrics` may give, as the table in `metrics.md` has it."""

from collections.abc import Iterator
from importlib.resources import files
from typing import NamedTuple

Labels = tuple[str, ...]


class Family(NamedTuple):
    """One metric: its name, its type, its labels, and what it means."""

    name: str
    kind: str
    labels: Labels
    help: str


def document() -> str:
    """The text of `docs/metrics.md`."""
    return files("app.api.monitoring").joinpath("metrics.md").read_text()


def _families() -> Iterator[Family]:
    for line in document().splitlines():
        if line.startswith("| `"):
            name, kind, labels, text = (cell.strip(" `") for cell in line.strip("|").split("|"))
            yield Family(name, kind, () if labels == "-" else tuple(labels.split(", ")), text)


FAMILIES = {family.name: family for family in _families()}
