"""Finding messages by SDK and command line."""

import pytest

from kitemq import Client, Message
from tests.kitemq.test_cli import OK, REFUSED, documents, inside
from tests.live import LiveServer

pytestmark = pytest.mark.makers


@pytest.fixture
def filled(server: LiveServer) -> LiveServer:
    """450 messages of `orders`: more than two pages."""
    with Client(server.url) as client:
        client.messages.send(
            "orders",
            [
                Message(body=f"order {number}.", tag="paid" if number % 3 else "", keys="k")
                for number in range(450)
            ],
        )
    return server


@pytest.mark.capabilities("content_search")
def test_a_search_goes_on_over_its_pages(filled: LiveServer) -> None:
    with Client(filled.url) as client:
        assert len(list(client.messages.search("orders"))) == 450
        assert len(list(client.messages.search("orders", filter="paid"))) == 300
        assert len(list(client.messages.search("orders", limit=250))) == 250
        found = list(client.messages.search("orders", contains="order 44"))
        assert [each.body for each in found] == [
            "order 44.",
            *(f"order 44{n}." for n in range(10)),
        ]
        newest = list(client.messages.search("orders", order="newest", limit=203))
        assert [each.body for each in newest] == [f"order {n}." for n in range(449, 246, -1)]
        page = client.messages.search_page("orders", limit=5)
        assert (page.matched, page.total, len(page.items)) == (5, 450, 5)
        assert len(client.messages.find_by_key("orders", "k", limit=64, end_ms=1)) == 0


@pytest.mark.capabilities("content_search")
def test_one_text_finds_ids_keys_and_names(
    filled: LiveServer, capsys: pytest.CaptureFixture[str]
) -> None:
    with Client(filled.url) as client:
        (first,) = list(client.messages.search("orders", limit=1))
        found = client.messages.find_anything(first.message_id)
        assert [each.body for each in found.messages] == ["order 0."]
    code, out, _ = inside(filled, capsys, "search", "k")
    assert code == OK
    assert len(documents(out)[0]["messages"]) == 64
    code, out, err = inside(filled, capsys, "--table", "search", "orders")
    assert code == OK
    assert "topics (1): orders" in err


@pytest.mark.capabilities("content_search")
def test_the_command_lists_the_newest_first(
    filled: LiveServer, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("search", "--topic", "orders", "--order", "newest", "--limit", "2")
    code, out, err = inside(filled, capsys, *words)
    assert code == OK
    assert [each["body"] for each in documents(out)] == ["order 449.", "order 448."]
    assert "give a higher --limit, or an earlier --until" in err


@pytest.mark.capabilities("content_search")
def test_the_command_says_how_far_it_looked(
    filled: LiveServer, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = inside(filled, capsys, "search", "--topic", "orders", "--contains", "order 9")
    assert code == OK
    assert len(documents(out)) == 11
    assert "scanned 450 of 450, found 11" in err
    code, out, err = inside(filled, capsys, "search", "--topic", "orders", "--limit", "7")
    assert len(documents(out)) == 7
    assert "--limit" in err
    code, out, _ = inside(
        filled, capsys, "search", "--topic", "orders", "--key", "k", "--until", "1"
    )
    assert (code, out) == (OK, "")
    assert inside(filled, capsys, "search")[0] == REFUSED
