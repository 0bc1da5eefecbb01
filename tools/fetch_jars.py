"""Fetch jars from Maven Central: `python fetch_jars.py jars.sha256 FOLDER`.

Each line of the list is a SHA-256, two spaces, and a path in the repository. What the folder
has already with that hash stays; what arrives with another one is not kept.
"""

import hashlib
import shutil
import sys
import urllib.request
from pathlib import Path

CENTRAL = "https://repo1.maven.org/maven2/"
TIMEOUT_S = 60


def digest(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fetch(address: str, target: Path, wanted: str) -> None:
    """Download to `target` if it is not there yet; SystemExit if it is not what the list names."""
    if target.exists() and digest(target) == wanted:
        return
    part = target.with_suffix(".part")
    # The address begins with CENTRAL, whatever the list says.
    opened = urllib.request.urlopen(address, timeout=TIMEOUT_S)  # noqa: S310
    with opened as answer, part.open("wb") as file:
        shutil.copyfileobj(answer, file)
    if (found := digest(part)) != wanted:
        part.unlink()
        sys.exit(f"{address} has the SHA-256 {found}, but {wanted} is wanted")
    part.rename(target)


def main() -> None:
    """Fetch every jar of the list."""
    jars, folder = map(Path, sys.argv[1:])
    for line in jars.read_text().splitlines():
        wanted, _, path = line.partition("  ")
        fetch(CENTRAL + path, folder / path.rpartition("/")[2], wanted)


main()
