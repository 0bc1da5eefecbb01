"""`python -m tools.synchronous`: the SDK's client for threads, made from the one for asyncio code.

`kitemq/async_client.py` and `kitemq/async_api/` are written by hand. Their twins differ in a few
tokens, so that no operation is written twice. With `--check` nothing is written; the exit code is 1
where a twin is not what it would be made.
"""

import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SDK = ROOT / "kitemq"

NOTE = "# Made from {source} by `python -m tools.synchronous`: change that file.\n"
TOKENS = {
    "AsyncIterator": "Iterator",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "aclose": "close",
    "async_api": "api",
    "asyncio": "time",
}
TEXTS = {
    "from asyncio code": "from any thread",
    "for asyncio code": "for threads",
    "`async with`": "`with`",
}
DROPPED = ("async", "await")
ASYNC_CLASS = re.compile(r"\bAsync(?=[A-Z])")


def twins() -> Iterator[tuple[Path, Path]]:
    """Each file that is written by hand, and the one that is made from it."""
    yield SDK / "async_client.py", SDK / "client.py"
    for path in sorted((SDK / "async_api").glob("*.py")):
        if path.name != "__init__.py":
            yield path, SDK / "api" / path.name


def synchronous(source: str) -> str:
    """The text of a module without `async`, `await` and the names that go with them."""
    pieces: list[str] = []
    end = (1, 0)
    lines = source.splitlines(keepends=True)
    drops_space = False
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if not drops_space:
            pieces.append(_between(lines, end, token.start))
        drops_space = token.type == tokenize.NAME and token.string in DROPPED
        if not drops_space:
            pieces.append(_changed(token))
        end = token.end
    return "".join(pieces)


def _between(lines: list[str], start: tuple[int, int], end: tuple[int, int]) -> str:
    """The blanks between two tokens."""
    if start[0] == end[0]:
        return lines[start[0] - 1][start[1] : end[1]] if start[0] <= len(lines) else ""
    first = lines[start[0] - 1][start[1] :]
    return (
        first
        + "".join(lines[start[0] : end[0] - 1])
        + (lines[end[0] - 1][: end[1]] if end[0] <= len(lines) else "")
    )


def _changed(token: tokenize.TokenInfo) -> str:
    if token.type == tokenize.NAME:
        return TOKENS.get(token.string) or ASYNC_CLASS.sub("", token.string)
    if token.type in (tokenize.STRING, tokenize.COMMENT):
        text = ASYNC_CLASS.sub("", token.string)
        for word, other in TEXTS.items():
            text = text.replace(word, other)
        return text
    return token.string


def made(source: Path) -> str:
    """The twin of a file, linted and formatted as everything is."""
    text = NOTE.format(source=source.relative_to(ROOT).as_posix()) + synchronous(source.read_text())
    for command in (["check", "--fix-only", "--unsafe-fixes", "--quiet"], ["format"]):
        ran = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--stdin-filename", SDK / "api" / "x.py", "-"],
            input=text,
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
        )
        text = ran.stdout
    return text


def main() -> int:
    is_check = sys.argv[1:] == ["--check"]
    stale = [twin for source, twin in twins() if _differs(source, twin, writes=not is_check)]
    for twin in stale:
        print(f"{twin.relative_to(ROOT)} {'is stale' if is_check else 'is written'}")
    return 1 if is_check and stale else 0


def _differs(source: Path, twin: Path, *, writes: bool) -> bool:
    text = made(source)
    if twin.exists() and twin.read_text() == text:
        return False
    if writes:
        twin.write_text(text)
    return True


if __name__ == "__main__":
    sys.exit(main())
