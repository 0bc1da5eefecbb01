"""A message's options stand once, and none is left out on the way to the server."""

import re
from pathlib import Path
from typing import get_type_hints

import msgspec
import pytest

from kitemq.client import Client
from kitemq.commands.produce import ProduceOptions, message_options, produce
from kitemq.errors import Invalid
from kitemq.message import (
    OPTIONS,
    Message,
    MessageOptions,
    entry_of,
    new_message,
    send_frame,
)
from kitemq.model.produce import NewMessage
from kitemq.producer import Producer
from kitemq.transaction_producer import TransactionProducer
from kitemq.transactions import TransactionState
from tests.live import LiveServer

DOCS = Path(__file__).parents[2] / "docs"
CLOCK = "time.time_ns"
# Another value of every option than the one that it has by default.
GIVEN = {
    "tag": "paid",
    "keys": ["a", "b"],
    "properties": {"color": "red"},
    "message_group": "m",
    "delay_level": 3,
    "event_ms": 1_000,
    "delay_ms": 2_000,
    "deliver_at_ms": 3_000,
}


def test_the_options_of_a_call_are_those_of_a_message() -> None:
    hints = get_type_hints(Message)
    assert hints.pop("body") == bytes | str
    assert get_type_hints(MessageOptions) == hints
    assert list(OPTIONS) == list(hints)
    assert set(GIVEN) == set(OPTIONS)


@pytest.mark.parametrize("name", OPTIONS)
def test_an_option_reaches_the_frame_of_the_socket(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CLOCK, lambda: 10**18)

    def frame(message: Message) -> bytes:
        entries = [entry_of(message)]
        return send_frame(
            "t", entries, durability=None, queue=-1, id_prefix="", id_first=0
        ).payload()

    assert frame(Message(body="x", **{name: GIVEN[name]})) != frame(Message(body="x"))


@pytest.mark.parametrize("name", OPTIONS)
def test_an_option_reaches_the_document_of_rest(name: str) -> None:
    message = new_message(Message(body="x", **{name: GIVEN[name]}))
    document = msgspec.json.decode(msgspec.json.encode(message))
    assert {"encoding": "utf-8", **document} == {
        "body": "x",
        "encoding": "utf-8",
        name: GIVEN[name],
    }
    assert name in NewMessage.__struct_fields__


def test_the_command_line_takes_every_option() -> None:
    words = [
        "t", "--tag", "paid", "--key", "a", "--key", "b", "--property", "color=red", "--group", "m",
        "--delay-level", "3", "--event-at", "1000", "--delay", "2s", "--deliver-at", "3000",
    ]  # fmt: skip
    values = produce.make_context("produce", words).params
    options = ProduceOptions(server="", **values)
    given = message_options(options)
    assert {**given, "keys": list(given["keys"])} == GIVEN


@pytest.mark.parametrize("name", OPTIONS)
def test_an_option_stands_in_the_page_of_the_sdk(name: str) -> None:
    page = (DOCS / "sdk.md").read_text()
    assert re.search(rf"^\|[^|]*`{name}`", page, re.MULTILINE)


def test_a_body_that_is_no_text_is_base64_in_a_document() -> None:
    assert msgspec.to_builtins(new_message(Message(body=b"\xff"))) == {
        "body": "/w==",
        "encoding": "base64",
    }


@pytest.mark.parametrize("write", [entry_of, new_message])
@pytest.mark.parametrize(
    ("options", "field"),
    [({"keys": ["a b"]}, "keys"), ({"keys": [""]}, "keys"),
     ({"properties": {"a": 1}}, "properties.a"), ({"body": 1}, "body")],
)  # fmt: skip
def test_what_cannot_be_written_names_its_field(write, options: dict, field: str) -> None:
    with pytest.raises(Invalid) as raised:
        write(Message(**{"body": "x", **options}))
    assert raised.value.field == field


def test_every_way_to_send_takes_the_options(server: LiveServer) -> None:
    options: MessageOptions = {"tag": "paid", "keys": "k", "properties": {"a": "b"}, "event_ms": 5}
    with Producer(server.url) as producer:
        producer.send("t", "x", **options)
        producer.submit("t", "x", **options).result()
        producer.send_batch("t", [Message(body="x", **options)])
    with TransactionProducer("g", server.url) as transactions:
        assert transactions.begin("u", "x", **options).commit() is TransactionState.COMMITTED
    with Client(server.url) as client:
        stored = [*client.messages.find_by_key("t", "k"), *client.messages.find_by_key("u", "k")]
    assert len(stored) == 4
    for message in stored:
        assert message.tag == "paid"
        assert message.properties.items() >= {"a": "b", "KITE_EVENT_MS": "5"}.items()
