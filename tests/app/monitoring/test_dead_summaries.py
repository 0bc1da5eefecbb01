"""Summaries of dead letters stay until something about them changes."""

import pytest

from app.engine_administration import EngineAdministration
from app.engine_messaging import EngineMessaging
from app.host import EngineHost
from app.monitoring.dead_summaries import DeadSummaries
from engine.broker import Broker, GroupConfig, Nack
from engine.clock import ManualClock
from engine.message import Message

pytestmark = pytest.mark.anyio


def kill(broker: Broker, *errors: str) -> None:
    """A dead letter of the group `g` for each error."""
    broker.send([Message("orders", b"{}", queue=0) for _ in errors])
    deliveries = broker.receive("g", {"orders": "*"}, count_max=32)
    nacks = [
        Nack(one.receipt, delay_level=-1, error=error)
        for one, error in zip(deliveries, errors, strict=True)
    ]
    broker.nack("g", nacks)


@pytest.fixture
def summaries(host: EngineHost, broker: Broker, clock: ManualClock) -> DeadSummaries:
    broker.create_group(GroupConfig("g", retry_max=0))
    kill(broker, "KeyError: 1", "KeyError: 2", "ValueError: 3")
    return DeadSummaries(EngineMessaging(host), EngineAdministration(host), clock.now_ms)


async def test_a_summary_is_read_once_while_nothing_changes(summaries: DeadSummaries) -> None:
    first = await summaries.of("g")
    assert first.tally.error_classes == {"KeyError": 2, "ValueError": 1}
    assert (first.arrived.steps[-1], first.arrived.open) == (3, 3)
    assert await summaries.of("g") is first


async def test_a_summary_is_read_anew_once_a_letter_comes_or_time_passes(
    summaries: DeadSummaries, broker: Broker, clock: ManualClock
) -> None:
    kill(broker, "OSError: 4")
    assert (await summaries.of("g")).tally.error_classes["OSError"] == 1
    clock.advance(25 * 3600)
    assert (await summaries.of("g")).arrived.open == 0


async def test_a_summary_is_read_anew_when_as_many_others_are_dismissed(
    summaries: DeadSummaries, broker: Broker
) -> None:
    letters = broker.dead_letters
    letters.dismiss("g", [range(1)], note="known", by="eva")
    assert (await summaries.of("g")).tally.error_classes == {"KeyError": 1, "ValueError": 1}
    letters.restore("g", [range(1)])
    letters.dismiss("g", [range(2, 3)], note="known", by="eva")
    assert (await summaries.of("g")).tally.error_classes == {"KeyError": 2}
