"""A planned hand-over: what each side has at its end, and who leads after every failure."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from msgspec.structs import replace

from app.listen_address import reached_at
from app.replication.follower import Follower
from app.services.leadership import RoleChange, settings_by_role
from app.settings import Settings
from engine.broker import TopicConfig
from engine.errors import Busy, Refused
from engine.message import Message
from engine.replication.epochs import EpochRole, EpochState, TakeOver, load_epochs
from engine.replication.pieces import EMPTY_STATE
from tests.app.conftest import App
from tests.app.replication.conftest import Leader, Opened
from tests.app.replication.test_follower import caught_up, following, until

pytestmark = pytest.mark.anyio
HANDOVER = "/api/v1/replication/handover"
HEIR = "127.0.0.1:10999"  # nobody listens there: no test gets so far


@asynccontextmanager
async def in_step(leader: Leader, path: Path) -> AsyncIterator[App]:
    """A standby that may take over."""
    async with following(leader, path, ha_listen=HEIR) as standby:
        await until(lambda: leader.links and leader.links[0].end)
        yield standby


async def request(leader: Leader, method: str, path: str, **body: Any) -> httpx.Response:
    transport = httpx.ASGITransport(leader.app, client=("127.0.0.1", 50_001))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080") as http:
        return await http.request(method, path, json=body if method == "POST" else None)


async def hand_over(leader: Leader, **body: Any) -> httpx.Response:
    return await request(leader, "POST", HANDOVER, **body)


def feed_of(standby: App) -> Follower:
    feed = standby.app.services.leadership.feed
    assert isinstance(feed, Follower)
    return feed


async def stuck(*_: object) -> None:
    await asyncio.Event().wait()


def refuses(leader: Leader) -> str:
    """The code with which a leader refuses a message; "" where it takes it."""
    try:
        leader.send(b"x")
    except Busy as error:
        return error.code
    return ""


async def test_the_standby_leads_and_the_leader_follows(opened: Opened, tmp_path: Path) -> None:
    async with opened() as leader, in_step(leader, tmp_path) as standby:
        leader.send(*(b"%d" % number for number in range(100)))
        answer = await hand_over(leader, to="127.0.0.1")
        assert (answer.status_code, answer.json()) == (200, {"epoch": 2, "leader": HEIR})
        assert standby.app.services.leadership.change is RoleChange.PROMOTED
        assert leader.app.services.leadership.change is RoleChange.HANDED_OVER
        heir, old = load_epochs(tmp_path / "standby"), load_epochs(tmp_path / "leader")
        assert (heir.role, heir.epoch) == (EpochRole.LEADER, 2)
        assert [(each.log_end, each.journal) for each in heir.history.starts] == [leader.end]
        assert (old.role, old.peer, old.heir) == (EpochRole.STANDBY, HEIR, "")
        assert refuses(leader) == "handing_over"
        with pytest.raises(Busy):
            leader.broker.create_topic(TopicConfig("new"))
        for app in (leader.app, standby.app):
            action = "server.handover" if app is leader.app else "server.promote"
            (entry,) = await app.services.audit.entries(limit=9)
            assert (entry.action, entry.result, entry.after_json) == (
                *(action, "done", '{"epoch":2}'),
            )
        end = leader.end
    # Its stop adds nothing, so that it is a part of the new leader's log and journal.
    async with opened() as again:
        assert again.broker.log_end == end[0]
    follow = settings_by_role(Settings(data=tmp_path / "leader")).follow
    assert follow == HEIR


async def test_what_waits_for_its_time_does_not_move_the_end(
    opened: Opened, tmp_path: Path
) -> None:
    async with opened() as leader, in_step(leader, tmp_path) as standby:
        due_ms = leader.broker._clock.now_ms() + 300
        leader.broker.send([Message("orders", b"later", deliver_at_ms=due_ms)])
        await caught_up(leader, standby)
        assert (await hand_over(leader)).status_code == 200
        end = leader.end
        await until(lambda: leader.broker._clock.now_ms() > due_ms + 300)
        assert leader.end == end


async def test_a_standby_that_is_late_leaves_the_leader_as_it_was(
    opened: Opened, tmp_path: Path
) -> None:
    async with opened() as leader, in_step(leader, tmp_path) as standby:
        feed_of(standby)._take = stuck  # type: ignore[method-assign,assignment]
        leader.send(b"one")
        answer = await hand_over(leader, timeout_s=0.3)
        assert (answer.status_code, answer.json()["code"]) == (503, "handover_failed")
        assert refuses(leader) == ""
        assert load_epochs(tmp_path / "leader").heir == ""
        assert leader.app.services.leadership.change is None
        (entry,) = await leader.app.services.audit.entries(limit=9)
        assert (entry.action, entry.result) == ("server.handover", "handover_failed")


async def test_a_standby_whose_disk_refuses_stays_one(opened: Opened, tmp_path: Path) -> None:
    async with opened() as leader, in_step(leader, tmp_path) as standby:
        (tmp_path / "standby" / "epochs.json.tmp").mkdir()
        answer = await hand_over(leader)
        assert (answer.status_code, answer.json()["code"]) == (503, "handover_failed")
        assert refuses(leader) == ""
        await caught_up(leader, standby)
        (tmp_path / "standby" / "epochs.json.tmp").rmdir()
        assert (await hand_over(leader)).status_code == 200


async def test_a_standby_that_has_something_else_refuses(opened: Opened, tmp_path: Path) -> None:
    async with opened() as leader, in_step(leader, tmp_path) as standby:
        services = standby.app.services
        log_end, journal = leader.end
        for order in (
            TakeOver(1, log_end + 1, journal, "ann"),
            TakeOver(2, log_end, journal, "ann"),
        ):
            with pytest.raises(Refused, match="has not what its leader has"):
                await services.leadership.take_over(order, services.audit)
        assert services.leadership.state.role is EpochRole.STANDBY


async def test_a_leader_that_gets_no_word_takes_no_change_until_its_heir_is_back(
    opened: Opened, tmp_path: Path
) -> None:
    async with opened() as leader, in_step(leader, tmp_path) as standby:
        feed_of(standby)._take_over = stuck  # type: ignore[method-assign,assignment]
        answer = await hand_over(leader, timeout_s=0.3)
        assert (answer.status_code, answer.json()["code"]) == (503, "heir_silent")
        assert refuses(leader) == "handing_over"
        state = (await request(leader, "GET", "/api/v1/replication")).json()
        assert (state["heir"], state["epoch"], state["leader"]) == (HEIR, 1, "")
        ready = await request(leader, "GET", "/readyz")
        assert ready.status_code == 503
        assert f"{HEIR} was told to take over" in ready.json()["problems"]["replication"]
        assert (await hand_over(leader)).status_code == 409
    # Over a restart too: the heir may have been promoted meanwhile.
    async with opened() as leader:
        assert refuses(leader) == "handing_over"
        async with in_step(leader, tmp_path) as standby:
            await until(lambda: not refuses(leader))
            await caught_up(leader, standby)
    assert load_epochs(tmp_path / "leader").heir == ""


async def test_another_standby_does_not_speak_for_the_heir(opened: Opened, tmp_path: Path) -> None:
    async with opened() as leader:
        leadership = leader.app.services.leadership
        await leadership.name_heir("127.0.0.1:10998")
        leader.app.services.handover.load()
        async with in_step(leader, tmp_path):
            assert refuses(leader) == "handing_over"
            assert leadership.state.heir == "127.0.0.1:10998"


async def test_the_heir_that_was_promoted_is_followed_when_it_is_heard(
    opened: Opened, tmp_path: Path
) -> None:
    async with opened() as leader:
        leadership = leader.app.services.leadership
        await leadership.name_heir(HEIR)
        leader.app.services.handover.load()
        link = await leader.link()
        cluster = link.history.cluster
        link.begin(replace(EMPTY_STATE, cluster=cluster, epoch=2, ha_listen="0.0.0.0:10999"))
        with pytest.raises(Refused):
            await link.next()
        link.close()
        await until(lambda: leadership.change)
        assert leadership.change is RoleChange.HANDED_OVER
    assert load_epochs(tmp_path / "leader").role is EpochRole.STANDBY


async def test_a_person_lets_a_leader_go_on_whose_heir_is_gone(
    opened: Opened, tmp_path: Path
) -> None:
    async with opened() as leader:
        leadership = leader.app.services.leadership
        await leadership.name_heir(HEIR)
        leader.app.services.handover.load()
        promotion = "/api/v1/replication/promotion"
        refused = await request(leader, "POST", promotion)
        assert (refused.status_code, refused.json()["code"]) == (409, "heir_silent")
        answer = await request(leader, "POST", promotion, force=True)
        # The heir may lead with epoch 2.
        assert (answer.status_code, answer.json()) == (200, {"epoch": 3})
        assert leadership.change is RoleChange.PROMOTED
        end = leader.end
    state = load_epochs(tmp_path / "leader")
    assert (state.role, state.heir, state.peer) == (EpochRole.LEADER, "", HEIR)
    (start,) = state.history.starts
    assert (start.epoch, start.log_end, start.journal) == (3, *end)
    assert settings_by_role(Settings(data=tmp_path / "leader")).follow == ""
    async with opened() as leader:
        leader.send(b"one")


async def test_a_hand_over_needs_a_standby_that_can_be_followed(
    opened: Opened, tmp_path: Path
) -> None:
    async with opened() as leader:
        nobody = await hand_over(leader)
        assert (nobody.status_code, nobody.json()["errors"][0]["field"]) == (404, "to")
        async with following(leader, tmp_path) as standby:
            await until(lambda: leader.links and leader.links[0].end)
            closed = await hand_over(leader)
            assert (closed.status_code, closed.json()["errors"][0]["field"]) == (409, "to")
            assert "has no ha_listen" in closed.json()["detail"]
            at_standby = await standby.http.post(HANDOVER, json={})
            assert (at_standby.status_code, at_standby.json()["detail"]) == (
                *(409, "this server is no leader"),
            )
        async with in_step(leader, tmp_path):
            other = await hand_over(leader, to="10.0.0.9:1")
            assert other.status_code == 404
            assert HEIR in other.json()["detail"]
        assert refuses(leader) == ""


async def ask(app: Any, path: str, confirm: str) -> httpx.Response:
    """What the form of a page is answered where it is sent from the dialog."""
    transport = httpx.ASGITransport(app, client=("127.0.0.1", 50_001))
    base = "http://127.0.0.1:8080"
    async with httpx.AsyncClient(transport=transport, base_url=base) as http:
        element = "form#engine-" + path.removeprefix("/engine/").partition("?")[0]
        script = {"hx-request": "true", "hx-request-type": "partial", "hx-target": element}
        headers = {"origin": base, **script}
        return await http.post(path, data={"confirm": confirm}, headers=headers)


async def test_the_page_engine_hands_over(
    opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        opened(ha_listen="127.0.0.1:10912") as leader,
        in_step(leader, tmp_path) as standby,
    ):
        page = (await request(leader, "GET", "/engine")).text
        path = "/engine/handover?to=127.0.0.1%3A10999"
        assert f'href="{path}"' in page
        assert "/engine/promotion" not in page
        assert 'href="/engine/promotion"' in (await standby.http.get("/engine")).text
        question = (await standby.http.get("/engine/promotion")).text
        assert "The leader is connected and runs." in question
        wrong = await ask(leader.app, path, "127.0.0.1")
        assert (wrong.status_code, "Type the address exactly." in wrong.text) == (422, True)
        assert leader.app.services.leadership.change is None
        feed = feed_of(standby)
        take_over = feed._take_over
        feed._take_over = stuck  # type: ignore[method-assign,assignment]
        with monkeypatch.context() as patch:
            patch.setattr("app.ui.engine.leader.TIMEOUT_S", 0.3)
            late = await ask(leader.app, path, HEIR)
        assert (late.status_code, "has not answered" in late.text) == (503, True)
        assert "was told to take over" in (await request(leader, "GET", "/topics")).text
        assert 'href="/engine/promotion"' in (await request(leader, "GET", "/engine")).text
        text = (await request(leader, "GET", "/engine/promotion")).text
        assert f"{HEIR} was told to take over, and may lead." in text
        feed._take_over = take_over  # type: ignore[method-assign]
        await feed.stop()
        await feed.start()
        await until(lambda: not refuses(leader) and leader.links and leader.links[0].end)
        done = await ask(leader.app, path, HEIR)
        assert done.status_code == 200
        assert f"{HEIR} leads with epoch 2" in done.text
        assert "<main" not in done.text  # it replaces the form, in the dialog


async def test_the_page_engine_promotes_a_standby(opened: Opened, tmp_path: Path) -> None:
    async with opened() as leader, in_step(leader, tmp_path) as standby:
        peer = f"127.0.0.1:{leader.port}"
        done = await ask(standby.app, "/engine/promotion", peer)
        assert (done.status_code, "leads with epoch 2" in done.text) == (200, True)
        assert load_epochs(tmp_path / "standby").role is EpochRole.LEADER


def test_the_setting_counts_again_once_it_is_another() -> None:
    told = EpochState(peer="a:1").name_heir("b:2", "a:1")
    assert told.follows("a:1") == ""
    standby = told.hand_over()
    assert standby.follows("a:1") == "b:2"
    assert standby.follows("c:3") == "c:3"
    followed = standby.follow(standby.history, "b:2")
    assert followed.follows("a:1") == "b:2"
    leader = followed.promote(0, EMPTY_STATE.journal)
    assert leader.follows("a:1") == leader.follows("b:2") == ""
    assert leader.follows("c:3") == "c:3"
    assert standby.follow(standby.history, "c:3").follows("a:1") == "a:1"


@pytest.mark.parametrize(
    ("text", "peer", "address"),
    [
        ("10.0.0.2:10912", "10.0.0.9", "10.0.0.2:10912"),
        ("0.0.0.0:10912", "10.0.0.9", "10.0.0.9:10912"),
        ("10912", "10.0.0.9", "10.0.0.9:10912"),
        ("[::]:10912", "fe80::1", "[fe80::1]:10912"),
        ("standby:10912", "10.0.0.9", "standby:10912"),
        ("off", "10.0.0.9", ""),
        ("", "10.0.0.9", ""),
    ],
)
def test_a_port_at_every_address_is_reached_at_the_peers(
    text: str, peer: str, address: str
) -> None:
    assert reached_at(text, peer) == address
