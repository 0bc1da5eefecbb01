"""What the tests of groups have in common: traffic to read, and what the API and the forms say."""

import re
from collections.abc import Callable

import httpx

from tests.app.ui.scenery import Scenery

HTML = {"accept": "text/html"}


def offsets(browser: httpx.Client, group: str, topic: str) -> list[int | None]:
    """What the API says is committed, queue by queue."""
    found = browser.get(f"/api/v1/groups/{group}/offsets", params={"topic": topic}).json()
    return [None if q["offset"] is None else int(q["offset"]) for q in found["queues"]]


def hidden(html: str, name: str) -> str:
    """The value of a form's hidden field."""
    if name == "offsets":
        found = re.search(r'<textarea name="offsets"[^>]*>\n(.*?)</textarea>', html, re.DOTALL)
    else:
        found = re.search(rf'name="{name}" value="([^"]*)"', html)
    assert found, name
    return found[1]


def consumer(scenery: Scenery, topic: str, group: str, count: int = 40) -> Callable[[int], None]:
    """A topic with messages in two queues, and what lets the group consume some of them."""
    scenery.post("/topics", {"name": topic, "read_queues": 2, "write_queues": 2})
    scenery.send(topic, [{"body": f"{n}", "queue": n % 2} for n in range(count)])

    def consume(some: int) -> None:
        scenery.ack(group, scenery.receive(group, topic, some))

    return consume


def audited(browser: httpx.Client, group: str) -> list[str]:
    """The actions in the group's audit, oldest first."""
    page = browser.get(f"/groups/{group}/history?format=json").json()
    return [entry["action"] for entry in page["entries"] if entry["result"] == "done"][::-1]
