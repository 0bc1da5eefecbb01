"""How verbs reach the members of a cluster: a name server, a broker's master, one of its slaves."""

import asyncio
from collections.abc import Mapping

from app.cluster.connections import ConnectionPool
from app.cluster.errors import (
    ClusterError,
    ClusterNoAnswer,
    ClusterRefused,
    ClusterUnreachable,
    broker_away,
)
from app.cluster.faults import FaultTable
from app.cluster.routes import MASTER, TIMEOUT_S, RouteTable
from protocol.remoting.codes import RequestCode, ResponseCode
from protocol.remoting.frames import Command

Fields = Mapping[str, object]
LANGUAGE = "PYTHON"


class ClusterLink:
    """Connections, routes and the brokers to avoid, which the verbs of one client share."""

    def __init__(self, name_servers: str, access_key: str, secret_key: str) -> None:
        self.pool = ConnectionPool(access_key, secret_key)
        self.routes = RouteTable(self.pool, name_servers)
        self.faults = FaultTable()

    async def ask(
        self,
        broker: str,
        code: RequestCode,
        fields: Fields,
        *,
        body: bytes = b"",
        timeout_s: float = TIMEOUT_S,
        member: int = MASTER,
        allowed: tuple[int, ...] = (),
    ) -> Command:
        """The answer of a broker; ClusterRefused unless it is SUCCESS or one of `allowed`."""
        address = await self.routes.address(broker, member)
        try:
            return await self.ask_at(
                address, code, fields, body=body, timeout_s=timeout_s, allowed=allowed
            )
        except ClusterUnreachable as error:
            self.routes.doubt(broker)
            if member != MASTER or isinstance(error, ClusterNoAnswer):
                raise
            raise broker_away(broker) from error

    async def ask_at(
        self,
        address: str,
        code: RequestCode,
        fields: Fields,
        *,
        body: bytes = b"",
        timeout_s: float = TIMEOUT_S,
        allowed: tuple[int, ...] = (),
    ) -> Command:
        """The same of whoever listens at an address."""
        answer = await self.pool.ask(address, command_of(code, fields, body), timeout_s)
        if answer.code != ResponseCode.SUCCESS and answer.code not in allowed:
            remark = answer.remark or "without a reason"
            raise ClusterRefused(f"{address} refused {code.name}: {remark[:500]}", answer.code)
        return answer

    async def ask_masters(
        self,
        code: RequestCode,
        fields: Fields,
        *,
        body: bytes = b"",
        allowed: tuple[int, ...] = (),
    ) -> dict[str, Command]:
        """The answers of all masters by broker, all or an error."""
        names = await self.masters()
        answers = await asyncio.gather(
            *(self.ask(name, code, fields, body=body, allowed=allowed) for name in names)
        )
        return dict(zip(names, answers, strict=True))

    async def ask_present(
        self, code: RequestCode, fields: Fields, *, allowed: tuple[int, ...] = ()
    ) -> dict[str, Command]:
        """The answers of the masters that give one; ClusterUnreachable if none does."""
        names = await self.masters()
        asked = (self.ask(name, code, fields, allowed=allowed) for name in names)
        answers = await asyncio.gather(*asked, return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException) and not isinstance(answer, ClusterUnreachable):
                raise answer
        commands = dict(zip(names, answers, strict=True))
        present = {name: each for name, each in commands.items() if isinstance(each, Command)}
        if not present:
            raise ClusterUnreachable("no broker answers", remedy="look whether the brokers run")
        return present

    async def masters(self) -> list[str]:
        """The names of brokers that have a master just now; ClusterUnreachable if none has."""
        brokers = await self.routes.brokers()
        names = sorted(name for name, each in brokers.items() if MASTER in each.broker_addrs)
        if not names:
            raise ClusterUnreachable(
                "no broker is registered at the name servers", remedy="start a broker"
            )
        return names

    async def close(self) -> None:
        """Close all connections."""
        await self.pool.close()


def command_of(code: RequestCode, fields: Fields, body: bytes = b"") -> Command:
    """A request; booleans are written as Java does."""
    texts = {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in fields.items()
    }
    return Command(code, fields=texts, body=body, language=LANGUAGE)


def field(answer: Command, name: str) -> str:
    """A field that an answer must have; ClusterError."""
    value = answer.fields.get(name)
    if value is None:
        raise ClusterError(f"an answer without {name}", remedy="is this a RocketMQ broker?")
    return value


def number(answer: Command, name: str) -> int:
    """The same as a number."""
    try:
        return int(field(answer, name))
    except ValueError:
        raise ClusterError(f"{name}: an answer with {answer.fields[name]!r}") from None
