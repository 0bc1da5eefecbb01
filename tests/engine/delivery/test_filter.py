import pytest

from engine.delivery.filter import FILTER_BYTES_MAX, parse_filter
from engine.errors import Invalid
from engine.message import Message


def test_a_star_or_nothing_lets_everything_through():
    assert parse_filter("*").is_all
    assert parse_filter("").is_all
    assert parse_filter("  *  ").is_all


def test_tags_are_joined_by_two_bars_and_trimmed():
    assert parse_filter(" a ||b|| ").tags == {"a", "b"}


def test_a_message_with_a_star_for_its_tag_is_sent_and_received(broker, send):
    send("1", tag="*")
    send("2", tag="a")
    received = broker.receive("all", {"orders": "*"}, count_max=10)
    assert sorted(delivery.message.body for delivery in received) == [b"1", b"2"]
    (delivery,) = broker.receive("some", {"orders": "* || b"}, count_max=10)
    assert delivery.message.tag == "*"


def test_a_filter_names_the_longest_tag_that_a_message_may_have(broker, send):
    longest = "t" * FILTER_BYTES_MAX
    send("1", tag=longest)
    send("2", tag="a")
    (delivery,) = broker.receive("g", {"orders": longest}, count_max=10)
    assert delivery.message.body == b"1"


def test_the_filters_of_one_receive_are_bounded_together(broker, send):
    send("1", tag="a")
    many = {f"t{number}": "x" * FILTER_BYTES_MAX for number in range(17)}
    for name in many:
        broker.send([Message(name, b"x")])
    with pytest.raises(Invalid, match="262144 is the most") as refusal:
        broker.receive("g", many)
    assert refusal.value.field == "topics"
    broker.receive("g", dict(list(many.items())[:16]))


TOO_LONG = ["a" * (FILTER_BYTES_MAX + 1), "茶" * (FILTER_BYTES_MAX // 3 + 1)]


@pytest.mark.parametrize(
    "text", ["||", " || || ", *TOO_LONG, "||".join(map(str, range(65)))], ids=range(5)
)
def test_a_filter_without_tags_or_with_too_many_is_refused(text):
    with pytest.raises(Invalid) as refusal:
        parse_filter(text)
    assert refusal.value.field == "filter"


def test_tags_with_one_hash_are_told_apart_by_their_text(broker, send):
    """Item 21: "Aa" and "BB" both hash to 2112; a message without a tag matches no tag."""
    send("1", tag="Aa")
    send("2", tag="BB")
    send("3")
    match = parse_filter("Aa")
    assert match.codes == parse_filter("BB").codes == {2112}
    assert match.may_match(2112)
    assert not match.may_match(0)

    pulled = broker.pull("orders", 0, 0, filter="Aa")
    received = broker.receive("g", {"orders": "Aa"}, count_max=10)

    assert [message.body for message in pulled.messages] == [b"1"]
    assert [delivery.message.body for delivery in received] == [b"1"]


def test_what_the_filter_holds_back_counts_as_done(broker, send):
    send("1", "2", tag="a")
    send("3", tag="b")
    send("4", tag="a")
    (delivery,) = broker.receive("g", {"orders": "b"}, count_max=10)
    broker.ack("g", [delivery.receipt])
    assert broker.lag("g").count == 0
    assert broker.receive("g", {"orders": "*"}, count_max=10) == []


def test_a_receive_examines_a_bounded_number_of_entries(broker, send):
    for _ in range(3):
        send(*["x"] * 500, tag="a")
    send("last", tag="b")
    assert broker.receive("g", {"orders": "b"}) == []
    (left,) = [each for each in broker.lag("g").queues if each.max_offset == 1501]
    assert left.max_offset - left.cursor == 701
    (delivery,) = broker.receive("g", {"orders": "b"})
    assert delivery.message.body == b"last"
