"""Frames between Apache's own clients and broker, repeated to KiteMQ: it answers as Apache does.

`tests/remoting/golden/record.py` made the frames; `golden/tables.py` says what may differ, and why.
"""

import asyncio
from collections import defaultdict
from pathlib import Path

import pytest

from app.remoting.operations import OFFERED
from protocol.remoting.codes import RequestCode as R
from tests.grpc.test_endpoint import PASSWORD, key_for
from tests.remoting.golden.comparison import Difference
from tests.remoting.golden.events import commands, read
from tests.remoting.golden.replay import Exchange, Replay
from tests.remoting.golden.substitutions import KeyPair
from tests.remoting.golden.tables import DELIBERATE, FREE, allowing
from tests.remoting.port import opened

GOLDEN = Path(__file__).parent / "golden"
FRAMES, USERS = GOLDEN / "frames.jsonl", GOLDEN / "users.jsonl"
BYTES_MAX = 400_000
ORIGIN, EVENTS = read(FRAMES)
ORIGIN_OF_USERS, EVENTS_OF_USERS = read(USERS)
RECORDED_KEYS = KeyPair("boss", "tractor-7-lamp")
VERSIONS = {409: "4.9.8", 513: "5.5.0"}
CODES = sorted({each.code for each in commands([*EVENTS, *EVENTS_OF_USERS]) if not each.is_answer})
FROM_BROKER = {
    R.CHECK_TRANSACTION_STATE,
    R.NOTIFY_CONSUMER_IDS_CHANGED,
    R.RESET_CONSUMER_CLIENT_OFFSET,
    R.GET_CONSUMER_STATUS_FROM_CLIENT,
    R.GET_CONSUMER_RUNNING_INFO,
    R.CONSUME_MESSAGE_DIRECTLY,
    R.PUSH_REPLY_MESSAGE_TO_CLIENT,
}
# Offered, but not recorded.
NOT_RECORDED = {
    R.RESUME_CHECK_HALF_MESSAGE: "no command of mqadmin sends it",
    R.GET_ALL_MESSAGE_REQUEST_MODE: "only proxies ask for it",
    R.PEEK_MESSAGE: "no client of RocketMQ sends it",
    R.REGISTER_BROKER: "brokers send it; tests/rocketmq/test_slave.py lets one register",
    R.GET_SUBSCRIPTIONGROUP_CONFIG: "the tools take a group from the table of all groups",
}
# Both versions of the client write these in ways of their own.
OF_BOTH = {
    R.SEND_MESSAGE_V2,
    R.SEND_BATCH_MESSAGE,
    R.PULL_MESSAGE,
    R.HEART_BEAT,
    R.END_TRANSACTION,
    R.CHECK_TRANSACTION_STATE,
    R.LOCK_BATCH_MQ,
}


async def _replay(data: Path) -> list[Exchange]:
    start_ms = ORIGIN["start_ms"]
    settings = {
        "remoting_advertised": ORIGIN["address"],
        "default_queues": 4,
        "transaction_timeout_s": 2,
        "transaction_check_interval_s": 2,
    }
    async with opened(data, **settings) as running:
        running.clock.advance(start_ms / 1000 - 1 - running.clock.now_ms() / 1000)
        replay = Replay(running, start_ms)
        await replay.run(EVENTS)
        return replay.exchanges


async def _replay_users(data: Path) -> list[Exchange]:
    start_ms = ORIGIN_OF_USERS["start_ms"]
    settings = {
        "remoting_advertised": ORIGIN_OF_USERS["address"],
        "admin_name": RECORDED_KEYS.access_key,
        "admin_password": PASSWORD,
    }
    async with opened(data, **settings) as running:
        made = await key_for(running, "admin", name=RECORDED_KEYS.access_key)
        keys = (RECORDED_KEYS, KeyPair(made["access_key"], made["secret_key"]))
        running.clock.advance(start_ms / 1000 - 1 - running.clock.now_ms() / 1000)
        replay = Replay(running, start_ms, keys)
        await replay.run(EVENTS_OF_USERS)
        return replay.exchanges


@pytest.fixture(scope="module")
def exchanges(tmp_path_factory: pytest.TempPathFactory) -> list[Exchange]:
    folder = tmp_path_factory.mktemp("golden")
    without = asyncio.run(_replay(folder / "data"))
    return without + asyncio.run(_replay_users(folder / "users"))


@pytest.fixture(scope="module")
def by_code(exchanges: list[Exchange]) -> dict[int, list[Exchange]]:
    found = defaultdict(list)
    for exchange in exchanges:
        found[exchange.code].append(exchange)
    return found


@pytest.mark.parametrize("code", CODES)
def test_frames_of_a_code_are_as_those_of_apache(
    by_code: dict[int, list[Exchange]], code: int
) -> None:
    failures = [
        difference
        for exchange in by_code[code]
        for difference in exchange.differences
        if allowing(difference) is None
    ]
    assert not failures, "\n".join(map(_text, failures))


def test_no_row_of_the_tables_is_without_use(exchanges: list[Exchange]) -> None:
    used = {allowing(difference) for exchange in exchanges for difference in exchange.differences}
    unused = [each for each in (*FREE, *DELIBERATE) if each not in used]
    assert not unused, "\n".join(map(str, unused))


def test_the_recording_has_all_it_should_have() -> None:
    assert FRAMES.stat().st_size + USERS.stat().st_size < BYTES_MAX
    requests = [command for command in commands(EVENTS) if not command.is_answer]
    assert {int(code) for code in FROM_BROKER} <= {each.code for each in requests}
    for version in VERSIONS:
        found = {each.code for each in requests if each.version == version}
        assert {int(code) for code in OF_BOTH - FROM_BROKER} <= found, VERSIONS[version]
    assert any(each.is_binary for each in requests)


def test_each_offered_code_is_recorded_or_has_a_reason() -> None:
    assert set(OFFERED) - set(CODES) == set(NOT_RECORDED)


def _text(difference: Difference) -> str:
    return (
        f"{difference.code} {difference.path}: Apache {str(difference.apache)[:200]!r}, "
        f"KiteMQ {str(difference.kitemq)[:200]!r}"
    )
