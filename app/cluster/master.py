"""A broker's master as its slaves see it: where its log is served, how far it goes, its tables."""

import asyncio
from collections.abc import Mapping

import msgspec

from app.cluster.errors import ClusterError, ClusterUnreachable
from app.cluster.link import ClusterLink
from app.cluster.runtime import runtime_table
from protocol.remoting.codes import RequestCode, ResponseCode

MASTER_ROLES = ("ASYNC_MASTER", "SYNC_MASTER")
# Settings of a broker that cannot be followed, and why.
UNFIT = {
    "enableDLegerCommitLog": "its log has DLedger's own frames",
    "enableControllerMode": "with a controller its HA port speaks another protocol",
}
# By the name of the file in which a broker keeps it: what gives it.
TABLE_REQUESTS: Mapping[str, RequestCode] = {
    "topics.json": RequestCode.GET_ALL_TOPIC_CONFIG,
    "subscriptionGroup.json": RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
    "consumerOffset.json": RequestCode.GET_ALL_CONSUMER_OFFSET,
    "delayOffset.json": RequestCode.GET_ALL_DELAY_OFFSET,
    "timercheck": RequestCode.GET_TIMER_CHECK_POINT,
}


class MasterPlace(msgspec.Struct, frozen=True):
    """A master: its broker's name, the address of its HA port, the size of its log's files."""

    broker: str
    ha_address: str
    segment_bytes: int


class LogEnds(msgspec.Struct, frozen=True):
    """Where a master's log begins and ends."""

    oldest: int
    end: int


class ClusterMaster:
    """The requests of a slave; `broker` may be left out where the cluster has one."""

    def __init__(
        self, name_servers: str, broker: str = "", *, access_key: str = "", secret_key: str = ""
    ) -> None:
        """`name_servers` as for a `ClusterClient`; close it after use."""
        self._link = ClusterLink(name_servers, access_key, secret_key)
        self._broker = broker

    async def find(self) -> MasterPlace:
        """Look where it is; ClusterError where it is none that can be followed."""
        broker = await self._find_broker()
        settings = _properties(await self._ask(broker, RequestCode.GET_BROKER_CONFIG))
        role = settings.get("brokerRole", "")
        if role not in MASTER_ROLES:
            raise ClusterError(f"the broker {broker} is no master, but has the role {role!r}")
        for name, why in UNFIT.items():
            if settings.get(name) == "true":
                raise ClusterError(f"the broker {broker} cannot be followed: it has {name}, {why}")
        self._broker = broker
        ha_address = f"{settings.get('brokerIP2', '')}:{settings.get('haListenPort', '')}"
        return MasterPlace(broker, ha_address, _number(settings, "mappedFileSizeCommitLog"))

    async def ends(self) -> LogEnds:
        """Where its log begins and ends by now."""
        body = await self._ask(self._broker, RequestCode.GET_BROKER_RUNTIME_INFO)
        table = runtime_table(body)
        oldest, end = _number(table, "commitLogMinOffset"), _number(table, "commitLogMaxOffset")
        return LogEnds(max(0, oldest), end)

    async def tables(self) -> dict[str, bytes]:
        """By file name its tables; without those that it does not have, as with timers off."""
        bodies = await asyncio.gather(
            *(self._ask(self._broker, code) for code in TABLE_REQUESTS.values())
        )
        return {name: body for name, body in zip(TABLE_REQUESTS, bodies, strict=True) if body}

    async def close(self) -> None:
        """Close all connections."""
        await self._link.close()

    async def _find_broker(self) -> str:
        names = await self._link.masters()
        listed = ", ".join(names)[:500]
        if self._broker in names:
            return self._broker
        if self._broker:
            raise ClusterUnreachable(f"the broker {self._broker} has no master, but {listed}")
        if len(names) > 1:
            raise ClusterError(
                f"the cluster has {len(names)} masters: {listed}",
                remedy="name one, as in rocketmq://127.0.0.1:9876/broker-a",
            )
        return names[0]

    async def _ask(self, broker: str, code: RequestCode) -> bytes:
        is_timer = code is RequestCode.GET_TIMER_CHECK_POINT
        allowed = (ResponseCode.SYSTEM_ERROR, ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
        answer = await self._link.ask(broker, code, {}, allowed=allowed if is_timer else ())
        return answer.body if answer.code == ResponseCode.SUCCESS else b""


def _properties(text: bytes) -> dict[str, str]:
    """What a text of Java properties says, which escapes nothing that is looked at here."""
    pairs = (line.partition("=") for line in text.decode(errors="replace").splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}


def _number(values: Mapping[str, str], name: str) -> int:
    try:
        return int(values[name])
    except (KeyError, ValueError):
        raise ClusterError(
            f"the master does not say its {name}",
            remedy="is this a broker of RocketMQ? A KiteMQ is followed by its ha_listen",
        ) from None
