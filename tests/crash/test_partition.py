"""A leader and its standby, each in a network namespace of its own, and the link between them cut.

What was accepted as replicated is on both; where the two cannot reach each other both may lead,
and in the end one of them follows, with all that it alone had in a file.
"""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kitemq import KiteError, Message
from tests.crash.namespaces import ADDRESSES, Machine, NamespaceLink, inside
from tests.crash.process import ServerProcess
from tests.crash.test_promotion import LIMIT_S, TOPIC, Couple, kitemq
from tests.crash.test_standby import differences
from tests.patience import until

pytestmark = [pytest.mark.crash, pytest.mark.timeout(300)]

PORT = 10912
TIMEOUT_S = 1.0


@pytest.fixture
def link() -> Iterator[NamespaceLink]:
    try:
        link = NamespaceLink()
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"two network namespaces are missing: `ip netns` needs root ({error})")
    try:
        yield link
    finally:
        link.remove()


@pytest.fixture
def couple(link: NamespaceLink, tmp_path: Path) -> Iterator[Couple]:
    couple = Couple(tmp_path)
    couple.ports = [f"{address}:{PORT}" for address in ADDRESSES]
    settings = {"ha_secret": "what both of them know", "replicated_timeout_s": TIMEOUT_S}
    first, second = link.names
    couple.first = Machine(first, tmp_path / "first", ha_listen=couple.ports[0], **settings)
    couple.second = Machine(
        second, tmp_path / "second", ha_listen=couple.ports[1], follow=couple.ports[0], **settings
    )
    try:
        yield couple
    finally:
        couple.first.kill()
        couple.second.kill()


def replicate(server: ServerProcess, body: str) -> str:
    """Send a message that is to be replicated; the durability that it has got, or the refusal."""
    with server.client() as client:
        try:
            sent = client.messages.send(TOPIC, [Message(body=body)], durability="replicated")
        except KiteError as error:
            return error.code
        return sent.durability


def is_replicated(server: ServerProcess, bodies: set[str]) -> bool:
    """Send one more message; `bodies` takes it."""
    body = f"in step {len(bodies)}"
    bodies.add(body)
    return replicate(server, body) == "replicated"


def test_what_was_replicated_outlives_cuts_and_a_second_leader(
    couple: Couple, link: NamespaceLink
) -> None:
    first, second = couple.first, couple.second
    first.start()
    second.start()
    both: set[str] = set()
    until(lambda: is_replicated(first, both), "no standby is in step", LIMIT_S)

    link.drop()
    assert replicate(first, "late") == "not_replicated"
    couple.send(first, "stored")
    assert couple.bodies(second) == both
    link.set_up()
    both |= {"late", "stored"}  # what was refused for its lateness is stored all the same
    couple.caught_up(second, both)
    until(lambda: is_replicated(first, both), "the standby is not in step again", LIMIT_S)

    link.set_down()
    couple.send(first, "tail 1")
    with inside(link.names[1]):
        promoted = kitemq("promote", "--server", second.url, "--force", "--json")
    assert promoted.returncode == 0, promoted.stderr
    couple.send(second, "new")  # both lead
    couple.send(first, "tail 2")
    assert replicate(first, "tail 3") == "not_replicated"
    assert couple.bodies(second) == both | {"new"}

    link.set_up()
    assert first.ended() == 2
    first.settings["follow"] = couple.ports[1]
    first.start()
    couple.caught_up(first, both | {"new"})
    until(lambda: is_replicated(second, both), "the old leader is not in step", LIMIT_S)
    [tail] = couple.state(first).tails
    printed = kitemq("store", "tail", str(first.data / tail.file), "--json")
    rows = [json.loads(line)["body"] for line in printed.stdout.splitlines()]
    assert rows == ["tail 1", "tail 2", "tail 3"]
    couple.caught_up(first, both | {"new"})
    first.kill()
    second.kill()
    assert differences(second, first) == ""


def test_while_the_link_is_cut_a_send_falls_back_as_set(
    couple: Couple, link: NamespaceLink
) -> None:
    first, second = couple.first, couple.second
    first.settings["replicated_fallback"] = "flushed"
    first.start()
    second.start()
    both: set[str] = set()
    until(lambda: is_replicated(first, both), "no standby is in step", LIMIT_S)
    for cut in (link.drop, link.set_down):
        cut()
        body = f"{cut.__name__} was no standby's time"
        both.add(body)
        assert replicate(first, body) == "flushed"
        link.set_up()
        couple.caught_up(second, both)
        until(lambda: is_replicated(first, both), "the standby is not in step again", LIMIT_S)
