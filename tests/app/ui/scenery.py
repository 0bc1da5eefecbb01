"""A server's worth of traffic for the console's tests and pictures, sent through the API."""

import json
from typing import Any

import httpx

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DEAD_GROUP = "billing"
SCRIPT_BODY = "<script>alert(1)</script>"
HTMX_BODY = '<div hx-get="/evil" hx-trigger="load">swap me</div>'
NAMES = ("Ada Lovelace", "Grace Hopper", "Radia Perlman", "Barbara Liskov", "Frances Allen")
TAGS = ("created", "paid", "shipped", "cancelled")
TOPICS = (
    ("orders", "NORMAL"),
    ("payments", "FIFO"),
    ("shipments", "NORMAL"),
    ("reminders", "DELAY"),
    ("stock-levels", "NORMAL"),
    ("user-events", "NORMAL"),
    ("transfers", "TRANSACTION"),
)
# Nothing listens there; quiet hours hold what would be sent, but for what is critical.
ALERT_RECEIVERS = (
    {
        "name": "oncall",
        "kind": "webhook",
        "url": "http://127.0.0.1:9/hooks/token",
        "signing_secret": "signs",
        "quiet_days": ["sat", "sun"],
        "quiet_from": "00:00",
        "quiet_to": "00:00",
    },
    {
        "name": "mailbox",
        "kind": "email",
        "enabled": False,
        "smtp_host": "smtp.example.org",
        "mail_from": "kitemq@example.org",
        "mail_to": ["oncall@example.org"],
        "group_s": 60,
    },
)
# The first one fires as soon as it is evaluated.
ALERT_RULES = (
    {
        "name": "billing is behind",
        "kind": "lag",
        "group_pattern": "billing",
        "threshold": 10,
        "for_s": 0,
        "severity": "critical",
    },
    {"name": "old messages", "kind": "lag_age", "threshold": 86_400},
    {"name": "loyalty is behind", "kind": "lag", "group_pattern": "loyalty*", "threshold": 100},
    {"name": "engine", "kind": "engine", "for_s": 0},
)
# All that Markdown has, and what must not become markup.
NOTE = """Every order that the shop takes, **once**. Owned by *team checkout*; see
[the shop's handbook](https://handbook.example.org/orders).

## What a message holds

| part | what it is |
|:-----|-----------:|
| tag | `created`, `paid`, `shipped` or `cancelled` |
| key | the number of the order |

```json
{"order": 1004, "total": 19.0}
```

1. The total is in euros.
2. A cancelled order is never sent again.

> Ask before changing the keys: the warehouse looks orders up by them.

<script>alert(1)</script> ![a picture](https://elsewhere.example.org/x.png)
"""
ERRORS = (
    "ValueError: total is missing in line 3",
    "TimeoutError: the payment service did not answer within 5 s",
    "KeyError: 'customer'",
)


def order(number: int) -> dict[str, Any]:
    """A message as the API takes it."""
    body = {
        "order": 1000 + number,
        "customer": {"id": number % 77, "name": NAMES[number % 5], "vip": number % 3 == 0},
        "lines": [{"sku": f"K-{number % 9}", "quantity": number % 4 + 1, "price": 9.5}],
        "total": 9.5 * (number % 4 + 1),
        "note": None,
    }
    return {
        "body": json.dumps(body),
        "tag": TAGS[number % 4],
        "keys": [str(1000 + number)],
        "properties": {"source": "shop", "region": "eu"},
    }


