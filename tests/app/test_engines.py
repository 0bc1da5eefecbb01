"""What is behind a server is chosen in one place, and a server without an engine has no broker."""

import re
from pathlib import Path

import msgspec
import pytest

import app
from app import engines
from app.capabilities import NOT_SUPPORTED
from app.cluster.client import ClusterClient
from app.cluster.host import ClusterHost
from app.cluster.messaging import ClusterMessaging
from app.db.worker import DatabaseWorker
from app.settings import Settings, SettingsError, load
from engine.clock import SystemClock
from engine.errors import Refused
from tests.remoting.port import opened

FOLDER = Path(app.__path__[0])
ASKING = re.compile(r"settings\.rocketmq\b|ClusterHost|ClusterMessaging\b|has_embedded_engine")
DOORS = ("api", "grpc", "monitoring", "network", "remoting", "services", "ui", "ws")


DOCUMENT = FOLDER.parent / "docs" / "clusters.md"
DEPENDING = {"exact_timers", "sql_filters", "timer_recalls"}  # on the brokers' settings


def cluster_settings(tmp_path: Path, **values: str) -> Settings:
    return load({"data": str(tmp_path), "rocketmq": "127.0.0.1:9"} | values, environ={})


def test_no_door_and_no_page_asks_which_engine_is_behind_the_server() -> None:
    paths = [path for door in DOORS for path in (FOLDER / door).rglob("*") if path.is_file()]
    asking = [
        str(path)
        for path in paths
        if path.suffix in (".py", ".html") and ASKING.search(path.read_text())
    ]
    assert asking == []
    choosing = [
        path.name for path in FOLDER.glob("*.py") if "settings.rocketmq" in path.read_text()
    ]
    assert sorted(choosing) == ["cluster_settings.py", "engines.py", "serve.py"]  # the ports


@pytest.mark.anyio
async def test_a_server_before_a_cluster_has_no_broker(tmp_path: Path) -> None:
    engine = engines.engine_of(
        cluster_settings(tmp_path), SystemClock(), DatabaseWorker("sqlite://")
    )
    assert isinstance(engine.host, ClusterHost)
    assert isinstance(engine.messaging, ClusterMessaging)
    for name in ("broker", "standby_broker"):
        with pytest.raises(Refused) as refusal:
            getattr(engine.host, name)
        assert (refusal.value.code, bool(refusal.value.remedy)) == (NOT_SUPPORTED, True)
    await engine.messaging.close()


@pytest.mark.anyio
async def test_what_a_cluster_lacks_is_documented(tmp_path: Path) -> None:
    async with (
        opened(tmp_path / "data") as running,
        ClusterMessaging(ClusterClient(running.port.address)) as messaging,
    ):
        has = msgspec.structs.asdict(messaging.capabilities)
    table = DOCUMENT.read_text().partition("| capability | what is absent |")[2]
    rows = table.partition("\n\n")[0]
    documented = set(re.findall(r"^\| `(\w+)` \|", rows, re.MULTILINE))
    assert documented == {name for name, is_there in has.items() if not is_there} - DEPENDING


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"rocketmq": "localhost"}, ["'rocketmq'", "HOST:PORT"]),
        ({"rocketmq": "a:1;b:99999"}, ["'rocketmq'", "HOST:PORT"]),
        ({"rocketmq": ";".join(["a:1"] * 17)}, ["'rocketmq'", "up to 16"]),
        ({"rocketmq_access_key": "me"}, ["'rocketmq_secret_key'", "need each other"]),
        ({"rocketmq": "", "rocketmq_access_key": "a", "rocketmq_secret_key": "b"}, ["'rocketmq'"]),
        ({"follow": "127.0.0.1:10912"}, ["'follow'", "leave one of the two out"]),
        ({"durability": "flushed"}, ["'durability'", "leave one of the two out"]),
        ({"retention_h": "1"}, ["'retention_h'"]),
        ({"ha_listen": "127.0.0.1:10912"}, ["'ha_listen'"]),
        ({"grpc_listen": "127.0.0.1:8081"}, ["'grpc_listen'"]),
        ({"remoting_listen": "127.0.0.1:9876"}, ["'remoting_listen'"]),
    ],
)
def test_settings_that_do_not_fit_a_cluster_are_refused(
    tmp_path: Path, values: dict[str, str], words: list[str]
) -> None:
    with pytest.raises(SettingsError) as refusal:
        cluster_settings(tmp_path, **values)
    for word in words:
        assert word in str(refusal.value)


def test_several_name_servers_and_closed_ports_fit(tmp_path: Path) -> None:
    closed = {"grpc_listen": "off", "remoting_listen": "off", "ha_listen": "off"}
    settings = cluster_settings(tmp_path, rocketmq="a:9876; b:9876", **closed)
    assert settings.rocketmq == "a:9876; b:9876"
