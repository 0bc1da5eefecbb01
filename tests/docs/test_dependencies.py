"""The list of dependencies, the page of reasons, the imports and the lock files agree."""

import ast
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import ROOT, own_files

PACKAGES = ("analytics", "app", "engine", "kitemq", "migrations", "protocol")
# Import names that come with a declared dependency and are part of its interface.
PART_OF = {
    "argon2": "argon2-cffi",
    "pydantic": "fastapi",
    "anyio": "starlette",
    "markdown_it": "markdown-it-py",
    "markupsafe": "jinja2",
    "joserfc": "authlib",
    "grpc": "grpcio",
    "google": "protobuf",
}
LOCKS = ("requirements.lock", "requirements-dev.lock", "requirements-demo.lock")
PIN = re.compile(r"^([a-z0-9_.-]+)==(\S+)", re.MULTILINE)
EXTRAS_OF_LOCK = {
    "requirements.lock": ["build", "avro"],
    "requirements-dev.lock": ["build", "avro", "test", "dev"],
    "requirements-demo.lock": ["build", "demo"],
}


def project(folder: Path = ROOT) -> Any:
    return tomllib.loads((folder / "pyproject.toml").read_text())["project"]


def names(requirements: list[str]) -> set[str]:
    found = {re.split(r"[^A-Za-z0-9_.-]", requirement)[0].lower() for requirement in requirements}
    return found - {"kitemq", "kitemq-server"}


def declared() -> set[str]:
    extras = project()["optional-dependencies"].values()
    return names(project()["dependencies"]).union(client(), *(names(extra) for extra in extras))


def client() -> set[str]:
    """What the SDK needs, which is a distribution of its own."""
    return names(project(ROOT / "kitemq")["dependencies"])


def imported(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.partition(".")[0])
    return found - set(sys.stdlib_module_names) - set(PACKAGES)


def test_every_dependency_has_its_reason_and_every_reason_its_dependency() -> None:
    page = (ROOT / "docs" / "dependencies.md").read_text().partition("## Carried along")[0]
    explained = set(re.findall(r"^\| ([a-z0-9_.-]+) \| .{10,} \|$", page, re.MULTILINE))
    assert explained == declared()


def test_the_packages_import_only_what_a_plain_installation_brings() -> None:
    plain = names(project()["dependencies"])
    extras = project()["optional-dependencies"]
    # What the reports import, nobody else does: they are an extra.
    reports = plain | names(extras["analytics"])
    # Loaded for an Avro body alone, with a remedy where it is missing.
    avro = plain | names(extras["avro"])
    for path in own_files():
        parts = path.relative_to(ROOT).parts
        if path.suffix != ".py" or parts[0] not in PACKAGES:
            continue
        allowed = {"analytics": reports, "kitemq": client()}.get(parts[0], plain)
        allowed = avro if path.name == "avro_container.py" else allowed
        for name in imported(path):
            assert PART_OF.get(name, name) in allowed, f"{path}: {name}"


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_file_pins_every_dependency_with_hashes_and_names_no_registry(lock: str) -> None:
    text = (ROOT / lock).read_text()
    assert "://" not in text
    assert "index-url" not in text
    blocks = re.split(r"\n(?=\S)", text.strip())
    assert all("--hash=sha256:" in block for block in blocks if not block.startswith("#"))
    pinned = {re.split(r"==|\[", block, maxsplit=1)[0] for block in blocks}
    extras = project()["optional-dependencies"]
    wanted = [names(extras[extra]) for extra in EXTRAS_OF_LOCK[lock]]
    assert names(project()["dependencies"]).union(client(), *wanted) <= pinned, "run make lock"


def test_the_lock_files_agree_where_they_pin_the_same_package() -> None:
    """Each is installed over the others, so a second version would undo the first."""
    pins: dict[str, set[tuple[str, ...]]] = {}
    for lock in LOCKS:
        found: dict[str, list[str]] = {}
        for name, version in PIN.findall((ROOT / lock).read_text()):
            found.setdefault(name, []).append(version)
        for name, versions in found.items():
            pins.setdefault(name, set()).add(tuple(sorted(versions)))
    assert not {name: versions for name, versions in pins.items() if len(versions) > 1}
