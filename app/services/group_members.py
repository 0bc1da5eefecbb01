"""Groups whose members take messages in ways that do not fit together.

Classic clients (TCP) share queues and commit one offset for each; members over gRPC, WebSocket and
REST's receive take single messages. In one group, both kinds get the same messages.
"""

import logging

from app.server_host import ServerHost
from app.services.connections import Connections
from engine.events import MemberJoined, MemberLeft

log = logging.getLogger("kitemq.members")

CLASSIC = "TCP"  # the endpoint of classic clients, as `Connections` names it


class MixedGroups:
    """Finds groups with classic clients and members that take single messages."""

    def __init__(self, host: ServerHost | None, connections: Connections) -> None:
        """`host` is None before a cluster: classic clients connect to its brokers instead."""
        self._host = host
        self._connections = connections
        self._logged: set[str] = set()

    def is_mixed(self, group: str) -> bool:
        """Whether a group has live members of both kinds; each gets everything in a broadcast."""
        if self._host is None:
            return False
        members = self._host.broker.members
        if members.count(group) < 2 or self._host.broker.is_broadcast(group):
            return False
        live = members.of(group)
        if all(each.is_pulling for each in live):
            return False
        sharing = [each.client for each in live if each.is_pulling]
        return any(
            facts.endpoint == CLASSIC
            for client_facts in self._connections.of_each(sharing)
            for facts in client_facts
        )

    def on_event(self, event: MemberJoined | MemberLeft) -> None:
        """Log once when a group becomes mixed."""
        if not self.is_mixed(event.group):
            self._logged.discard(event.group)
        elif event.group not in self._logged:
            self._logged.add(event.group)
            log.warning(
                "the group %r has classic clients, which share queues, and members that take "
                "single messages: some messages are processed by both; give each kind a group of "
                "its own",
                event.group,
            )
