"""The sends of one turn: in order, apart where they are refused, and never for long."""

from types import SimpleNamespace
from typing import Any

import pytest

from app import send_batcher
from app.send_batcher import SendBatcher
from engine.message import Message
from tests.app.ws.test_send_runs import pulled
from tests.live import LiveServer

COUNT = 200


@pytest.fixture
def server(tmp_path: Any) -> Any:
    live = LiveServer(tmp_path / "data")
    live.start()
    yield live
    live.stop()


@pytest.mark.parametrize("turn_s", [0.0, 60.0])
def test_sends_are_answered_once_and_stored_in_order_whatever_is_refused(
    server: LiveServer, turn_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(send_batcher, "TURN_S", turn_s)
    answers: list[tuple[int, bool]] = []
    turns: list[int] = []

    def begin() -> None:
        host = server.app.services.host  # type: ignore[union-attr]
        loop = SimpleNamespace(call_soon=lambda *work: later(host.loop, work))
        batcher = SendBatcher(
            SimpleNamespace(loop=loop, turn_end=host.turn_end, broker=host.broker)
        )  # type: ignore[arg-type]
        for number in range(COUNT):
            body = b"" if number % 7 == 0 else b"%d" % number
            batcher.add(
                [Message("t", body, queue=0)],
                None,
                lambda _, error, number=number: answers.append((number, error is None)),
            )

    def later(loop: Any, work: Any) -> None:
        turns.append(len(answers))
        loop.call_soon(*work)

    server.call(begin)
    while len(answers) < COUNT:
        server.call(lambda: None)
    assert answers == [(number, number % 7 != 0) for number in range(COUNT)]
    assert len(turns) == 1 if turn_s else len(turns) > 30
    assert [each.body for each in pulled(server, "t")] == [b"%d" % n for n in range(COUNT) if n % 7]
