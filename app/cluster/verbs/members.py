"""Members of groups before a cluster: it knows connections, and all of ours are one to it.

A broker tells consumers apart by their connections. So KiteMQ's members cannot be told to it, and
who receives by POP needs no member: signs of life are taken and come to nothing, and sharing queues
out is refused.
"""

from collections.abc import Mapping
from typing import NoReturn

from app.capabilities import not_supported, require
from app.cluster.verbs.filters import message_filter
from app.cluster.verbs.part import ClusterPart
from app.messaging import MemberVerbs
from engine.broker import MemberConnection, Members, Strategy


class _NoConnection(MemberConnection):
    """A subscription that no member follows from."""

    def __init__(self) -> None:
        pass

    def close(self) -> None:
        """The subscription is over."""


class ClusterMemberVerbs(ClusterPart, MemberVerbs):
    """No members."""

    @property
    def _engine(self) -> Members:
        raise not_supported("has no such verb", field="client", remedy="receive by POP")

    async def heartbeat(
        self,
        group: str,
        client: str,
        *,
        topics: Mapping[str, str] | None = None,
        version: str = "",
        language: str = "",
        address: str = "",
    ) -> NoReturn:
        """Refused, as nothing would follow from it."""
        self._refuse()

    async def seen(
        self,
        group: str,
        client: str,
        *,
        topics: Mapping[str, str] | None = None,
        address: str = "",
        version: str = "",
        language: str = "",
        creates: bool = False,
    ) -> None:
        """A client received or settled something; with `creates` its group is made."""
        if creates:
            await self._catalog.ensure_group(group)

    async def connect(
        self, group: str, client: str, *, topics: Mapping[str, str], address: str = ""
    ) -> MemberConnection:
        """A client subscribed on a connection; raises what a receive of the same would."""
        await self._catalog.ensure_group(group)
        for topic, text in topics.items():
            message_filter(text, self._catalog.capabilities)
            await self._catalog.route(topic)
        return _NoConnection()

    async def leave(self, group: str, client: str) -> bool:
        """False: it was no member."""
        await self._catalog.group(group)
        return False

    async def assignment(
        self,
        group: str,
        topic: str,
        client: str,
        *,
        strategy: Strategy | None = None,
        broker_name: str = "kitemq",
    ) -> NoReturn:
        """Refused."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        require(self._catalog.capabilities, "member_shares", field="client")
        raise AssertionError("a cluster shares no queues out")
