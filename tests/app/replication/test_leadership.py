"""Epochs over the port for standbys: a promotion, and a leader that hears of a later epoch."""

from pathlib import Path

import httpx
import pytest
from msgspec.structs import replace

from app.main import create_app
from app.replication.fencer import Fencer
from app.services.leadership import RoleChange, settings_by_role
from app.settings import Settings
from engine.broker import TopicConfig
from engine.delivery.group import GroupConfig
from engine.delivery.pull import PullStatus
from engine.errors import Refused, Stopping
from engine.message import Message
from engine.replication.epochs import EpochRole, EpochState, load_epochs, save_epochs
from engine.replication.pieces import EMPTY_STATE
from engine.store.journal import JournalPlace
from tests.app.conftest import App
from tests.app.replication.conftest import Leader, Opened
from tests.app.replication.test_follower import caught_up, following, until

pytestmark = pytest.mark.anyio
PROMOTION = "/api/v1/replication/promotion"


async def promote(standby: App, *, force: bool = False) -> httpx.Response:
    return await standby.http.post(PROMOTION, json={"force": force})


async def test_a_connected_standby_is_promoted_by_force_alone(
    opened: Opened, tmp_path: Path
) -> None:
    async with opened() as leader, following(leader, tmp_path) as standby:
        leader.send(b"one")
        await caught_up(leader, standby)
        await until(lambda: standby.app.services.following.is_connected)
        refused = await promote(standby)
        assert (refused.status_code, refused.json()["code"]) == (409, "leader_connected")
        assert load_epochs(tmp_path / "standby").role is EpochRole.STANDBY
        end = standby.app.services.host.standby_broker.standby.end
        answer = await promote(standby, force=True)
        assert (answer.status_code, answer.json()) == (200, {"epoch": 2})
        assert standby.app.services.leadership.change is RoleChange.PROMOTED
        state = load_epochs(tmp_path / "standby")
        assert (state.role, state.epoch) == (EpochRole.LEADER, 2)
        assert [(each.log_end, each.journal) for each in state.history.starts] == [end]
        assert state.history.cluster == leader.app.services.leadership.state.history.cluster
        leader.send(b"two")  # nobody takes it any more
        assert standby.app.services.host.standby_broker.standby.end == end
        assert (await promote(standby, force=True)).status_code == 409
        (entry,) = (await standby.get("/audit?action=server.promote&result=done"))["items"]
        assert entry["after_json"] == '{"epoch":2}'


async def test_a_leader_cannot_be_promoted(opened: Opened, tmp_path: Path) -> None:
    async with opened() as leader:
        transport = httpx.ASGITransport(leader.app, client=("127.0.0.1", 50_001))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080") as http:
            answer = await http.post(PROMOTION, json={})
        assert (answer.status_code, answer.json()["detail"]) == (409, "this server is no standby")


async def test_a_promotion_that_the_disk_refuses_changes_nothing(
    opened: Opened, tmp_path: Path
) -> None:
    async with opened() as leader, following(leader, tmp_path) as standby:
        await caught_up(leader, standby)
        await until(lambda: standby.app.services.following.is_connected)
        (tmp_path / "standby" / "epochs.json.tmp").mkdir()
        assert (await promote(standby, force=True)).status_code == 409
        assert standby.app.services.leadership.change is None
        leader.send(b"one")
        await caught_up(leader, standby)


async def fenced(leader: Leader) -> None:
    leadership = leader.app.services.leadership
    await until(lambda: leadership.change is RoleChange.FENCED)
    with pytest.raises(Stopping):
        leader.broker.send([Message("orders", b"x")])


async def test_a_leader_that_meets_a_standby_of_a_later_epoch_goes_no_further(
    opened: Opened, tmp_path: Path
) -> None:
    async with opened() as leader:
        link = await leader.link()
        assert link.history.epoch == 1
        link.begin(replace(EMPTY_STATE, cluster=link.history.cluster, epoch=3))
        with pytest.raises(Refused, match="a leader of epoch 3") as refusal:
            await link.next()
        assert refusal.value.code == "fenced"
        link.close()
        await fenced(leader)
        assert load_epochs(tmp_path / "leader").fenced_by == 3
    with pytest.raises(Refused, match="a leader of epoch 3") as start:
        settings_by_role(Settings(data=tmp_path / "leader"))
    assert "--follow" in start.value.remedy
    settings_by_role(Settings(data=tmp_path / "leader", follow="10.0.0.2:10912"))


