# Made from kitemq/async_api/clients.py by `python -m tools.synchronous`: change that file.
"""Single clients of the server: their stacks, ending their connections, one message for one."""

from kitemq.api.connection import Api
from kitemq.model.clients import NamedClient, Processing, SentAway, ThreadStack, ToVerify
from kitemq.rest import segment

ANSWER_S = 5.0  # how long the server waits for a client


class ClientsApi(Api):
    """`client.clients`: clients by their names, those of heartbeats and connections."""

    def stack(self, client: str) -> ThreadStack:
        """The stack traces of a client's threads; the server waits 5 s for them."""
        body = NamedClient(client)
        return self._rest.fetch(ThreadStack, "POST", "/clients/stack", body=body, wait_s=ANSWER_S)

    def disconnect(self, client: str) -> SentAway:
        """End a client's connections and memberships; its messages come again."""
        body = NamedClient(client)
        return self._rest.fetch(SentAway, "POST", "/clients/disconnect", body=body)

    def verify(
        self, group: str, client: str, topic: str, queue: int, offset: int | str
    ) -> Processing:
        """Let one client of a group process a stored message, apart from its delivery."""
        path = f"/groups/{segment(group)}/members/verify"
        body = ToVerify(client, topic, queue, str(offset))
        return self._rest.fetch(Processing, "POST", path, body=body, wait_s=ANSWER_S)
