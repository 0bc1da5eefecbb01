"""Guessed passwords: a flood from one address, and users of that very address beside it."""

import http.client
import json
import threading
import time
from collections import Counter
from urllib.parse import urlencode

from tests.attack.attack import SOURCE, Attacker, withstand
from tests.attack.target import PASSWORD, Target

GUESSERS = 24
USER_EVERY_S = 2.0
LOGIN_TIMEOUT_S = 30.0


class Browser:
    """A connection from the attacker's address."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._http: http.client.HTTPConnection | None = None

    def log_in(self, name: str, password: str) -> int:
        form = urlencode({"name": name, "password": password, "next": "/"})
        origin = f"http://127.0.0.1:{self._target.port}"
        kind = "application/x-www-form-urlencoded"
        return self.ask("POST", "/login", form, {"Content-Type": kind, "Origin": origin})

    def ask(
        self, method: str, path: str, body: str = "", headers: dict[str, str] | None = None
    ) -> int:
        if self._http is None:
            self._http = http.client.HTTPConnection(
                "127.0.0.1", self._target.port, timeout=LOGIN_TIMEOUT_S, source_address=(SOURCE, 0)
            )
        try:
            self._http.request(method, path, body or None, headers or {})
            answer = self._http.getresponse()
            answer.read()
        except (OSError, http.client.HTTPException):
            self.close()
            return 0
        return answer.status

    def close(self) -> None:
        if self._http is not None:
            self._http.close()
            self._http = None


def test_a_flood_of_wrong_passwords_locks_out_nobody_else(closed_target: Target) -> None:
    """Others go on, a user of the same address logs in, and health is never refused there."""
    add_user(closed_target, "vera")
    guessed: Counter[int] = Counter()
    logins: list[int] = []
    health: Counter[int] = Counter()

    def guess(attacker: Attacker, number: int) -> None:
        browser, turn = Browser(closed_target), 0
        while not attacker.is_over:
            turn += 1
            name = "vera" if turn % 4 == 0 else f"guess-{number}-{turn}"
            guessed[browser.log_in(name, f"wrong password {turn}")] += 1
        browser.close()

    def watch(attacker: Attacker) -> None:
        browser = Browser(closed_target)
        while not attacker.is_over:
            health[browser.ask("GET", "/healthz")] += 1
            health[browser.ask("GET", "/readyz")] += 1
            attacker.rest(0.2)
        browser.close()

    def attack(attacker: Attacker) -> None:
        threads = [threading.Thread(target=guess, args=(attacker, n)) for n in range(GUESSERS)]
        threads.append(threading.Thread(target=watch, args=(attacker,)))
        for thread in threads:
            thread.start()
        while not attacker.is_over:
            user = Browser(closed_target)  # without a cookie, as if for the first time
            logins.append(user.log_in("ann", PASSWORD))
            user.close()
            attacker.rest(USER_EVERY_S)
        for thread in threads:
            thread.join(LOGIN_TIMEOUT_S)

    began_s = time.monotonic()
    withstand(closed_target, attack)
    took_s = time.monotonic() - began_s
    assert set(logins) == {303}, logins
    assert set(health) == {200}, health
    assert guessed[303] == 0
    assert guessed[401] + guessed[429] > took_s, guessed
    assert len(closed_target.log.splitlines()) < 100


def add_user(target: Target, name: str) -> None:
    link = http.client.HTTPConnection("127.0.0.1", target.port, timeout=LOGIN_TIMEOUT_S)
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {target.token}"}
    user = {"name": name, "password": PASSWORD, "role": "viewer"}
    link.request("POST", "/api/v1/users", json.dumps(user), headers)
    assert link.getresponse().status == 201
    link.close()