async def followed(leader: Leader, path: Path) -> tuple[int, JournalPlace]:
    """Let a standby follow, and the leader go on; where both ended before that."""
    async with following(leader, path) as standby:
        leader.send(b"both")
        await caught_up(leader, standby)
        end = standby.app.services.host.standby_broker.standby.end
        leader.send(b"alone")
        await caught_up(leader, standby)
    return end


async def test_two_promotions_of_one_epoch_wait_for_a_person_to_decide(
    opened: Opened, tmp_path: Path
) -> None:
    """Neither follows the other; what the one that is not promoted again alone has is set aside."""
    rival = tmp_path / "standby"
    async with opened() as leader:
        leadership = leader.app.services.leadership
        end = await followed(leader, tmp_path)
        leadership.state = leadership.state.promote(*end)
        save_epochs(rival, load_epochs(rival).promote(*end))
        mark = load_epochs(rival).history.mark(EMPTY_STATE)
        async with following(leader, tmp_path) as standby:
            services = standby.app.services
            await until(lambda: "epoch 2 apart from each other" in services.following.failure)
            assert f"the leader 127.0.0.1:{leader.port}" in services.following.failure
            assert load_epochs(rival).role is EpochRole.LEADER
            problems = (await standby.http.get("/readyz")).json()["problems"]
            assert "apart from each other" in problems["replication"]
        link = await leader.link()
        link.begin(mark)
        with pytest.raises(Refused, match="apart from each other") as refusal:
            await link.next()
        assert refusal.value.code == "rival_epoch"
        assert "--force" in refusal.value.remedy
        link.close()
        fencer = Fencer(leader.app.services, f"127.0.0.1:{leader.port}")
        await fencer.start()  # it finds itself, and is content
        await fencer.stop()
        assert leadership.rival == ""
        promoted = Promoted(EpochState(load_epochs(rival).history))
        fencer = Fencer(promoted, f"127.0.0.1:{leader.port}")  # type: ignore[arg-type]
        await fencer.start()
        await fencer.stop()
        assert "kitemq promote --force" in promoted.rival

        leadership.state = leadership.state.promote(*leader.end)  # the decision
        async with following(leader, tmp_path) as standby:
            await until(lambda: standby.app.services.leadership.state.epoch == 3)
            await caught_up(leader, standby)
            [tail] = (await standby.get("/replication"))["tails"]
            assert (tail["epoch"], tail["messages"]) == (2, 1)


async def test_a_leader_is_promoted_once_more_by_force_alone(
    opened: Opened, tmp_path: Path
) -> None:
    async with opened() as leader:
        await leader.app.services.leadership.name_cluster()
        transport = httpx.ASGITransport(leader.app, client=("127.0.0.1", 50_001))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080") as http:
            assert (await http.post(PROMOTION, json={})).status_code == 409
            answer = await http.post(PROMOTION, json={"force": True})
        assert (answer.status_code, answer.json()) == (200, {"epoch": 2})
        assert leader.app.services.leadership.change is RoleChange.PROMOTED
        assert load_epochs(tmp_path / "leader").epoch == 2


async def test_a_later_epoch_of_another_cluster_fences_nobody(opened: Opened) -> None:
    async with opened() as leader:
        link = await leader.link()
        link.begin(replace(EMPTY_STATE, cluster="other", epoch=3))
        with pytest.raises(Refused, match="no copy of this leader's"):
            await link.next()
        link.close()
        assert leader.app.services.leadership.change is None
        leader.send(b"one")


@pytest.mark.parametrize("own_epoch", [2, 1])
async def test_of_two_leaders_the_one_of_the_earlier_epoch_is_fenced(
    opened: Opened, own_epoch: int
) -> None:
    """The one that was promoted looks for the other."""
    async with opened() as leader:
        services = leader.app.services
        history = services.leadership.state.history
        address = f"127.0.0.1:{leader.port}"
        later = EpochState(history, peer=address).promote(0, JournalPlace(0, 0))
        if own_epoch == 2:
            promoted = Promoted(later)
        else:
            services.leadership.state = later
            promoted = Promoted(EpochState(history, peer=address))
        fencer = Fencer(promoted, address)  # type: ignore[arg-type]
        await fencer.start()
        try:
            if own_epoch == 2:
                await fenced(leader)
            else:
                assert promoted.leadership.fences == [(2, address)]  # before it serves anybody
        finally:
            await fencer.stop()


