"""What a server before a cluster checks of it: its name servers, its brokers, and their clocks."""

from app.administration import Check, CheckResult
from app.cluster.errors import ClusterError
from app.cluster.routes import MASTER
from app.cluster.verbs.broker_lists import ClusterBrokerLists, broker_warnings
from app.cluster.verbs.part import all_of
from kitemq.model.server import CheckOutcome

ANSWER_S = 3.0
APART_MS = 2_000  # by which receipts, dead letters and live tails bear another clock
SECOND_MS = 1_000  # brokers tell the time in whole ones


class ClusterChecks(ClusterBrokerLists):
    """The verb of `Administration` for the checks of what is behind the server."""

    def checks(self) -> dict[str, Check]:
        """By their codes."""
        return {
            "name_servers": self._check_name_servers,
            "brokers": self._check_brokers,
            "broker_clocks": self._check_clocks,
        }

    async def _check_name_servers(self) -> CheckResult:
        answers = await self._client.name_servers()
        failures = [f"{address}: {why}" for address, why in answers.items() if why]
        if failures:
            is_none_left = len(failures) == len(answers)
            outcome = CheckOutcome.FAILED if is_none_left else CheckOutcome.WARNING
            return outcome, "; ".join(failures)
        return CheckOutcome.OK, f"{len(answers)} of {len(answers)} answer"

    async def _check_brokers(self) -> CheckResult:
        items = await self.brokers()
        if warnings := broker_warnings(items):
            is_none_left = not any(each.reachable for each in items)
            outcome = CheckOutcome.FAILED if is_none_left else CheckOutcome.WARNING
            return outcome, "; ".join(f"{name}: {why}" for name, why in warnings.items())
        return CheckOutcome.OK, f"{len(items)} of {len(items)} answer"

    async def _check_clocks(self) -> CheckResult:
        names = [each.name for each in await self.brokers() if each.reachable]
        apart = dict(zip(names, await all_of(map(self._apart_ms, names)), strict=True))
        known = {name: ms for name, ms in apart.items() if ms is not None}
        if not known:
            return CheckOutcome.UNKNOWN, "no broker tells what time it is"
        wrong = [
            f"that of broker {name} is {ms / 1000:+.0f} s away from ours"
            for name, ms in known.items()
            if abs(ms) > APART_MS
        ]
        if wrong:
            return CheckOutcome.WARNING, "; ".join(wrong)
        return CheckOutcome.OK, f"those of {len(known)} brokers agree with ours"

    async def _apart_ms(self, broker: str) -> int | None:
        """By how much a broker's clock is ahead; None where it does not tell."""
        begin_ms = self._catalog.now_ms()
        try:
            runtime = await self._client.runtime(broker, MASTER, timeout_s=ANSWER_S)
        except ClusterError:
            return None
        if runtime.now_ms is None:
            return None
        return runtime.now_ms + SECOND_MS // 2 - (begin_ms + self._catalog.now_ms()) // 2
