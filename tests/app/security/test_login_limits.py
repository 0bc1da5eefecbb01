"""Guessing passwords: it slows down by name and address, and nobody else is locked out by it."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from argon2 import PasswordHasher

from app.security import hash_queue, passwords
from app.security.accounts import NO_USER
from app.security.hash_queue import HashQueue
from app.security.login_limits import (
    FREE_FAILURES,
    NAME_CHARS_MAX,
    WAIT_MAX_S,
    FailureCounts,
    LoginLimits,
    network_of,
)
from app.security.passwords import Passwords
from engine.errors import Busy
from tests.app.conftest import URL, App, Starter
from tests.app.security.test_access import PASSWORD, log_in, with_admin

ATTACKER, HOME, ELSEWHERE = "203.0.113.66", "198.51.100.7", "192.0.2.8"
WRONG = "wrong password"


@pytest.fixture(autouse=True)
def _hashes_are_cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """As slow as they must be elsewhere, hundreds of them take minutes."""
    cheap = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
    monkeypatch.setattr(passwords, "_hasher", lambda: cheap)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def guarded(running: App) -> App:
    await with_admin(running)
    for name in ("vera", "otto", "bob"):
        await running.post("/users", {"name": name, "password": PASSWORD, "role": "viewer"}, 201)
    return running


@asynccontextmanager
async def from_address(app: App, address: str) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app.app, client=(address, 40_000))
    async with httpx.AsyncClient(transport=transport, base_url=URL) as http:
        yield http


async def guess(app: App, address: str, name: str, password: str = WRONG) -> int:
    async with from_address(app, address) as http:
        return (await log_in(http, name, password)).status_code


@pytest.mark.anyio
async def test_wrong_passwords_of_one_name_lock_out_no_other_user_of_the_address(
    guarded: App,
) -> None:
    for __ in range(120):
        await guess(guarded, ATTACKER, "vera")
    assert await guess(guarded, ATTACKER, "vera", PASSWORD) == 429
    for name in ("otto", "bob", "ann"):
        assert await guess(guarded, ATTACKER, name, PASSWORD) == 303


@pytest.mark.anyio
async def test_names_that_nobody_has_lock_out_no_user_of_the_address(guarded: App) -> None:
    for number in range(120):
        assert await guess(guarded, ATTACKER, f"nobody-{number}") == 401
    assert await guess(guarded, ATTACKER, "vera", PASSWORD) == 303


@pytest.mark.anyio
async def test_guesses_sent_in_parallel_count_before_they_are_verified(guarded: App) -> None:
    statuses = await asyncio.gather(*(guess(guarded, ATTACKER, "vera") for __ in range(32)))
    assert sorted(statuses) == [401] * FREE_FAILURES + [429] * (32 - FREE_FAILURES)


@pytest.mark.anyio
async def test_a_name_guessed_from_everywhere_keeps_working_where_its_user_is_known(
    guarded: App,
) -> None:
    assert await guess(guarded, HOME, "vera", PASSWORD) == 303
    for number in range(40):
        await guess(guarded, f"203.0.113.{number}", "vera")
    assert await guess(guarded, ELSEWHERE, "vera", PASSWORD) == 429
    assert await guess(guarded, HOME, "vera", PASSWORD) == 303


@pytest.mark.anyio
async def test_a_usual_address_is_known_by_its_session_after_a_restart(start: Starter) -> None:
    async with start(admin_name="vera", admin_password=PASSWORD) as app:
        assert await guess(app, HOME, "vera", PASSWORD) == 303
    async with start() as app:
        for number in range(40):
            await guess(app, f"203.0.113.{number}", "vera")
        assert await guess(app, ELSEWHERE, "vera", PASSWORD) == 429
        assert await guess(app, HOME, "vera", PASSWORD) == 303


@pytest.mark.anyio
async def test_a_user_guessed_at_from_everywhere_waits_a_minute_at_most(guarded: App) -> None:
    for number in range(300):
        await guess(guarded, f"203.0.113.{number % 250}", "vera")
    guarded.clock.advance(WAIT_MAX_S)
    assert await guess(guarded, ELSEWHERE, "vera", PASSWORD) == 303


@pytest.mark.anyio
async def test_the_neighbours_in_an_ipv6_network_count_as_one(guarded: App) -> None:
    for number in range(FREE_FAILURES):
        assert await guess(guarded, f"2001:db8::{number:x}", "vera") == 401
    assert await guess(guarded, "2001:db8::ffff", "vera") == 429


@pytest.mark.anyio
async def test_clients_behind_a_trusted_proxy_are_counted_apart(start: Starter) -> None:
    trusted = {"admin_password": PASSWORD, "trusted_proxies": ("10.0.0.1",)}
    async with start(**trusted) as app, from_address(app, "10.0.0.1") as http:
        http.headers["x-forwarded-for"] = HOME
        assert (await log_in(http, "admin")).status_code == 303
        http.headers["x-forwarded-for"] = ATTACKER
        for __ in range(FREE_FAILURES):
            assert (await log_in(http, "admin", WRONG)).status_code == 401
        assert (await log_in(http, "admin")).status_code == 429
        http.headers["x-forwarded-for"] = HOME
        assert (await log_in(http, "admin")).status_code == 303


@pytest.mark.anyio
async def test_a_password_typed_as_a_name_does_not_stand_in_the_trail(guarded: App) -> None:
    secret = "Correct-Horse-77"
    for typed in (secret, secret.lower(), f" {secret} ", "x" * 200, "\x00"):
        assert await guess(guarded, ATTACKER, typed) == 401
    items = (await guarded.get("/audit"))["items"]
    assert "correct-horse-77" not in json.dumps(items).lower()
    failed = [item for item in items if item["result"] == "login_failed"]
    assert [item["object_name"] for item in failed] == [NO_USER]
    assert json.loads(failed[0]["after_json"])["count"] == 5


@pytest.mark.anyio
async def test_a_wrong_old_password_slows_down_only_who_gives_it(guarded: App) -> None:
    body = {"old": WRONG, "new": "battery staple"}
    for __ in range(FREE_FAILURES):
        await guarded.post("/me/password", body, 401)
    await guarded.post("/me/password", body, 429)
    assert await guess(guarded, HOME, "ann", PASSWORD) == 303


@pytest.mark.anyio
async def test_a_guess_that_found_no_turn_does_not_count(
    guarded: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as full:
        full.setattr(Passwords, "matches", _is_busy)
        for __ in range(FREE_FAILURES + 5):
            assert await guess(guarded, HOME, "vera", PASSWORD) == 503
    assert await guess(guarded, HOME, "vera", PASSWORD) == 303


async def _is_busy(*_: Any, **__: Any) -> bool:
    raise Busy("too many")


def test_what_is_remembered_of_guesses_is_bounded() -> None:
    limits = LoginLimits(keys_max=10)
    for number in range(500):
        for is_user in (True, False):
            made = limits.attempt(f"{number}" * 100, f"10.0.0.{number % 250}", is_user=is_user)
            limits.count(made, 0.0)
            assert len(made.name) <= NAME_CHARS_MAX
            limits.succeeded(limits.attempt(f"u{number}", HOME, is_user=True))
    assert len(limits) <= 50


def test_made_up_names_never_push_out_the_count_of_a_user() -> None:
    limits = LoginLimits(keys_max=10)
    vera = limits.attempt("vera", ATTACKER, is_user=True)
    for __ in range(FREE_FAILURES):
        limits.count(vera, 0.0)
    for number in range(100):
        limits.count(limits.attempt(f"nobody-{number}", ATTACKER, is_user=False), 0.0)
    assert limits.wait_s(vera, 0.0) > 0


def test_a_failure_that_is_forgiven_leaves_no_wait() -> None:
    attempts = FailureCounts()
    for __ in range(FREE_FAILURES):
        attempts.failed("a", 0.0)
    attempts.forgive("a")
    assert attempts.wait_s("a", 0.0) == 0.0
    attempts.forgive("unknown")


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("10.1.2.3", "10.1.2.3"),
        ("::ffff:10.1.2.3", "10.1.2.3"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("[2001:db8::1]", "2001:db8::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
        ("no address", "no address"),
    ],
)
def test_a_sender_is_an_ipv4_address_or_an_ipv6_network(address: str, network: str) -> None:
    assert network_of(address) == network


# -- hashing ------------------------------------------------------------------------------------


async def in_line(queue: HashQueue, address: str, *, goes_first: bool = False) -> Any:
    """A task that waits for a turn and holds it until it is cancelled."""

    async def hold() -> None:
        async with queue.turn(address, goes_first=goes_first):
            await asyncio.Event().wait()

    task = asyncio.create_task(hold())
    await asyncio.sleep(0)
    return task


@pytest.mark.anyio
async def test_one_address_has_only_a_share_of_the_places_to_wait_for_a_hash() -> None:
    queue = HashQueue(1)
    tasks = [await in_line(queue, ATTACKER) for __ in range(1 + hash_queue.ADDRESS_MAX)]
    with pytest.raises(Busy):
        async with queue.turn(ATTACKER, goes_first=False):
            pass
    tasks.append(await in_line(queue, HOME))
    assert queue.waiting == hash_queue.ADDRESS_MAX + 1
    await ended(tasks)
    assert queue.waiting == 0
    async with queue.turn(ATTACKER, goes_first=False):
        pass


@pytest.mark.anyio
async def test_all_places_to_wait_for_a_hash_are_bounded_and_those_to_go_first_apart() -> None:
    queue = HashQueue(1)
    count = 1 + hash_queue.OTHERS_MAX
    tasks = [await in_line(queue, f"10.0.0.{number}") for number in range(count)]
    with pytest.raises(Busy):
        async with queue.turn(HOME, goes_first=False):
            pass
    first = await in_line(queue, HOME, goes_first=True)
    assert queue.waiting == hash_queue.OTHERS_MAX + 1
    tasks[0].cancel()
    await asyncio.sleep(0.01)
    assert queue.waiting == hash_queue.OTHERS_MAX  # the one that goes first has the turn
    await ended([*tasks, first])


async def ended(tasks: list[Any]) -> None:
    for task in reversed(tasks):
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.anyio
async def test_made_up_names_take_no_turn_of_a_user(monkeypatch: pytest.MonkeyPatch) -> None:
    checking = Passwords()
    may_end = threading.Event()
    kept = await checking.hash(PASSWORD)
    real = passwords._matches

    def slow_for_nobody(password: str, against: str) -> bool:
        if against != kept:
            may_end.wait(30)
        return real(password, against)

    monkeypatch.setattr(passwords, "_matches", slow_for_nobody)
    made_up = [asyncio.create_task(checking.matches("guess", "")) for __ in range(200)]
    await asyncio.sleep(0)
    assert await checking.matches(PASSWORD, kept, address=ATTACKER)
    may_end.set()
    assert not any(await asyncio.gather(*made_up))
    checking.close()
