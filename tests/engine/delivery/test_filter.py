import pytest

from engine.delivery.filter import parse_filter
from engine.errors import Invalid


def test_a_star_or_nothing_lets_everything_through():
    assert parse_filter("*").is_all
    assert parse_filter("").is_all
    assert parse_filter("  *  ").is_all


def test_tags_are_joined_by_two_bars_and_trimmed():
    assert parse_filter(" a ||b|| ").tags == {"a", "b"}


@pytest.mark.parametrize("text", ["||", " || || ", "a" * 2049, "||".join(map(str, range(65)))])
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
