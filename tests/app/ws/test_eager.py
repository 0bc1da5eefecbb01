"""Coroutines that start at once, and become tasks only where they have to wait."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from app.ws import eager


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(main())


def test_work_without_a_wait_is_done_when_start_returns() -> None:
    steps: list[str] = []

    async def work() -> None:
        steps.append("worked")

    async def main() -> None:
        assert eager.start(work()) is None
        assert steps == ["worked"]

    run(main)


def test_an_error_before_the_first_wait_is_raised_by_start() -> None:
    async def work() -> None:
        raise ValueError("at once")

    async def main() -> None:
        with pytest.raises(ValueError, match="at once"):
            eager.start(work())

    run(main)


def test_work_that_waits_goes_on_as_a_task() -> None:
    async def main() -> None:
        result: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        steps: list[str] = []

        async def work() -> int:
            steps.append("began")
            first = await result
            await asyncio.sleep(0)
            try:
                await asyncio.wait_for(asyncio.sleep(60), 0.01)  # wants a current task
            except TimeoutError:
                steps.append("too late")
            return first + 1

        task = eager.start(work())
        assert task is not None
        assert steps == ["began"]
        result.set_result(41)
        assert await task == 42
        assert steps == ["began", "too late"]

    run(main)


@pytest.mark.parametrize("is_done_before", [False, True])
def test_an_error_of_what_is_awaited_reaches_the_work(is_done_before: bool) -> None:
    async def main() -> None:
        failing: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def work() -> str:
            try:
                await failing
            except ConnectionError:
                return "handled"
            return "missed"

        task = eager.start(work())
        assert task is not None
        if not is_done_before:
            await asyncio.sleep(0)
        failing.set_exception(ConnectionError())
        assert await task == "handled"

    run(main)


def test_a_cancelled_task_ends_the_work() -> None:
    async def main() -> None:
        steps: list[str] = []

        async def work() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                steps.append("cleaned up")

        task = eager.start(work())
        assert task is not None
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert steps == ["cleaned up"]

    run(main)
