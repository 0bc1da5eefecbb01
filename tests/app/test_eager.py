"""Coroutines that begin in the caller's turn of the event loop."""

import asyncio
import gc
from typing import Any

from app import eager
from app.host import EngineHost
from engine.config import EngineConfig
from engine.errors import Busy, EngineError


class _Calls(list[tuple[Any, EngineError | None]]):
    def done(self, result: object, error: EngineError | None) -> None:
        self.append((result, error))


async def _answer(value: int) -> int:
    return value


async def _wait_for(future: "asyncio.Future[int]") -> int:
    try:
        return await future
    except TimeoutError:
        return -1


async def _refuse() -> int:
    raise Busy("full")


async def _break() -> int:
    raise ZeroDivisionError


def test_a_coroutine_without_a_wait_answers_before_run_returns_and_makes_no_task():
    async def story() -> None:
        calls = _Calls()
        tasks = len(asyncio.all_tasks())
        eager.run(_answer(7), calls.done)
        assert calls == [(7, None)]
        assert len(asyncio.all_tasks()) == tasks

    asyncio.run(story())


def test_a_coroutine_that_waits_answers_later():
    async def story() -> None:
        calls = _Calls()
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        eager.run(_wait_for(future), calls.done)
        assert calls == []
        future.set_result(8)
        while not calls:
            await asyncio.sleep(0)
        assert calls == [(8, None)]

    asyncio.run(story())


def test_errors_reach_the_coroutine_that_waits():
    async def story() -> None:
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        rest = eager.begin(_wait_for(future))
        assert isinstance(rest, eager.Remainder)
        future.set_exception(TimeoutError())
        assert await rest == -1

    asyncio.run(story())


def test_an_error_of_the_engine_is_the_answer_and_any_other_is_kept_from_the_caller(caplog):
    async def story() -> None:
        calls = _Calls()
        eager.run(_refuse(), calls.done)
        eager.run(_break(), calls.done)
        assert [error.code for _, error in calls if error] == ["busy", "internal_error"]

    asyncio.run(story())
    assert "ZeroDivisionError" in caplog.text


def test_a_decorated_function_gives_its_result_or_what_is_left_of_it():
    @eager.eager
    async def answer(future: "asyncio.Future[int] | None") -> int:
        return 9 if future is None else await future

    async def story() -> None:
        assert answer(None) == 9
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        rest = answer(future)
        assert isinstance(rest, eager.Remainder)
        future.set_result(10)
        assert await rest == 10

    asyncio.run(story())


def test_a_wait_that_no_task_takes_up_gives_its_place_back(tmp_path):
    """A connection can end after a verb began to wait and before its task runs."""

    class _Place:
        is_cancelled = False

        def cancel(self) -> None:
            self.is_cancelled = True

    async def story() -> None:
        host = EngineHost(EngineConfig(data=tmp_path))
        place = _Place()
        rest = eager.begin(host.wait(lambda wake: place, 60.0))
        assert isinstance(rest, eager.Remainder)
        assert host.waiting_count == 1
        del rest
        gc.collect()
        assert place.is_cancelled
        assert host.waiting_count == 0

    asyncio.run(story())


def test_a_task_that_is_cancelled_before_its_first_step_lets_the_coroutine_clean_up():
    events: list[str] = []

    async def work() -> None:
        try:
            await asyncio.sleep(0)
            events.append("went on")
        finally:
            events.append("cleaned up")

    async def main() -> None:
        rest = eager.begin(work())
        assert isinstance(rest, eager.Remainder)
        task = asyncio.get_running_loop().create_task(rest)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled()
        assert events == ["cleaned up"]

    asyncio.run(main())


def test_what_is_left_waits_where_it_stopped():
    turns: list[str] = []

    async def work() -> str:
        await asyncio.sleep(0)
        turns.append("work")
        return "done"

    async def main() -> None:
        rest = eager.begin(work())
        assert isinstance(rest, eager.Remainder)
        asyncio.get_running_loop().call_soon(turns.append, "another")
        assert await rest == "done"
        assert turns == ["another", "work"]

    asyncio.run(main())
