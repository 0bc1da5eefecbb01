"""Style, script and pictures, held in memory and named by their content.

All `static/` folders together are a few hundred kilobytes; reading them once means that no request
opens a file. An address that carries the content's hash may be kept for ever by a browser.
The style that every page loads is written as one file for each idea and served as one, `app.css`.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from app.ui.framework.compression import LEVEL_ONCE, SIZE_BYTES_MIN, accepts_gzip, gzipped

ROOTS = sorted(Path(__file__).parent.parent.glob("*/static"))
STYLE = "app"  # the folder whose files are served as app.css, in this order: later rules win
STYLE_ORDER = (
    "tokens", "base", "frame", "parts", "buttons", "badges", "figures", "attention", "tables",
    "fields", "filters", "forms", "details", "bodies", "narrow", "cards",
)  # fmt: skip
MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".woff2": "font/woff2",
}
PACKED = frozenset({".css", ".js", ".svg", ".txt"})  # a typeface is compressed already
KEEP = "public, max-age=31536000, immutable"
ASK = "no-cache"


@dataclass(frozen=True)
class Asset:
    content: bytes
    media_type: str
    tag: str
    packed: bytes  # as gzip; empty where that saves nothing


class Assets:
    """Every file of the features' `static/` folders by its path below them."""

    def __init__(self) -> None:
        files = {
            path.relative_to(root).as_posix(): path.read_bytes()
            for root in ROOTS
            for path in sorted(root.rglob("*"))
            if path.suffix in MEDIA_TYPES
        }
        parts = [files.pop(f"{STYLE}/{part}.css") for part in STYLE_ORDER]
        files[f"{STYLE}.css"] = b"\n".join(parts)
        self._assets = {name: _asset(name, content) for name, content in files.items()}

    def url(self, name: str) -> str:
        """The address of an asset; KeyError for one that does not exist."""
        return f"/static/{name}?v={self._assets[name].tag}"

    def respond(self, request: Request) -> Response:
        """Answer GET /static/{name}."""
        asset = self._assets.get(request.path_params["name"])
        if asset is None:
            return PlainTextResponse("no such file\n", status_code=404)
        is_packed = bool(asset.packed) and accepts_gzip(request)
        is_named_by_version = request.path_params["name"].startswith("vendor/")
        is_kept = is_named_by_version or request.query_params.get("v") == asset.tag
        headers = {
            "ETag": f'"{asset.tag}{"-gzip" if is_packed else ""}"',
            "Cache-Control": KEEP if is_kept else ASK,
            "Vary": "Accept-Encoding",
        }
        if request.headers.get("if-none-match") == headers["ETag"]:
            return Response(status_code=304, headers=headers)
        if is_packed:
            headers["Content-Encoding"] = "gzip"
        content = asset.packed if is_packed else asset.content
        return Response(content, media_type=asset.media_type, headers=headers)


def _asset(name: str, content: bytes) -> Asset:
    suffix = Path(name).suffix
    is_packed = suffix in PACKED and len(content) >= SIZE_BYTES_MIN
    packed = gzipped(content, LEVEL_ONCE) if is_packed else b""
    tag = hashlib.sha256(content).hexdigest()[:16]
    return Asset(content, MEDIA_TYPES[suffix], tag, packed)
