"""Records as the port encodes them for pulls, and as the client of clusters decodes them."""

import json
import random

import pytest

from app.remoting.records import REGION, record_of
from engine.host import pack_host
from engine.message import StoredMessage, join_properties
from protocol.remoting.loose_json import standard_json
from protocol.remoting.records import RecordError, decode_records

HOSTS = ("192.0.2.7:5000", "[2001:db8::1]:5000")


def stored(topic: str, born_host: str) -> StoredMessage:
    block = join_properties({"colour": "red", **REGION}).encode()
    return StoredMessage(
        topic, 3, 17, 4096, 0, b"body", block, 9, 0x1, 2, 1_000, born_host, 2_000, "", 77
    )  # fmt: skip


@pytest.mark.parametrize("topic", ["orders", "o" * 127, "o" * 128, "%RETRY%" + "g" * 240])
@pytest.mark.parametrize("born_host", HOSTS)
@pytest.mark.parametrize("store_host", HOSTS)
def test_a_record_is_read_as_it_was_written(topic: str, born_host: str, store_host: str) -> None:
    message = stored(topic, born_host)
    data = record_of(message, store_host)
    first, second = decode_records(data + data)
    assert first == second
    assert (first.topic, first.queue, first.offset, first.position) == (topic, 3, 17, 4096)
    assert (first.flag, first.sys_flag & 1, first.reconsume_times) == (9, 1, 1)
    assert (first.born_ms, first.stored_ms, first.prepared_position) == (1_000, 2_000, 77)
    assert (first.born_host, first.store_host) == (pack_host(born_host), pack_host(store_host))
    assert (first.body, first.properties) == (b"body", message.property_block)


def test_bytes_that_are_no_records_are_refused_whatever_they_are() -> None:
    data = record_of(stored("orders", HOSTS[0]), HOSTS[0])
    for end in range(1, len(data)):
        with pytest.raises(RecordError):
            decode_records(data[:end])
    chance = random.Random(46)
    for _ in range(2_000):
        mutated = bytearray(data)
        for _ in range(chance.randint(1, 4)):
            mutated[chance.randrange(len(mutated))] = chance.randrange(256)
        try:
            decode_records(bytes(mutated))
        except RecordError:
            continue


def test_keys_that_are_objects_or_numbers_become_text() -> None:
    queue = '{"brokerName":"a","queueId":0,"topic":"orders"}'
    body = '{"offsetTable":{%s:{"maxOffset":1},%s:{"maxOffset":2}},"addrs":{0:"x:1",1:"y:2"}}'
    document = json.loads(standard_json((body % (queue, queue.replace("0", "1"))).encode()))
    assert [json.loads(key)["queueId"] for key in document["offsetTable"]] == [0, 1]
    assert document["addrs"] == {"0": "x:1", "1": "y:2"}
    assert standard_json(b'{"a":[1,2],"b":{"c":3}}') == b'{"a":[1,2],"b":{"c":3}}'
