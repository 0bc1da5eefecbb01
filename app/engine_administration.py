"""The verbs of `app.administration`, answered by the embedded engine without a wait."""

from app.administration import Administration, DeadLetterLists, MemberLists, ReplayVerbs
from app.engine_messaging import HostVerbs
from app.host import EngineHost
from engine.broker import Broker, DeadLetters, Members, ReplayJobs


class EngineMemberLists(HostVerbs, MemberLists):
    """`MemberLists` of a started `EngineHost`."""

    @property
    def _engine(self) -> Members:
        return self._host.broker.members

    @property
    def timeout_s(self) -> float:
        return self._engine.timeout_s


class EngineDeadLetterLists(HostVerbs, DeadLetterLists):
    """`DeadLetterLists` of a started `EngineHost`."""

    @property
    def _engine(self) -> DeadLetters:
        return self._host.broker.dead_letters


class EngineReplayVerbs(HostVerbs, ReplayVerbs):
    """`ReplayVerbs` of a started `EngineHost`."""

    @property
    def _engine(self) -> ReplayJobs:
        return self._host.broker.replays


class EngineAdministration(HostVerbs, Administration):
    """`Administration` of a started `EngineHost`, on the loop's thread."""

    def __init__(self, host: EngineHost) -> None:
        super().__init__(host)
        self.members = EngineMemberLists(host)
        self.dead_letters = EngineDeadLetterLists(host)
        self.replays = EngineReplayVerbs(host)

    @property
    def _engine(self) -> Broker:
        return self._host.broker
