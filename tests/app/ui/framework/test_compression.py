"""Pages and assets are gzip for browsers that take it; their first load is small."""

import gzip
import re
import secrets
from collections.abc import Iterator

import httpx
import pytest

from app.ui.framework.compression import gzipped
from tests.app.ui.conftest import Site

FIRST_LOAD_BYTES_MAX = 120_000


@pytest.fixture
def browser(site: Site) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=site.base, headers={"Accept": "text/html"}, timeout=30) as client:
        yield client


def raw(browser: httpx.Client, path: str, coding: str = "gzip") -> tuple[httpx.Response, bytes]:
    """An answer and its bytes as they came."""
    with browser.stream("GET", path, headers={"Accept-Encoding": coding}) as answer:
        return answer, b"".join(answer.iter_raw())


def test_what_is_compressed_comes_back_whole_with_any_padding() -> None:
    for content in (b"", b"kite" * 10_000):
        for padding_bytes in (0, 1, 256):
            packed = gzipped(content, 5, padding_bytes=padding_bytes)
            assert gzip.decompress(packed) == content
            assert len(packed) == len(gzipped(content, 5)) + padding_bytes


@pytest.mark.parametrize("page", ["/", "/messages?topic=orders", "/reports"])
def test_the_first_load_of_a_page_is_under_120_kb(browser: httpx.Client, page: str) -> None:
    answer, body = raw(browser, page)
    assert answer.headers["content-encoding"] == "gzip"
    html = gzip.decompress(body).decode()
    links = re.findall(r'(?:<link[^>]+|<script[^>]+)(?:href|src)="(/static/[^"]+)"', html)
    sizes = {link: len(raw(browser, link)[1]) for link in {*links, "/static/icons.svg"}}
    assert sum(link.endswith(".woff2") for link in sizes) == 2
    assert len(body) + sum(sizes.values()) < FIRST_LOAD_BYTES_MAX, (len(body), sizes)


def test_a_client_without_gzip_gets_the_text_as_it_is(browser: httpx.Client) -> None:
    for coding in ("identity", "br", "gzip;q=0"):
        for path in ("/", "/static/app.css"):
            answer, body = raw(browser, path, coding)
            assert "content-encoding" not in answer.headers
            assert body[:2] != b"\x1f\x8b"
            assert "Accept-Encoding" in answer.headers["vary"]


def test_a_page_of_the_same_content_varies_in_size(
    browser: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = []
    for padding_bytes in (0, 99):
        monkeypatch.setattr(secrets, "randbelow", lambda _, n=padding_bytes: n)
        sizes.append(len(raw(browser, "/help?q=no-such-word")[1]))
    assert sizes[1] - sizes[0] > 50


def test_a_typeface_is_kept_for_ever_and_a_style_by_its_content(browser: httpx.Client) -> None:
    face, body = raw(browser, "/static/vendor/inter-5.3.0-latin.woff2")
    assert (face.headers["content-type"], body[:4]) == ("font/woff2", b"wOF2")
    assert "immutable" in face.headers["cache-control"]
    style, _ = raw(browser, "/static/app.css")
    assert style.headers["cache-control"] == "no-cache"
    again = browser.get("/static/app.css", headers={"If-None-Match": style.headers["etag"]})
    assert again.status_code == 304
