"""Pushes over verbs that wait, as those of an engine behind a network do."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from functools import wraps
from types import SimpleNamespace
from typing import Any

import pytest

from app import engine_messaging
from app.ws.limits import SocketLimits
from app.ws.push import Subscription
from engine.broker import Receipt
from kitemq.protocol.frames import SubscribeFrame
from tests.app.ws import test_socket as stories
from tests.app.ws.test_socket import Peer, meet, server
from tests.live import LiveServer

__all__ = ["meet", "server"]  # the fixtures

VERBS = (
    engine_messaging.EngineMessaging,
    engine_messaging.EngineMembers,
    engine_messaging.EngineTransactions,
)


def waiting(verb: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """The verb with a wait before and after it."""

    @wraps(verb)
    async def wait(*args: Any, **kwargs: Any) -> Any:
        await asyncio.sleep(0)
        answer = await verb(*args, **kwargs)
        await asyncio.sleep(0)
        return answer

    return wait


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> None:
    for owner in VERBS:
        for name, verb in inspect.getmembers(owner, inspect.iscoroutinefunction):
            monkeypatch.setattr(owner, name, waiting(verb))


@pytest.mark.usefixtures("waits")
@pytest.mark.parametrize(
    "story",
    [
        stories.test_a_push_delivers_while_there_is_credit,
        stories.test_an_arrival_wakes_a_push_that_waits,
        stories.test_every_way_to_settle_has_its_answer,
    ],
)
def test_stories_of_a_push_hold(story: Callable[..., None], meet: Callable[..., Peer]) -> None:
    story(meet)


@pytest.mark.usefixtures("waits")
def test_a_clean_goodbye_puts_back_what_was_held(
    server: LiveServer, meet: Callable[..., Peer]
) -> None:
    stories.test_a_clean_goodbye_puts_back_what_was_held(server, meet)


class _Messaging:
    """Answers a receive when the test says so."""

    def __init__(self) -> None:
        self.receives: list[asyncio.Future[list[Any]]] = []
        self.released: list[Receipt] = []

    async def receive_columns(self, *_args: object, **_options: object) -> list[Any]:
        self.receives.append(asyncio.get_running_loop().create_future())
        return await self.receives[-1]

    async def release(self, _group: str, receipts: list[Receipt]) -> list[Any]:
        self.released += receipts
        return []


def subscription(messaging: _Messaging) -> Subscription:
    pusher: Any = SimpleNamespace(
        client="c",
        has_push_room=True,
        check_push=lambda *_: None,
        call_soon=asyncio.get_running_loop().call_soon,
    )
    member: Any = SimpleNamespace(close=lambda: None)
    verbs: Any = messaging
    frame = SubscribeFrame("g", {"t": "*"}, 1, 60_000)
    return Subscription(verbs, pusher, SocketLimits(), 1, frame, is_text=False, member=member)


async def _let_run() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_a_push_that_ends_while_the_engine_answers_gives_the_messages_back() -> None:
    async def story() -> None:
        messaging = _Messaging()
        push = subscription(messaging)
        push.add_credit(1)
        await _let_run()
        push.close()
        receipt = Receipt("t", 0, 7, 1)
        messaging.receives[0].set_result([SimpleNamespace(receipt=receipt, message=None)])
        await _let_run()
        assert messaging.released == [receipt]

    asyncio.run(story())


def test_a_push_has_one_receive_under_way() -> None:
    async def story() -> None:
        messaging = _Messaging()
        push = subscription(messaging)
        for _ in range(3):
            push.add_credit(1)
            await _let_run()
        assert len(messaging.receives) == 1
        push.close()
        messaging.receives[0].set_result([])
        await _let_run()

    asyncio.run(story())
