"""`make fuzz MINUTES=n`: every target in turn, guided by coverage (atheris, over libFuzzer).

    python -m tests.fuzz --minutes 10
    python -m tests.fuzz --target filters --minutes 1
    python -m tests.fuzz --target filters --input crash-1234      runs one input again

A target that fails leaves its input in the folder that is printed, and the exit status is 1. Inputs
that reached new code are kept in `tests/fuzz/corpus`, of each target the shortest, up to a limit.
"""

import argparse
import contextlib
import hashlib
import logging
import subprocess
import sys
import tempfile
from pathlib import Path

CORPUS = Path(__file__).parent / "corpus"
INPUT_BYTES_MAX = 4096
KEPT_BYTES_MAX = 60_000  # of one target
INPUT_S = 10  # longer than this for one input is a failure
MEMORY_MIB = 2048
OURS = ("app", "engine", "protocol")
FAILED = 1


def main() -> int:
    """Run what was asked for; the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz", description=__doc__, allow_abbrev=False
    )
    parser.add_argument("--minutes", type=float, default=10.0, help="for all targets together")
    parser.add_argument("--target", help="only this one")
    parser.add_argument("--input", type=Path, help="run this file alone, without a fuzzer")
    parser.add_argument("--guided", action="store_true", help=argparse.SUPPRESS)
    asked, options = parser.parse_known_args()
    logging.disable(logging.CRITICAL)  # damage is part of it
    if asked.guided:
        _fuzz(asked.target, options)
    from tests.fuzz.targets import TARGETS  # not before a child has its hooks in place

    if asked.input:
        TARGETS[asked.target](asked.input.read_bytes())
        return 0
    names = [asked.target] if asked.target else list(TARGETS)
    seconds = max(1, round(60 * asked.minutes / len(names)))
    folder = Path(tempfile.mkdtemp(prefix="kitemq-fuzz-"))
    failed = [name for name in names if not _run(name, seconds, folder)]
    if failed:
        sys.stdout.write(f"failed: {', '.join(failed)}; their inputs are in {folder}\n")
        return FAILED
    with contextlib.suppress(OSError):
        folder.rmdir()
    sys.stdout.write(f"{len(names)} targets, {seconds} s each, nothing found\n")
    return 0


def _run(name: str, seconds: int, folder: Path) -> bool:
    """One target in a process of its own, since libFuzzer ends the one it runs in."""
    from tests.fuzz.seeds import of_target

    with tempfile.TemporaryDirectory(prefix="kitemq-corpus-") as place:
        grown = Path(place)
        for number, data in enumerate(of_target(name)):
            (grown / f"seed-{number}").write_bytes(data)
        kept = CORPUS / name
        kept.mkdir(parents=True, exist_ok=True)
        options = [f"-max_total_time={seconds}", f"-artifact_prefix={folder}/{name}-"]
        is_fine = _child(name, [*options, str(grown), str(kept)]) == 0
        _keep(kept, grown)
    return is_fine


def _child(name: str, options: list[str]) -> int:
    limits = [f"-max_len={INPUT_BYTES_MAX}", f"-timeout={INPUT_S}", f"-rss_limit_mb={MEMORY_MIB}"]
    words = [sys.executable, "-m", "tests.fuzz", "--target", name, "--guided", *limits]
    done = subprocess.run([*words, *options], capture_output=True, text=True, check=False)
    lines = done.stderr.splitlines()
    shown = lines[-25:] if done.returncode else [each for each in lines if "DONE" in each][-1:]
    for line in shown:
        sys.stdout.write(f"{name}: {line.strip()}\n")
    sys.stdout.flush()
    return done.returncode


def _keep(kept: Path, grown: Path) -> None:
    """All inputs that reached something new, by their hash, the shortest first, up to the limit."""
    paths = (*kept.iterdir(), *grown.iterdir())
    inputs = sorted({path.read_bytes() for path in paths}, key=lambda data: (len(data), data))
    for path in kept.iterdir():
        path.unlink()
    size_bytes = 0
    for data in inputs:
        size_bytes += len(data)
        if size_bytes > KEPT_BYTES_MAX:
            return
        (kept / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)


def _fuzz(name: str, options: list[str]) -> None:
    """Hooks into our modules, then libFuzzer, which does not return."""
    import atheris

    with atheris.instrument_imports(include=list(OURS)):
        from tests.fuzz.targets import TARGETS
    atheris.Setup([sys.argv[0], *options], TARGETS[name])
    atheris.Fuzz()


if __name__ == "__main__":
    sys.exit(main())
