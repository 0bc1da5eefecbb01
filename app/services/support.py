"""Packs a bounded support archive of a server, without secrets.

The caller gathers the parts; here each is cut to its limit, freed of every secret, listed in a
manifest that comes first, and packed off the event loop. A regular expression blocks all other
threads until it has searched its text, so it is given one line at a time.
"""

import io
import platform
import re
import sys
import threading
import traceback
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import metadata

import msgspec

PART_BYTES_MAX = 1_000_000
MANIFEST = "manifest.json"
GONE = "[redacted]"
SECRET_CHARS_MIN = 4  # shorter ones are no secrets, and would eat the text
HEADERS = r"(?:authorization|cookie)"
NAMES = r"(?:passw|secret|token|api[_-]?key|credential|signature)\w{0,20}"
# Text that looks like a secret: tokens, passwords in addresses, headers.
PATTERNS = (
    (re.compile(r"kite_[A-Za-z0-9_-]{8,}"), GONE),
    (re.compile(r"(://[^\s/:@]*:)[^\s/\"']+@"), rf"\1{GONE}@"),
    (re.compile(r"(https?://[^\s?#\"'<>]*\?)[^\s#\"'<>]+"), rf"\1{GONE}"),
    # A header's value ends with its line, or with the quotes around it.
    (re.compile(rf"(?i)({HEADERS}[ \t]*[:=][ \t]*)[^\s\"'][^\r\n\"']*"), rf"\1{GONE}"),
    (re.compile(rf"(?i)({HEADERS}\\*[\"']?[ \t]*[:=,][ \t]*b?\\*[\"'])[^\r\n\"']+"), rf"\1{GONE}"),
    (re.compile(rf"(?i)({NAMES}[ \t]*[:=][ \t]*)[^\s\"',;&)}}\]]+"), rf"\1{GONE}"),
    (re.compile(rf"(?i)({NAMES}\\*[\"']?[ \t]*[:=][ \t]*b?\\*([\"']))(?:(?!\2)[^\\\r\n]|\\.)+"),
     rf"\1{GONE}"),
    (re.compile(r"(?i)\b(bearer|basic) [A-Za-z0-9+/=._-]{8,}"), rf"\1 {GONE}"),
    (re.compile(r"\beyJ[\w-]{8,}\.[\w-]+\.[\w-]*"), GONE),  # tokens of a provider
    (re.compile(r"\$argon2[^\s\"']+"), GONE),
    (re.compile(r"(kitemq_session=)[^\s;,\"'>]+"), rf"\1{GONE}"),
    (re.compile(r"\b[0-9A-Fa-f]{40,}\b"), GONE),  # hashes, and keys made from them
)  # fmt: skip


@dataclass(frozen=True)
class Part:
    """A file of the archive; `newest_last` says which end is cut off where it is too long."""

    name: str
    what: str
    text: str
    newest_last: bool = False


class ManifestFile(msgspec.Struct, frozen=True):
    name: str
    what: str
    size_bytes: int
    cut_bytes: int  # of the text that there was and is not in the file


class Manifest(msgspec.Struct, frozen=True):
    """The archive's contents, and what it never contains."""

    made_at: str
    version: str
    environment: str
    files: list[ManifestFile]
    left_out: str = (
        "message bodies, keys and properties; users and their passwords, but for the setting "
        "admin_name; tokens, sessions, access keys; values of secret settings"
    )


def pack(
    parts: Iterable[Part], secrets: Iterable[str], *, made_at: str, version: str, environment: str
) -> bytes:
    """The archive; takes a while, so call it beside the loop. At most 1 MB of each part."""
    longest_first = sorted(
        (s for s in secrets if len(s) >= SECRET_CHARS_MIN), key=len, reverse=True
    )
    files: list[ManifestFile] = []
    ready: list[tuple[str, bytes]] = []
    for part in parts:
        whole = _without(part.text, longest_first).encode(errors="replace")
        # Cut at the end of a line, before the work: no secret goes on from one line to the next.
        chosen = _cut(whole, newest_last=part.newest_last)
        text = _cut(_lines_redacted(chosen), newest_last=part.newest_last)
        files.append(ManifestFile(part.name, part.what, len(text), len(whole) - len(chosen)))
        ready.append((part.name, text))
    manifest = Manifest(made_at, version, redacted(environment, longest_first), files)
    content = msgspec.json.format(msgspec.json.encode(manifest), indent=2)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in ((MANIFEST, content), *ready):
            archive.writestr(name, data)
    return buffer.getvalue()


def redacted(text: str, secrets: Iterable[str]) -> str:
    """`text` without the secrets, and without whatever looks like one."""
    text = _without(text, secrets)
    for pattern, instead in PATTERNS:
        text = pattern.sub(instead, text)
    return text


def _without(text: str, secrets: Iterable[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, GONE)
        escaped = msgspec.json.encode(secret).decode()[1:-1]
        text = text.replace(escaped, GONE)
    return text


def _lines_redacted(data: bytes) -> bytes:
    lines = data.decode(errors="replace").split("\n")
    return "\n".join(redacted(line, ()) for line in lines).encode(errors="replace")


def _cut(data: bytes, *, newest_last: bool) -> bytes:
    if len(data) <= PART_BYTES_MAX:
        return data
    if newest_last:
        content = data[-PART_BYTES_MAX:]
        return content[content.find(b"\n") + 1 :]
    content = data[:PART_BYTES_MAX]
    return content[: content.rfind(b"\n") + 1] or content.rpartition(b" ")[0]


def versions() -> dict[str, str]:
    """Python, the platform, and every installed distribution."""
    by_name = {"python": sys.version, "platform": platform.platform()}
    packages = {each.metadata["Name"]: each.version for each in metadata.distributions()}
    return by_name | dict(sorted(packages.items(), key=lambda pair: pair[0].lower()))


def stacks() -> str:
    """The current position of each thread: files and lines, no values."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    parts = []
    for ident, frame in sys._current_frames().items():
        where = "".join(traceback.format_stack(frame))
        parts.append(f"-- {names.get(ident, 'unknown')} ({ident})\n{where}")
    return "\n".join(parts)
