"""Somebody at the console of any server, by HTTP and without script: reads pages, sends forms."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlencode, urlsplit
from uuid import uuid4

import httpx

from tests.app.ui.controls import Controls, PostForm
from tests.app.ui.scenery import Scenery
from tests.live import LiveServer
from tests.patience import STEP_S, until

LIMIT_S = 60.0
FORM = {"content-type": "application/x-www-form-urlencoded"}


class Visitor:
    """Topics and groups have names of the visitor's own, as tests share a server or a cluster.

    `api` sends and receives what producers and consumers would.
    """

    def __init__(self, http: httpx.Client, api: Scenery) -> None:
        self.http, self.api = http, api
        self._suffix = f"-{uuid4().hex[:8]}"

    def named(self, name: str) -> str:
        """A topic or group by its short name."""
        return f"{name}{self._suffix}"

    def topic(self, name: str, *bodies: str, kind: str = "NORMAL") -> str:
        """A new topic whose messages lie in its first queue; its whole name."""
        topic = self.named(name)
        self.api.post("/topics", {"name": topic, "type": kind})
        if bodies:
            self.api.send(topic, [{"body": body, "queue": 0} for body in bodies])
            self.see(f"/topics/{topic}", "queue-0", f"{len(bodies)}")
        return topic

    def group(self, name: str, **settings: object) -> str:
        """A new group; its whole name."""
        group = self.named(name)
        self.api.post("/groups", {"name": group, **settings})
        return group

    def commit(self, group: str, topic: str, offset: int) -> None:
        """Consume the first queue up to an offset, as a client that pulls."""
        place = {"topic": topic, "queue": 0, "offset": str(offset)}
        self.api.put(f"/groups/{group}/offsets", place)

    def receive(self, group: str, topic: str, count: int) -> list[str]:
        """Bodies of so many messages, once they are there; all are acknowledged."""
        bodies: list[str] = []

        def is_enough() -> bool:
            deliveries = self.api.receive(group, topic, count - len(bodies))
            self.api.ack(group, deliveries)
            bodies.extend(each["body"] for each in deliveries)
            return len(bodies) >= count

        until(is_enough, f"{group} has {bodies} of {topic}", LIMIT_S)
        return sorted(bodies)

    def page(self, path: str, status: int = 200) -> Controls:
        """A page that answers with this status."""
        return page_of(self.http.get(path), status)

    def text(self, path: str, part: str = "main") -> str:
        """The words of the element with this id; "" where the page has none."""
        return words(self.page(path), part)

    def see(self, path: str, part: str, *texts: str) -> str:
        """Look until the element holds all these texts, since brokers take a moment; its words."""

        end_s = time.monotonic() + LIMIT_S
        while not all(each in (text := self.text(path, part)) for each in texts):
            assert time.monotonic() < end_s, f"{path} lacks some of {texts} in #{part}: {text}"
            time.sleep(STEP_S)
        return text

    def form(self, path: str, action: str) -> PostForm:
        """The form of a page that posts to this path."""
        forms = self.page(path).forms
        matching = [each for each in forms if urlsplit(each.action).path == action]
        assert matching, (action, [each.action for each in forms])
        return matching[0]

    def submit(self, path: str, action: str, **fields: str) -> tuple[str, Controls]:
        """Fill in a page's form and send it; the address and the page where that leads."""
        form = self.form(path, action)
        assert [each for each in form.buttons if not each.is_disabled], f"{action} is locked"
        unknown = fields.keys() - form.fields.keys() - {each.name for each in form.buttons}
        assert not unknown, f"{action} has no fields {unknown}"
        answer = self.post(form.action, form.sent() | fields)
        return answer.url.raw_path.decode(), page_of(answer)

    def post(self, path: str, fields: dict[str, str]) -> httpx.Response:
        """Send fields as a form does, also where there are none; the answer, redirects followed."""
        return self.http.post(path, content=urlencode(fields), headers=FORM)


def page_of(answer: httpx.Response, status: int = 200) -> Controls:
    """The page of an answer with this status."""
    page = Controls(answer.text)
    assert answer.status_code == status, (answer.status_code, words(page))
    return page


def words(page: Controls, part: str = "main") -> str:
    """The words of an element by its id."""
    return " ".join(page.texts.get(part, "").split())


@contextmanager
def visiting(server: LiveServer) -> Iterator[Visitor]:
    """A visitor of a server that knows no users, or lets this one log in."""
    headers = {"accept": "text/html", "origin": server.url}
    api = Scenery(server.url)
    try:
        with httpx.Client(
            base_url=server.url, headers=headers, timeout=LIMIT_S, follow_redirects=True
        ) as http:
            yield Visitor(http, api)
    finally:
        api.close()
