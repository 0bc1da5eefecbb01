"""Work that is done side by side."""

import asyncio
import inspect

import pytest

from app.cluster.verbs.part import AT_ONCE, BROKERS_NOTES, all_of
from engine.errors import Busy

pytestmark = pytest.mark.anyio


async def number(each: int) -> int:
    await asyncio.sleep(0)
    return each


async def refusal() -> int:
    raise Busy("no")


async def test_results_come_in_order_and_the_first_error_once_all_have_ended() -> None:
    assert await all_of(number(each) for each in range(AT_ONCE * 2)) == list(range(AT_ONCE * 2))
    ended = list[int]()

    async def late() -> int:
        await asyncio.sleep(0.01)
        ended.append(1)
        return 1

    with pytest.raises(Busy):
        await all_of([refusal(), late()])
    assert ended == [1]


async def test_what_has_not_begun_is_closed_where_the_caller_is_cancelled() -> None:
    begun = asyncio.Event()

    async def forever() -> int:
        begun.set()
        await asyncio.Event().wait()
        return 0

    coroutines = [forever() for _ in range(AT_ONCE * 2)]
    task = asyncio.create_task(all_of(coroutines))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert {inspect.getcoroutinestate(each) for each in coroutines} == {inspect.CORO_CLOSED}


def test_what_every_broker_notes_is_no_property_of_a_message() -> None:
    own = b"KEYS\x01k\x02X_CLUSTER\x01mine\x02"
    noted = b"MSG_REGION\x01DefaultRegion\x02" + own + b"TRACE_ON\x01true\x02CLUSTER\x01east"
    assert BROKERS_NOTES.sub(b"", noted) == own
