"""Small values that the name servers of a cluster keep for its clients, by namespace and key.

Each name server has its own, on its disk: they are written to all and read from the first that has
one.
"""

from app.cluster.errors import ClusterRefused
from app.cluster.link import ClusterLink, command_of
from protocol.remoting.codes import RequestCode, ResponseCode


class ClusterValues:
    """The verbs for values."""

    def __init__(self, link: ClusterLink) -> None:
        self._link = link

    async def get(self, namespace: str, key: str) -> str:
        """The value; "" where no name server that answers has one."""
        fields = {"namespace": namespace, "key": key}
        for answer in await self._link.routes.ask_all(
            command_of(RequestCode.GET_KV_CONFIG, fields)
        ):
            if answer.code == ResponseCode.SUCCESS and answer.fields.get("value"):
                return answer.fields["value"]
        return ""

    async def put(self, namespace: str, key: str, value: str) -> None:
        """Write it to all name servers."""
        fields = {"namespace": namespace, "key": key, "value": value}
        for answer in await self._link.routes.ask_all(
            command_of(RequestCode.PUT_KV_CONFIG, fields)
        ):
            if answer.code != ResponseCode.SUCCESS:
                raise ClusterRefused(answer.remark or "a value was not stored", answer.code)
