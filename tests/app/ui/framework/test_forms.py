"""Forms of the console: small, taken apart in a bounded way, and never a failure of the server."""

from collections.abc import AsyncIterator
from urllib.parse import parse_qs, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.ui.framework import forms
from tests.app.conftest import App
from tests.app.security.test_access import FORM

NAMES = st.text(st.characters(codec="utf-8"), max_size=6)
VALUES = st.text(st.characters(codec="utf-8"), max_size=20)


@given(st.lists(st.tuples(NAMES, VALUES), max_size=20))
def test_a_form_is_read_as_browsers_write_it(pairs: list[tuple[str, str]]) -> None:
    body = urlencode(pairs).encode()
    library_values = parse_qs(body.decode(), keep_blank_values=True)
    form_values = forms._parsed(body)
    assert form_values == {
        name: [value.replace("\r\n", "\n") for value in values]
        for name, values in library_values.items()
    }


@pytest.mark.parametrize(
    ("body", "values"),
    [
        (b"", {}),
        (b"&&a", {"a": [""]}),
        (b"a=1=2&a=%", {"a": ["1=2", "%"]}),
        (b"a=%4", {"a": ["%4"]}),
        (b"a=%zz%41", {"a": ["%zzA"]}),
        (b"a=x%0D%0Ay", {"a": ["x\ny"]}),
        (b"a=" + b"%41" * 100_000, {"a": ["A" * 100_000]}),
        (b"a=" + b"%41b" * 100_000, {"a": ["Ab" * 100_000]}),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_odd_forms_are_read(body: bytes, values: dict[str, list[str]]) -> None:
    assert forms._parsed(body) == values


@pytest.mark.parametrize("body", [b"a=%ff", b"a=%ed%a0%80", b"a=\xc3\xa4", b"&" * 200])
def test_what_no_browser_sends_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"can't decode|escaped|too many"):
        forms._parsed(body)


async def in_parts(body: bytes) -> AsyncIterator[bytes]:
    """A body whose length nobody tells beforehand."""
    for start in range(0, len(body), 4096):
        yield body[start : start + 4096]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("path", "size_bytes"),
    [("/login", forms.LOGIN_BYTES_MAX), ("/topics", forms.FORM_BYTES_MAX)],
)
async def test_a_form_that_is_too_large_is_a_413_and_no_failure(
    running: App, path: str, size_bytes: int, caplog: pytest.LogCaptureFixture
) -> None:
    fits, too_large = b"name=" + b"a" * (size_bytes - 5), b"name=" + b"a" * size_bytes
    headers = FORM
    for content in (too_large, in_parts(too_large)):
        answer = await running.http.post(path, content=content, headers=headers)
        assert answer.status_code == 413, answer.text
        assert f"larger than {size_bytes} bytes" in answer.text
    for content in (fits, in_parts(fits)):
        answer = await running.http.post(path, content=content, headers=headers)
        assert answer.status_code in (303, 422)
    assert not caplog.records


@pytest.mark.anyio
async def test_a_large_message_and_a_large_file_still_fit_into_their_forms(running: App) -> None:
    await running.post("/topics", {"name": "orders"}, 201)
    form = {"body": "x" * 1_000_000, "delay_level": "0", "count": "1"}
    answer = await running.http.post("/topics/orders/produce", data=form, headers=FORM)
    assert answer.status_code == 303, answer.text
    names = "\n".join(f"topic-{number}" for number in range(2_000)) + "\n#" + "x" * 300_000
    answer = await running.http.post(
        "/import/topics", data={"content": names, "step": "look"}, headers=FORM
    )
    assert answer.status_code in (200, 422), answer.text[:300]


@pytest.mark.anyio
@pytest.mark.parametrize("is_htmx", [False, True])
@pytest.mark.parametrize(
    ("then", "location"),
    [
        ("/€", "/%E2%82%AC"),
        ("/topics?q=ü&x=1#y", "/topics?q=%C3%BC&x=1#y"),
        ("/a%20b", "/a%20b"),
        ("//evil.example", "/"),
        ("/x\r\ny: z", "/"),
        ("/\u202e", "/"),
    ],
)
async def test_a_login_leads_on_to_any_path(
    running: App, then: str, location: str, is_htmx: bool
) -> None:
    headers = {**FORM, **({"hx-request": "true"} if is_htmx else {})}
    form = {"name": "a", "password": "b", "next": then}
    answer = await running.http.post("/login", data=form, headers=headers)
    assert answer.status_code == (204 if is_htmx else 303), answer.text
    assert answer.headers["hx-redirect" if is_htmx else "location"] == location
    page = await running.http.get("/login", params={"next": then})
    assert page.status_code == 200


@pytest.mark.anyio
async def test_a_document_of_nothing_but_values_is_refused_before_it_is_decoded(
    running: App,
) -> None:
    headers = {"content-type": "application/json"}
    for inner in (b'{"body":"a"}', b"{}", b'"a"', b"[]"):
        body = b'{"messages":[' + b",".join([inner] * 110_000) + b"]}"
        path = "/api/v1/topics/t/messages"
        answer = await running.http.post(path, content=body, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (413, "too_many_values")


@pytest.mark.anyio
async def test_a_refusal_does_not_repeat_megabytes_that_were_sent(running: App) -> None:
    headers = {"content-type": "application/json"}
    body = b'{"' + b"a" * 1_000_000 + b'":1}'
    answer = await running.http.post("/api/v1/topics", content=body, headers=headers)
    assert answer.status_code == 422
    assert len(answer.content) < 8_000
