"""Where the server is, and how long to wait before trying it again."""

import pytest

from kitemq.address import server_urls, socket_url, url_of
from kitemq.backoff import Backoff
from kitemq.errors import Busy, Invalid, NotFound, Refused, Rejected, rejected


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("", "http://127.0.0.1:8080"),
        ("broker:9000", "http://broker:9000"),
        ("http://broker", "http://broker:80"),
        ("https://broker/", "https://broker:443"),
        ("wss://broker:1", "https://broker:1"),
        ("http://[::1]:5", "http://[::1]:5"),
    ],
)
def test_an_address_is_understood(monkeypatch: pytest.MonkeyPatch, given: str, url: str) -> None:
    monkeypatch.delenv("KITEMQ_SERVER", raising=False)
    assert server_urls(given) == [url]


def test_the_variable_counts_where_nothing_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KITEMQ_SERVER", "elsewhere:1")
    assert server_urls() == ["http://elsewhere:1"]
    assert socket_url(server_urls()[0]) == "ws://elsewhere:1/ws/v1"
    assert socket_url("https://x:2") == "wss://x:2/ws/v1"


@pytest.mark.parametrize(
    "given", ["ftp://x", "http://", "http://x:port", "http://x/path", "http://x?q"]
)
def test_what_is_no_address_is_refused(given: str) -> None:
    with pytest.raises(Invalid) as refused:
        url_of(given)
    assert refused.value.field == "server"


def test_waits_double_up_to_the_limit_and_begin_again() -> None:
    backoff = Backoff(first_s=1.0, max_s=5.0)
    for whole in (1.0, 2.0, 4.0, 5.0, 5.0):
        assert whole / 2 <= backoff.next_s() <= whole
    backoff.reset()
    assert backoff.next_s() <= 1.0


@pytest.mark.parametrize(
    ("code", "retry_after_s", "kind"),
    [
        ("topic_not_found", 0.0, NotFound),
        ("conflict", 0.0, Refused),
        ("busy", 1.0, Busy),
        ("invalid_size", 0.0, Invalid),
        ("reserved_property", 0.0, Invalid),
        ("corrupt", 0.0, Rejected),
    ],
)
def test_a_refusal_becomes_the_error_that_says_what_to_do(
    code: str, retry_after_s: float, kind: type[Rejected]
) -> None:
    error = rejected(code, "why", retry_after_s=retry_after_s)
    assert type(error) is kind
    assert error.code == code


def test_several_addresses_are_parted_by_commas() -> None:
    assert server_urls("a:1, https://b") == ["http://a:1", "https://b:443"]


@pytest.mark.parametrize("given", ["a:1,", "a:1,,b:2", ",".join(["a:1"] * 9)])
def test_a_wrong_list_of_addresses_is_refused(given: str) -> None:
    with pytest.raises(Invalid) as refused:
        server_urls(given)
    assert refused.value.field == "server"
