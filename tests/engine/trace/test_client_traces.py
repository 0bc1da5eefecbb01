"""Traces of official clients: RocketMQ's text format, all its versions, and what cannot be read."""

import zlib

import pytest

from engine.message import Message
from engine.topic.names import CLIENT_TRACE_TOPIC
from engine.trace.client_traces import ContextKind, parse

KEYED = ["1700000000000", "hz", "shop", "orders", "ID1", "blue", "k1 k2", "10.0.0.1:10911"]
PUB = ["Pub", *KEYED, "42", "7", "0"]


def text(*contexts):
    return "".join("\x01".join(fields) + "\x02" for fields in contexts).encode()


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        (PUB, {"is_success": True, "offset_id": "", "client": ""}),
        ([*PUB, "false"], {"is_success": False, "offset_id": ""}),
        ([*PUB, "OFF1", "false"], {"is_success": False, "offset_id": "OFF1", "client": ""}),
        ([*PUB, "OFF1", "true", "10.0.0.9"], {"is_success": True, "client": "10.0.0.9"}),
        ([*PUB, "OFF1", "true", "10.0.0.9", "new"], {"is_success": True, "client": "10.0.0.9"}),
    ],
)
def test_the_number_of_fields_decides_what_a_send_tells(fields, wanted):
    (trace,), bad = parse(text(fields))
    assert bad == 0
    assert {name: getattr(trace, name) for name in wanted} == wanted
    assert trace.kind is ContextKind.PUB
    assert (trace.at_ms, trace.group, trace.topic) == (1_700_000_000_000, "shop", "orders")
    assert (trace.message_id, trace.tags, trace.keys) == ("ID1", "blue", "k1 k2")
    assert (trace.store_host, trace.duration_ms) == ("10.0.0.1:10911", 7)


def test_each_kind_is_read():
    (before, after, old_after, end, recall), bad = parse(
        text(
            ["SubBefore", "1700000000500", "hz", "till", "R1", "ID1", "2", "k1"],
            ["SubAfter", "R1", "ID1", "30", "false", "k1", "2", "1700000000530", "till"],
            ["SubAfter", "R2", "ID1", "30", "true", "null"],
            ["EndTransaction", *KEYED, "2", "T1", "COMMIT_MESSAGE", "true"],
            ["Recall", *KEYED[:5], "false"],
        )
    )
    assert bad == 0
    assert (before.group, before.request_id, before.retry_times) == ("till", "R1", 2)
    assert (after.duration_ms, after.is_success, after.code) == (30, False, "EXCEPTION")
    assert (after.group, after.at_ms) == ("till", 1_700_000_000_530)
    assert (old_after.keys, old_after.code, old_after.at_ms) == ("", "", 0)
    assert (end.transaction_id, end.state, end.is_from_check) == ("T1", "COMMIT_MESSAGE", True)
    assert (recall.kind, recall.is_success, recall.group) == ("Recall", False, "shop")


@pytest.mark.parametrize(
    "bad",
    [
        ["What", "is", "this"],
        ["Pub", "1700000000000"],
        ["Pub", "soon", *PUB[2:]],
        ["Pub", "9" * 30, *PUB[2:]],
        ["SubBefore", "1700000000500", "hz", "till", "R1", "ID1", "many", "k1"],
    ],
)
def test_a_context_that_cannot_be_read_is_counted_and_the_others_are_read(bad):
    found, count = parse(text(PUB, bad, PUB))
    assert (len(found), count) == (2, 1)


def test_an_empty_text_and_bytes_that_are_no_text_tell_nothing():
    assert parse(b"") == ([], 0)
    assert parse(b"\xff\xfe\x02") == ([], 1)


def put(broker, body, **fields):
    broker.send([Message(CLIENT_TRACE_TOPIC, body, keys=("ID1", "k1"), **fields)])


def test_what_clients_tell_is_part_of_the_journey(engine, broker, tell):
    at_ms = engine.clock.now_ms()
    broker.send([Message("orders", b"x", queue=0, message_id="ID1")])
    put(broker, text([*PUB, "OFF1", "true", "10.0.0.9"]))
    put(
        broker,
        zlib.compress(
            text(
                ["SubBefore", str(at_ms + 500), "hz", "till", "R1", "ID1", "0", "k1"],
                ["SubAfter", "R1", "ID1", "30", "false", "k1", "4"],
                ["SubBefore", str(at_ms + 900), "hz", "till", "R2", "ID1", "1", "k1"],
                ["SubAfter", "R3", "ID1", "30", "true", "k1", "0", str(at_ms + 1030), "other"],
                ["SubBefore", str(at_ms + 1), "hz", "till", "R9", "ANOTHER", "1", "k1"],
            )
        ),
        sys_flag=1,
    )
    put(broker, text(["Pub", "garbage"]))
    assert tell("ID1") == [
        "produce stored",
        "store stored",
        "client_send success shop 10.0.0.9",
        "client_consume failed till 1",
        "client_consume unknown till 2",
        "client_consume success other 1",
    ]
    assert broker.traces.status().bad_contexts == 1
    stages = broker.traces.journey("ID1").stages
    assert (stages[3].until_ms - stages[3].at_ms, stages[3].detail) == (30, "FAILED")
    assert stages[4].until_ms is None
    assert stages[5].at_ms == at_ms + 1000
    assert broker.traces.journey("ID1").groups == [], "clients' words are no state of a group"


def test_a_message_that_only_clients_tell_of_has_a_journey(broker):
    put(broker, text([*PUB, "OFF1", "false"]))
    journey = broker.traces.journey("ID1")
    assert [(each.name, each.outcome) for each in journey.stages] == [("client_send", "failed")]
    assert journey.topic == "orders"


@pytest.mark.parametrize("flags", [1, 0x101])
def test_a_body_that_cannot_be_unpacked_counts_as_one(broker, flags):
    put(broker, text(PUB), sys_flag=flags)
    assert broker.traces.journey("ID1").stages == []
    assert broker.traces.status().bad_contexts == 1
