"""Getting started: five steps from the first message to a dead letter that is sent again.

The server ticks a step off when it has seen it on the guide's topic and group; consuming and
failing are known since its start.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from starlette.responses import Response

from app.addresses import bracketed
from app.grpc_settings import listen_at
from app.security.access import Action, Kind, require
from app.ui.framework import forms, pages
from app.ui.framework.language import N_, _, translated
from app.ui.framework.page_request import PageRequest
from engine.errors import NotFound
from engine.message import Message

TOPIC = GROUP = "getting-started"
EXAMPLES: Mapping[str, Mapping[str, str]] = tomllib.loads(
    Path(__file__).with_name("start.toml").read_text("utf-8")
)
SHOWN_ORIGIN, SHOWN_GRPC = "http://127.0.0.1:8080", "127.0.0.1:8081"
GRPC_LANGUAGES = frozenset({"Java", "Go"})
TEXTS = {
    "send": (N_("Send a message"), N_("The topic is created by its first message.")),
    "consume": (
        N_("Consume it"),
        N_("A consumer group receives a message and acknowledges it with its receipt."),
    ),
    "fail": (
        N_("Let one fail"),
        N_("A failed message is redelivered after a wait; this group makes two attempts."),
    ),
    "die": (
        N_("Find it among the dead letters"),
        N_("When its last attempt fails, a message becomes a dead letter of its group."),
    ),
    "resend": (
        N_("Resend it"),
        N_("Once the cause is fixed, dead letters are resent, one by one or all that match."),
    ),
}


@dataclass(frozen=True)
class StartStep:
    """A step of the guide; `codes` are pairs of a language and its example."""

    name: str
    title: str
    text: str
    is_done: bool
    codes: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class StartGuide:
    """The guide with the addresses of this server; `grpc` is "" where none is known."""

    steps: Sequence[StartStep]
    grpc: str
    topic: str = TOPIC

    @property
    def done(self) -> int:
        return sum(step.is_done for step in self.steps)

    @property
    def next(self) -> str:
        """The name of the first step that is not done; "" if all are."""
        return next((step.name for step in self.steps if not step.is_done), "")


@dataclass(frozen=True)
class StartPage:
    """The context of `start.html`."""

    guide: StartGuide


async def show(request: PageRequest) -> Response:
    """GET /help/start"""
    context = StartPage(await guide(request))
    return await pages.respond(
        request, "start.html", context, title=_("Getting started"), section="start", is_live=True
    )


async def send(request: PageRequest) -> Response:
    """POST /help/start: send the first message."""
    require(request.who, Action.PRODUCE, Kind.TOPIC, TOPIC)
    values = await forms.read(request)
    message = Message(topic=TOPIC, body=b"hello", tag="first", keys=("1",))
    await request.console.messaging.send([message])
    return forms.go(request, forms.local_path(values.one("next")))


async def is_new(request: PageRequest) -> bool:
    """Whether the server has no topic but that of the guide."""
    return all(topic.name == TOPIC for topic in await request.administration.topics())


async def guide(request: PageRequest) -> StartGuide:
    """The guide for the server that a request belongs to, under the address that it was called."""
    url, settings = request.base_url, request.services.settings
    grpc = listen_at(settings, settings.host, settings.port)
    place = f"{bracketed(url.hostname or '')}:{grpc[1]}" if grpc and grpc[1] else ""
    if grpc and settings.grpc_advertised:
        place = settings.grpc_advertised[0]
    done = await _seen(request)
    steps = [
        StartStep(
            name,
            translated(title),
            translated(text),
            done[name],
            [
                (language, _addressed(code, str(url).rstrip("/"), place))
                for language, code in EXAMPLES[name].items()
                if place or language not in GRPC_LANGUAGES
            ],
        )
        for name, (title, text) in TEXTS.items()
    ]
    return StartGuide(steps, place)


async def _seen(request: PageRequest) -> dict[str, bool]:
    """The steps by name, and whether the server has seen each."""
    administration = request.administration
    try:
        stats = await administration.topic_stats(TOPIC)
        is_sent = any(queue.max_offset for queue in stats.queues)
    except NotFound:
        is_sent = False
    try:
        lag = await administration.lag(GROUP)
    except NotFound:
        return {name: name == "send" and is_sent for name in TEXTS}
    figures = request.console.meter.group(GROUP)
    acked, retried = (figures.acked, figures.retried) if figures else (None, None)
    return {
        "send": is_sent,
        "consume": acked.total > 0 if acked else bool(lag.queues),
        "fail": lag.dead > 0 or bool(retried and retried.total),
        "die": lag.dead > 0,
        "resend": lag.resent > 0,
    }


def _addressed(code: str, origin: str, grpc: str) -> str:
    return code.strip().replace(SHOWN_ORIGIN, origin).replace(SHOWN_GRPC, grpc)
