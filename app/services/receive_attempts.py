"""What was delivered to attempts whose clients may repeat them."""

from collections import OrderedDict

from engine.broker import Receipt

ATTEMPTS_MAX = 10_000
REMEMBERED_MAX = 100_000  # receipts of all attempts: some 20 MiB


class ReceiveAttempts:
    """Deliveries by attempt id: a client that repeats an id did not receive the answer.

    Bounded to the latest ATTEMPTS_MAX, with at most REMEMBERED_MAX receipts.
    """

    def __init__(self) -> None:
        self._receipts: OrderedDict[tuple[str, str], list[Receipt]] = OrderedDict()
        self.count = 0  # of the receipts

    def add(self, group: str, attempt: str, receipts: list[Receipt]) -> None:
        self.take(group, attempt)
        self._receipts[group, attempt] = receipts
        self.count += len(receipts)
        while len(self._receipts) > ATTEMPTS_MAX or self.count > REMEMBERED_MAX:
            self.count -= len(self._receipts.popitem(last=False)[1])

    def take(self, group: str, attempt: str) -> list[Receipt]:
        receipts = self._receipts.pop((group, attempt), [])
        self.count -= len(receipts)
        return receipts
