"""Property names and blocks agree with the engine's, which the wire forms may not import."""

from engine.message import EVENT_MS as ENGINE_EVENT_MS
from engine.message import KEYS, RESERVED, RETRY_TOPIC, SHARDING_KEY, TAGS, UNIQ_KEY
from kitemq.protocol import properties


def test_the_reserved_names_are_the_engines() -> None:
    assert properties.RESERVED == RESERVED
    own = (
        properties.TAGS,
        properties.KEYS,
        properties.UNIQ_KEY,
        properties.SHARDING_KEY,
        properties.RETRY_TOPIC,
        properties.EVENT_MS,
    )
    assert own == (TAGS, KEYS, UNIQ_KEY, SHARDING_KEY, RETRY_TOPIC, ENGINE_EVENT_MS)


def test_a_block_is_names_and_values_and_damage_is_left_out() -> None:
    block = "a\x01b\x02TAGS\x01ä\x02\x01nameless\x02empty\x01\x02".encode()
    assert properties.split_properties(block) == {"a": "b", "TAGS": "ä"}
    assert properties.split_properties(b"") == {}
    assert properties.split_properties(b"\xff\x01\xfe\x02") == {"\ufffd": "\ufffd"}