class Scenery:
    """Sends traffic to the server at `base`."""

    def __init__(self, base: str) -> None:
        self._api = httpx.Client(base_url=f"{base}/api/v1", timeout=30)

    def close(self) -> None:
        self._api.close()

    def post(self, path: str, content: object) -> Any:
        answer = self._api.post(path, json=content)
        assert answer.status_code < 300, answer.text
        return answer.json()

    def get(self, path: str) -> Any:
        answer = self._api.get(path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def put(self, path: str, content: object = None) -> None:
        answer = self._api.put(path, json=content)
        assert answer.status_code < 300, answer.text

    def patch(self, path: str, content: object) -> None:
        answer = self._api.patch(path, json=content)
        assert answer.status_code < 300, answer.text

    def delete(self, path: str) -> None:
        answer = self._api.delete(path)
        assert answer.status_code < 300, answer.text

    def send(self, topic: str, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Send messages; their ids and places."""
        answer = self.post(f"/topics/{topic}/messages", {"messages": messages})
        stored: list[dict[str, Any]] = answer["messages"]
        return stored

    def send_file(self, topic: str, content: str) -> str:
        """Send the messages of a file by the console; the name of their results."""
        base = str(self._api.base_url).removesuffix("/api/v1/")
        fields = {"step": "send", "content": content}
        answer = self._api.post(f"{base}/topics/{topic}/produce/file", data=fields)
        assert answer.status_code == 303, answer.text
        return answer.headers["location"].rpartition("/")[2]

    def receive(self, group: str, topic: str, count: int) -> list[dict[str, Any]]:
        """Messages for the group's first client, which holds them as long as one may."""
        answer = self.post(
            f"/groups/{group}/receive",
            {"topic": topic, "max": count, "invisible_ms": 12 * HOUR_MS, "client": f"{group}-1"},
        )
        deliveries: list[dict[str, Any]] = answer["deliveries"]
        return deliveries

    def ack(self, group: str, deliveries: list[dict[str, Any]]) -> None:
        if deliveries:
            receipts = [delivery["receipt"] for delivery in deliveries]
            self.post(f"/groups/{group}/ack", {"receipts": receipts})

    def build(self) -> None:
        """Topics of each type, a healthy group, one in arrears, one with dead letters."""
        for receiver in ALERT_RECEIVERS:
            self.post("/alerts/receivers", receiver)
        for rule in ALERT_RULES:
            self.post("/alerts/rules", rule)
        for name, kind in TOPICS:
            self.post("/topics", {"name": name, "type": kind})
        self.post("/groups", {"name": DEAD_GROUP, "retry_max": 0})
        for first in range(0, 400, 20):
            self.send("orders", [order(number) for number in range(first, first + 20)])
        self.send("shipments", [order(number) for number in range(120)])
        clicks = [{"body": f"click {n}", "tag": "click", "queue": n % 4} for n in range(250)]
        self.send("user-events", clicks)
        self.send(
            "payments",
            [
                {"body": f"payment {n}", "message_group": f"customer-{n % 7}", "tag": "paid"}
                for n in range(60)
            ],
        )
        self.send("reminders", [{"body": "remember me", "delay_level": 18}])
        self.mark()
        self.wait()
        self.send(
            "orders",
            [
                {"body": SCRIPT_BODY, "tag": "odd"},
                {"body": HTMX_BODY, "tag": "odd", "keys": ["<b>key</b>"]},
                {"body": "iVBORw0KGgoAAAANSUhEUgAAAAEAAAAB", "encoding": "base64"},
            ],
        )
        self.consume()

    def mark(self) -> None:
        """Stars, and a note with all that Markdown has."""
        for name in ("payments", "shipments"):
            self.put(f"/topics/{name}/star")
        self.put("/topics/orders/note", {"text": NOTE, "version": "0"})

    def wait(self) -> None:
        """Messages that wait for an exact time, and transactions that nobody decides.

        They wait longer than the slowest machine takes for all tests that look at them.
        """
        reminders = [
            {
                "id": f"REMINDER{n}",
                "body": f"remember invoice {n}",
                "delay_ms": 12 * HOUR_MS + n * 7 * MINUTE_MS,
                "tag": "due",
            }
            for n in range(30)
        ]
        self.send("reminders", reminders)
        halves = [
            {"id": f"TRANSFER{n}", "body": f"transfer {n}", "transaction_group": "bank"}
            for n in range(4)
        ]
        self.send("transfers", halves)

    def consume(self) -> None:
        """Groups at different places: done, behind, in flight, failing."""
        for _ in range(3):
            self.ack("analytics", self.receive("analytics", "user-events", 200))
        self.ack("warehouse", self.receive("warehouse", "orders", 150))
        self.receive("warehouse", "shipments", 12)
        self.receive("mailer", "payments", 1)
        failed = self.receive(DEAD_GROUP, "orders", 9)
        nacks = [
            {"receipt": delivery["receipt"], "error": ERRORS[number % 3]}
            for number, delivery in enumerate(failed)
        ]
        self.post(f"/groups/{DEAD_GROUP}/nack", {"nacks": nacks, "client": f"{DEAD_GROUP}-1"})
        self.ack(DEAD_GROUP, self.receive(DEAD_GROUP, "orders", 120))
        self.ack("reports", self.receive("reports", "user-events", 40))
        move = {"topics": ["user-events"], "to": "shift", "by": -5, "force": True}
        self.post("/groups/reports/resets", move)
