"""The SDK is a distribution of its own: one namespace, and only what a client needs."""

import ast
import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import kitemq
from kitemq.commands.output import Exit
from tests.live import LiveServer

ROOT = Path(__file__).parents[2]
SDK = ROOT / "kitemq"
HEAVY = {"httpx", "websockets", "asyncio", "ssl"}

IMPORT_ALL = """
import importlib, pkgutil, kitemq
for module in pkgutil.walk_packages(kitemq.__path__, "kitemq."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
for name in kitemq.__all__:
    getattr(kitemq, name)
"""
SEND_AND_CONSUME = """
import sys
from kitemq import Consumer, Producer
with Producer(sys.argv[1]) as producer:
    producer.send("orders", "order 1", tag="paid")
with Consumer("billing", "orders", sys.argv[1]) as consumer:
    message = consumer.receive(timeout_s=30)
    message.ack()
    print(message.tag, message.text)
"""


def project(path: Path) -> dict:
    return tomllib.loads((path / "pyproject.toml").read_text())["project"]


def required(names: list[str]) -> set[str]:
    """The distributions that these requirements bring along, by name."""
    waiting = [(Requirement(name), frozenset[str]()) for name in names]
    brought: set[str] = set()
    while waiting:
        requirement, extras = waiting.pop()
        needed = requirement.marker is None or any(
            requirement.marker.evaluate({"extra": extra}) for extra in (extras or {""})
        )
        if needed and requirement.name not in brought:
            brought.add(requirement.name)
            of = frozenset(requirement.extras)
            waiting += [
                (Requirement(text), of) for text in distribution(requirement.name).requires or []
            ]
    return brought


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The SDK's wheel, built from a copy so that nothing is left in the tree."""
    folder = tmp_path_factory.mktemp("wheel")
    leftovers = shutil.ignore_patterns("__pycache__", "build", "*.egg-info")
    shutil.copytree(SDK, folder / "source", ignore=leftovers)
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index",
         "--no-build-isolation", "--disable-pip-version-check", "--wheel-dir", folder,
         folder / "source"],
        check=True,
        timeout=120,
    )  # fmt: skip
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment that holds the wheel and what it declares, no more."""
    home = tmp_path_factory.mktemp("installed")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", home], check=True, timeout=60)
    python = home / "bin" / "python"
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps",
         "--no-index", "--disable-pip-version-check", wheel],
        check=True,
        timeout=120,
    )  # fmt: skip
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(home)}))
    for name in required(project(SDK)["dependencies"]):
        for file in distribution(name).files or []:
            top = packages / file.parts[0]
            if file.parts[0] != ".." and not top.exists():
                top.symlink_to(Path(distribution(name).locate_file(file.parts[0])))
    return python


def run(python: Path, *arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    hidden = ("PYTHONPATH", "KITEMQ_SERVER", "VIRTUAL_ENV")
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    return subprocess.run(
        [python, *map(str, arguments)],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_wheel_holds_one_namespace_with_every_module_of_it(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {name.partition("/")[0].removesuffix(".dist-info") for name in names} == {
        "kitemq",
        f"kitemq-{project(SDK)['version']}",
    }
    modules = {f"kitemq/{path.relative_to(SDK).as_posix()}" for path in SDK.rglob("*.py")}
    assert {name for name in names if name.endswith(".py")} == modules
    assert "kitemq/py.typed" in names
    assert any(name.endswith("/licenses/LICENSE") for name in names)


def test_an_installation_of_the_sdk_alone_imports_every_module(
    python: Path, tmp_path: Path
) -> None:
    ran = run(python, "-c", IMPORT_ALL, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    for name in ("app", "engine", "protocol", "fastapi", "sqlalchemy"):
        ran = run(python, "-c", f"import {name}", cwd=tmp_path)
        assert "ModuleNotFoundError" in ran.stderr, name


def test_an_installation_of_the_sdk_alone_sends_and_consumes(
    python: Path, server: LiveServer, tmp_path: Path
) -> None:
    ran = run(python, "-c", SEND_AND_CONSUME, server.url, cwd=tmp_path)
    assert (ran.stdout, ran.stderr) == ("paid order 1\n", "")
    command = python.with_name("kitemq")
    ran = run(command, "--server", server.url, "--json", "topics", "list", cwd=tmp_path)
    assert (ran.returncode, '"name":"orders"' in ran.stdout) == (Exit.OK, True), ran.stderr


@pytest.mark.parametrize("words", ["serve", "users list", "tokens list", "store verify ."])
def test_a_command_of_the_server_says_how_to_install_it(
    words: str, python: Path, tmp_path: Path
) -> None:
    ran = run(python.with_name("kitemq"), *words.split(), cwd=tmp_path)
    assert ran.returncode == Exit.FAILED
    assert "pip install kitemq-server" in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize("package", ["kitemq", "kitemq.model.topics", "kitemq.protocol.stream"])
def test_what_the_server_shares_loads_no_library_of_clients(package: str) -> None:
    loaded = f"import sys, {package}; print(*sorted({HEAVY!r} & set(sys.modules)))"
    ran = run(Path(sys.executable), "-c", loaded, cwd=ROOT)
    assert (ran.stdout.strip(), ran.stderr) == ("", "")


def test_every_public_name_is_imported_from_the_module_that_types_say() -> None:
    (typed,) = (
        node
        for node in ast.parse((SDK / "__init__.py").read_text()).body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    )
    imports = {
        alias.asname: node.module
        for node in typed.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert imports == kitemq.MODULES


def test_the_server_requires_the_sdk_of_its_own_version() -> None:
    server = project(ROOT)
    assert project(SDK)["version"] == server["version"]
    assert f"kitemq=={server['version']}" in server["dependencies"]
