"""Groups at the WebSocket endpoint: a connection is a member, a pause is waited out, broadcasts."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from engine.broker import GroupConfig, Mode, TopicConfig, TopicType
from engine.message import Message
from kitemq.protocol.batches import (
    AckFrame,
    DeliverFrame,
    ResultFrame,
    SubscribedFrame,
)
from kitemq.protocol.calls import AnswerFrame, CallFrame
from kitemq.protocol.frames import ErrorFrame, SubscribeFrame, UnsubscribeFrame
from kitemq.protocol.sends import SentFrame
from tests.app.ws.test_socket import Peer, meet, send_of, server, until
from tests.live import LiveServer

pytestmark = pytest.mark.makers

__all__ = ["meet", "server"]  # the fixtures
SUBSCRIBE = SubscribeFrame("g", {"t": "*"}, 10, 60_000)


def members(server: LiveServer) -> list[Any]:
    def read() -> list[Any]:
        return [*server.broker.members.of("g")] if server.broker.groups() else []

    return list(server.call(read))


def bodies(peer: Peer) -> list[bytes]:
    return list(peer.hear(DeliverFrame)[1].bodies)


@pytest.mark.capabilities("member_shares")
def test_a_subscription_makes_its_client_a_member_until_it_ends(
    server: LiveServer, meet: Callable[..., Peer]
) -> None:
    peer, other = meet("me"), meet("other")
    peer.ask(send_of(b"1"), SentFrame)
    peer.ask(SUBSCRIBE, SubscribedFrame)
    other.ask(SubscribeFrame("g", {"t": "x"}, 1, 60_000), SubscribedFrame)
    first, _ = members(server)
    assert (first.client, first.topics, first.is_connected) == ("me", {"t": "*"}, True)
    assert first.address.startswith("127.0.0.1:")
    assert server.call(lambda: server.broker.members.warning("g")) is not None
    peer.ask(UnsubscribeFrame(1), ResultFrame, request=2)
    assert [each.client for each in members(server)] == ["other"]
    other.socket.close()
    until(lambda: not members(server))


@pytest.mark.capabilities("member_shares")
def test_a_new_connection_of_a_client_keeps_it_a_member(
    server: LiveServer, meet: Callable[..., Peer]
) -> None:
    peer = meet("me")
    peer.ask(send_of(b"1"), SentFrame)
    peer.ask(SUBSCRIBE, SubscribedFrame)
    again = meet("me")
    again.ask(SUBSCRIBE, SubscribedFrame)
    assert peer.hear(ErrorFrame)[1].code == "connection_closed"
    assert [each.client for each in members(server)] == ["me"]


def test_a_subscription_waits_out_a_pause(server: LiveServer, meet: Callable[..., Peer]) -> None:
    peer = meet("me")
    peer.ask(send_of(b"1"), SentFrame)
    peer.ask(SUBSCRIBE, SubscribedFrame)
    assert bodies(peer) == [b"1"]
    server.call(lambda: server.broker.pause_group("g"))
    peer.ask(send_of(b"2"), SentFrame)
    assert peer.hears_nothing()
    server.call(lambda: server.broker.resume_group("g"))
    assert bodies(peer) == [b"2"]


def test_who_subscribes_during_a_pause_gets_all_at_its_end(
    server: LiveServer, meet: Callable[..., Peer]
) -> None:
    peer = meet("me")
    peer.ask(send_of(b"1"), SentFrame)
    server.call(lambda: server.broker.create_group(GroupConfig("g", consume_enabled=False)))
    peer.ask(SUBSCRIBE, SubscribedFrame)
    assert peer.hears_nothing()
    server.call(lambda: server.broker.resume_group("g"))
    assert bodies(peer) == [b"1"]


@pytest.mark.capabilities("group_policies")
def test_a_paused_topic_comes_when_it_is_resumed(
    server: LiveServer, meet: Callable[..., Peer]
) -> None:
    peer = meet("me")
    peer.ask(send_of(b"1"), SentFrame)
    server.call(lambda: server.broker.create_group(GroupConfig("g", paused_topics=("t",))))
    peer.ask(SUBSCRIBE, SubscribedFrame)
    assert peer.hears_nothing()
    server.call(lambda: server.broker.resume_group("g", "t"))
    assert bodies(peer) == [b"1"]


@pytest.mark.capabilities("group_policies")
def test_in_a_broadcast_every_subscriber_gets_everything(
    server: LiveServer, meet: Callable[..., Peer]
) -> None:
    server.call(lambda: server.broker.create_group(GroupConfig("g", mode=Mode.BROADCAST)))
    peer, other = meet("me"), meet("other")
    peer.ask(send_of(b"1"), SentFrame)
    for each in (peer, other):
        each.ask(SUBSCRIBE, SubscribedFrame)
    given = [each.hear(DeliverFrame)[1] for each in (peer, other)]
    assert [each.bodies for each in given] == [[b"1"], [b"1"]]
    for each, deliver in zip((peer, other), given, strict=True):
        assert each.ask(AckFrame("g", list(deliver.receipts)), ResultFrame, request=2).results == [
            0
        ]
    peer.ask(send_of(b"2"), SentFrame)
    assert (bodies(peer), bodies(other)) == ([b"2"], [b"2"])


@pytest.mark.capabilities("group_policies")
def test_a_broadcast_client_that_comes_back_is_told_what_it_holds(
    server: LiveServer, meet: Callable[..., Peer]
) -> None:
    server.call(lambda: server.broker.create_group(GroupConfig("g", mode=Mode.BROADCAST)))
    peer = meet("me")
    peer.ask(send_of(b"1"), SentFrame)
    peer.ask(SUBSCRIBE, SubscribedFrame)
    given = peer.hear(DeliverFrame)[1]
    again = meet("me")
    assert again.ask(SUBSCRIBE, SubscribedFrame).held == list(given.receipts)


@pytest.mark.parametrize("ordered", [True, False])
def test_an_ordered_group_gets_a_message_group_one_by_one_and_a_call_tells_which_it_is(
    server: LiveServer, meet: Callable[..., Peer], ordered: bool
) -> None:
    def prepare() -> None:
        broker = server.broker
        broker.create_topic(TopicConfig("t", TopicType.FIFO, read_queues=1, write_queues=1))
        broker.create_group(GroupConfig("g", ordered=ordered))
        broker.send([Message("t", body, message_group="m") for body in (b"1", b"2")])

    server.call(prepare)
    peer = meet("me")
    peer.ask(SUBSCRIBE, SubscribedFrame)
    given = peer.hear(DeliverFrame)[1]
    assert list(given.bodies) == ([b"1"] if ordered else [b"1", b"2"])
    if ordered:
        assert peer.hears_nothing()
        assert peer.ask(AckFrame("g", list(given.receipts)), ResultFrame, request=2).results == [0]
        assert bodies(peer) == [b"2"]
    answer = peer.ask(CallFrame("GET", "/api/v1/groups/g", "", b""), AnswerFrame, request=3)
    assert json.loads(answer.body)["ordered"] is ordered