@pytest.mark.parametrize("is_named_so", [True, False])
async def test_a_leader_that_finds_its_heir_leading_follows_it_and_does_not_stop(
    opened: Opened, tmp_path: Path, is_named_so: bool
) -> None:
    """It was killed before it heard of it; by another name it waits until the heir says so."""
    async with opened() as heir:
        address = f"127.0.0.1:{heir.port}"
        leadership = heir.app.services.leadership
        await leadership.name_cluster()
        history = leadership.state.history
        leadership.state = leadership.state.promote(0, JournalPlace(0, 0))
        old = tmp_path / "old"
        old.mkdir()
        name = address if is_named_so else "10.0.0.2:10912"
        save_epochs(old, EpochState(history, peer=address).name_heir(name, ""))
        app = create_app(
            Settings(data=old, follow="", disk_free_min_bytes=0, report_schedules=False)
        )
        async with app.router.lifespan_context(app):
            fencer = Fencer(app.services, address)
            await fencer.start()
            await fencer.stop()
            expected = RoleChange.HANDED_OVER if is_named_so else None
            assert app.services.leadership.change is expected
        state = load_epochs(old)
        if is_named_so:
            assert (state.role, state.peer, state.heir) == (EpochRole.STANDBY, address, "")
        else:
            assert (state.role, state.heir) == (EpochRole.LEADER, name)


class Promoted:
    """As much of a promoted server as looks for the old leader; it hands over to nobody."""

    def __init__(self, state: EpochState) -> None:
        self.settings = Settings()
        self.leadership = self.handover = self
        self.state = state
        self.fences: list[tuple[int, str]] = []
        self.rival = ""

    async def heard(self, ha_listen: str, epoch: int) -> bool:
        return False

    async def fence(self, epoch: int, by: str) -> None:
        self.fences.append((epoch, by))


async def test_a_directory_that_follows_a_later_leader_shows_its_tail(
    opened: Opened, tmp_path: Path
) -> None:
    async with opened() as leader:
        end = await followed(leader, tmp_path)
        leadership = leader.app.services.leadership
        leadership.state = leadership.state.promote(*end)
        # The two differ from there on, though here by nothing but the epoch.
        async with following(leader, tmp_path) as standby:
            await until(lambda: standby.app.services.leadership.state.epoch == 2)
            await caught_up(leader, standby)
            [tail] = (await standby.get("/replication"))["tails"]
            assert (tail["epoch"], tail["messages"]) == (1, 1)
            page = (await standby.http.get("/engine")).text
            assert tail["file"] in page
            assert "messages that no later leader has" in page
            assert (tmp_path / "standby" / tail["file"]).exists()


async def test_a_consumer_that_read_more_than_the_standby_had_goes_on_at_its_end(
    opened: Opened, tmp_path: Path
) -> None:
    async with opened() as leader:
        leader.broker.create_topic(TopicConfig("orders", read_queues=1, write_queues=1))
        leader.broker.create_group(GroupConfig("billing"))
        leader.send(b"1")
        async with following(leader, tmp_path) as standby:
            await caught_up(leader, standby)
            assert (await promote(standby, force=True)).status_code == 200
    seen = []
    for _ in range(2):  # the first start since the promotion, and another one
        app = create_app(Settings(data=tmp_path / "standby", disk_free_min_bytes=0))
        async with app.router.lifespan_context(app):
            broker = app.services.host.broker
            broker.send([Message("orders", b"new") for _ in range(4)])
            broker.tick()
            pulled = broker.pull("orders", 0, 3, group="billing")
            seen.append((pulled.status, pulled.next_offset))
    assert seen == [(PullStatus.OFFSET_RESET, 1), (PullStatus.FOUND, 9)]


def test_a_directory_is_used_as_its_epochs_say(tmp_path: Path) -> None:
    plain = Settings(data=tmp_path)
    assert settings_by_role(plain) == plain
    peer = "10.0.0.1:10912"
    told = Settings(data=tmp_path, follow=peer)
    standby = EpochState().follow(EpochState().with_cluster().history, peer)
    save_epochs(tmp_path, standby)
    assert settings_by_role(told) == told
    with pytest.raises(Refused, match="is a standby's of"):
        settings_by_role(plain)
    save_epochs(tmp_path, standby.promote(0, JournalPlace(0, 0)))
    assert settings_by_role(plain) == plain
    assert settings_by_role(told).follow == ""
    other = Settings(data=tmp_path, follow="10.0.0.3:10912")
    assert settings_by_role(other).follow == "10.0.0.3:10912"
