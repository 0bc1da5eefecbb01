"""What tests of traces have in common: a broker that traces, and its journeys as short texts."""

from collections.abc import Callable

import pytest

from engine.broker import Journey
from tests.engine.conftest import Engine

Tell = Callable[[str], list[str]]


def told(journey: Journey) -> list[str]:
    """Each stage as "name outcome", with its group, client and attempt where it has them."""
    lines = []
    for stage in journey.stages:
        words = [stage.name, stage.outcome, stage.group, stage.client if stage.group else ""]
        lines.append(" ".join(word for word in words if word))
        if stage.attempt:
            lines[-1] += f" {stage.attempt}"
    return lines


@pytest.fixture
def tell(engine: Engine) -> Tell:
    """The journey of a message as lines, by the broker that runs now."""

    def tell(message_id: str) -> list[str]:
        assert engine.broker is not None
        return told(engine.broker.traces.journey(message_id))

    return tell
