"""The project's pages and files, for the tests that hold the documentation to what it says."""

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
RUNNABLE = re.compile(r"<!-- runnable -->\n+```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SKIPPED_FOLDERS = frozenset(
    {".git", ".venv", "build", "data", "data-demo", "dist", "node_modules", "vendor"}
)
CACHE = re.compile(r"__pycache__|\.egg-info|_cache$|^\.hypothesis$")


@dataclass(frozen=True)
class Example:
    """A block of a page that claims to run as it stands."""

    page: str
    number: int
    language: str
    text: str

    @property
    def name(self) -> str:
        return f"{self.page}-{self.number}-{self.language}"


@lru_cache(maxsize=1)
def own_files() -> tuple[Path, ...]:
    """Every file that belongs to the project: what git knows or would add, where there is git."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listed.returncode == 0 and listed.stdout:
        names = listed.stdout.decode().split("\0")
        found = (ROOT / name for name in names if name)
        return tuple(path for path in found if path.is_file())
    return tuple(_walk(ROOT))


def pages() -> list[Path]:
    """README, changelog and everything under docs/, as Markdown."""
    top = [ROOT / "README.md", ROOT / "CHANGELOG.md"]
    return [*top, *(path for path in own_files() if _is_page(path))]


def examples() -> list[Example]:
    """Every runnable block of every page, in order."""
    found = []
    for page in pages():
        name = page.relative_to(ROOT).as_posix()
        for number, match in enumerate(RUNNABLE.finditer(page.read_text()), start=1):
            found.append(Example(name, number, match[1], match[2]))
    return found


def _is_page(path: Path) -> bool:
    return path.suffix == ".md" and path.relative_to(ROOT).parts[0] in {"docs", "examples", "bench"}


def _walk(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.name in SKIPPED_FOLDERS or CACHE.search(path.name):
            continue
        if path.is_dir():
            yield from _walk(path)
        else:
            yield path
