"""Messages that must stay in order: a FIFO topic, a message group for each account, and a consumer
group that is ordered.

    python -m examples.ordered

Accounts are worked on side by side, the entries of one account strictly one after the other, also
when one of them fails and has to come again.
"""

import threading
from collections import defaultdict

from kitemq import Client, Consumer, Producer, Received, Refused

TOPIC, GROUP = "ledger", "bookkeepers"
ACCOUNTS = ("alice", "bob", "carol")
ENTRIES = 5


def main() -> None:
    with Client() as client:
        try:
            client.topics.create(TOPIC, type="FIFO")
        except Refused:
            print("the topic is there already")
        try:
            client.groups.create(GROUP, ordered=True)
        except Refused:
            client.groups.change(GROUP, ordered=True)

    with Producer() as producer:
        for entry in range(ENTRIES):
            for account in ACCOUNTS:
                producer.submit(TOPIC, f"{account} {entry}", message_group=account)
        producer.flush()

    booked: dict[str, list[int]] = defaultdict(list)
    done = threading.Event()

    def book(message: Received) -> None:
        account, entry = message.text.split()
        if account == "bob" and entry == "2" and message.attempt == 1:
            message.nack("bob's book is locked", delay_s=0)  # bob waits, the others do not
            return
        booked[account].append(int(entry))
        if sum(map(len, booked.values())) == len(ACCOUNTS) * ENTRIES:
            done.set()

    with Consumer(GROUP, TOPIC) as consumer:
        worker = threading.Thread(target=consumer.run, args=(book,), kwargs={"concurrency": 3})
        worker.start()
        done.wait(30)
        consumer.stop()
        worker.join()
    for account, entries in sorted(booked.items()):
        print(f"{account}: {entries}")


if __name__ == "__main__":
    main()
