"""The hits of a search by one text, for the palette and the page alike.

Names, pages and actions are matched on the pages' thread; messages with this id or key are looked
up in the index, for a limited time.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache

from app.capabilities import EMBEDDED, lack_of
from app.pause import paced
from app.security.access import Principal
from app.security.message_rights import visible_matches
from app.ui.framework import rights, saved_bar
from app.ui.framework.language import N_, _, translated
from app.ui.framework.page_request import PageRequest
from app.ui.framework.templating import segment
from app.ui.navigation import matching
from app.ui.navigation.matching import EQUAL, PREFIX, TYPO, ranked
from app.ui.navigation.places import ACTIONS, OBJECT_ACTIONS, PLACES, Destination, ObjectAction
from engine.broker import Lookup
from engine.errors import EngineError
from engine.message import StoredMessage
from kitemq.model.access import Kind
from kitemq.model.server import Capabilities

TEXT_CHARS_MAX = 512
ACTION_NAMES_MAX = 3
PROBED_TOPICS_MAX = 1_000  # in so many a key is looked up at once
ACTION_TERMS = [term for act in OBJECT_ACTIONS for term in act.terms.split()]
IsTerm = Callable[[str, Sequence[str]], bool]  # whether a word of the text is one of the terms


class HitKind(StrEnum):
    """What a hit leads to; of equal matches the first kind comes first."""

    MESSAGE = N_("Message")
    TOPIC = N_("Topic")
    GROUP = N_("Group")
    PAGE = N_("Page")
    ACTION = N_("Action")
    CLIENT = N_("Client")
    VIEW = N_("View")


Best = Callable[[HitKind, str], list[tuple[int, str]]]  # the names that match, with their ranks


@dataclass(frozen=True)
class Hit:
    """A destination; the lower the rank, the better it matches.

    `preference` is a choice of this browser that a script makes instead, as "theme=dark".
    """

    kind: HitKind
    title: str
    href: str
    icon: str
    rank: int = PREFIX
    preference: str = ""

    @property
    def is_exact(self) -> bool:
        return self.rank == EQUAL


@dataclass(frozen=True)
class Hits:
    """The best hits, and how many of each kind match in all, where that is more."""

    text: str
    hits: list[Hit]
    totals: Mapping[HitKind, int]
    messages: Sequence[StoredMessage] = ()  # with this key, for who asks


@dataclass(frozen=True)
class Directory:
    """All names; `saved` maps the name of a view to its address."""

    topics: Sequence[str] = ()
    groups: Sequence[str] = ()
    clients: Sequence[str] = ()
    saved: Mapping[str, str] = field(default_factory=dict)
    paused: frozenset[str] = frozenset()  # groups
    capabilities: Capabilities = EMBEDDED

    def has(self, place: Destination | ObjectAction) -> bool:
        """Whether the engine has what a place is about."""
        return not (place.capability and lack_of(self.capabilities, place.capability))


async def search(
    request: PageRequest, text: str, *, each_max: int, budget_s: float, is_typing: bool = False
) -> Hits:
    """The hits of `text`, at most `each_max` of a kind; messages as far as found in `budget_s`.

    While somebody `is_typing` a name, no index of keys is read where there are many topics.
    """
    text, who = text.strip()[:TEXT_CHARS_MAX], request.who
    directory = await _directory(request, text)
    is_many = is_typing and len(directory.topics) > PROBED_TOPICS_MAX
    names = (*directory.topics, *directory.groups, *directory.clients) if is_many else ()
    messages, matches = await _messages(request, text, budget_s, names)
    result = await request.console.render(lambda: find(text, directory, who, messages, each_max))
    return replace(result, messages=matches)


def find(
    text: str, directory: Directory, who: Principal, messages: Sequence[Hit] = (), each_max: int = 8
) -> Hits:
    """The best hits of each kind; without letters pages, actions and saved views. Pure."""

    @cache
    def best(kind: HitKind, query: str) -> list[tuple[int, str]]:
        names = {
            HitKind.TOPIC: directory.topics,
            HitKind.GROUP: directory.groups,
            HitKind.CLIENT: directory.clients,
        }
        return ranked(query, names[kind])

    by_kind = {HitKind.MESSAGE: list(messages)}
    totals: dict[HitKind, int] = {}
    for kind, folder, icon in (
        (HitKind.TOPIC, "/topics/", "topic"),
        (HitKind.GROUP, "/groups/", "group"),
        (HitKind.CLIENT, "/clients/", "plug"),
    ):
        # Of ten thousand names that match only those that are shown become hits.
        matches = best(kind, text) if text else []
        totals[kind] = len(matches)
        by_kind[kind] = [
            Hit(kind, name, folder + segment(name), icon, rank) for rank, name in matches[:each_max]
        ]
    by_kind[HitKind.VIEW] = [
        Hit(HitKind.VIEW, name, directory.saved[name], "list", rank)
        for rank, name in ranked(text, directory.saved)
    ]
    present = directory.has
    by_kind[HitKind.PAGE] = _places(HitKind.PAGE, text, list(filter(present, PLACES)), who)
    by_kind[HitKind.ACTION] = [
        *_places(HitKind.ACTION, text, list(filter(present, ACTIONS)), who),
        *_object_actions(text, directory, who, best),
    ]
    if not text:  # the whole menu, in its order
        by_kind[HitKind.VIEW] = by_kind[HitKind.VIEW][:each_max]
        return Hits(text, [hit for each in by_kind.values() for hit in each], {})
    totals = {kind: len(each) for kind, each in by_kind.items()} | totals
    kinds = list(HitKind)
    hits = [hit for each in by_kind.values() for hit in each[:each_max]]
    hits.sort(key=lambda hit: (hit.rank, kinds.index(hit.kind)))
    return Hits(text, hits, {kind: count for kind, count in totals.items() if count > each_max})


def _places(kind: HitKind, text: str, places: Sequence[Destination], who: Principal) -> list[Hit]:
    strict = _places_by(matching.begins, kind, text, places, who)
    return strict or _places_by(matching.nearly_begins, kind, text, places, who)


def _places_by(
    is_term: IsTerm, kind: HitKind, text: str, places: Sequence[Destination], who: Principal
) -> list[Hit]:
    words = matching.words_of(text)
    hits = []
    for each in places:
        # The English name matches in every language.
        titles = f"{each.title} {translated(each.title)}"
        terms = matching.TOKEN.findall(f"{titles} {each.terms}".lower())
        is_meant = all(is_term(word, terms) for word in words)
        if is_meant and rights.lock_of(who, "", (each.action, each.kind, "")) is None:
            title = translated(each.title)
            ((rank, _title),) = ranked(text, [title]) or [(TYPO, title)]
            hits.append(Hit(kind, title, each.href, each.icon, rank, each.preference))
    return hits


def _object_actions(text: str, directory: Directory, who: Principal, best: Best) -> list[Hit]:
    """What can be done to the names that the text holds beside the words for it."""
    words = matching.words_of(text)
    is_strict = any(matching.begins(word, ACTION_TERMS) for word in words)
    is_term = matching.begins if is_strict else matching.nearly_begins
    hits = []
    for act in filter(directory.has, OBJECT_ACTIONS if text else ()):
        others = [word for word in words if not is_term(word, act.terms.split())]
        is_meant = 0 < len(others) < len(words)
        kind = HitKind.TOPIC if act.kind is Kind.TOPIC else HitKind.GROUP
        names = best(kind, " ".join(others))[:ACTION_NAMES_MAX] if is_meant else []
        if act.is_offered and len(words) == 1:
            names = [(TYPO, name) for __, name in best(kind, text)[:1]]
        for rank, name in names:
            if _is_possible(act, name, directory, who):
                title = translated(act.title) % {"name": name}
                href = act.href.format(segment(name))
                hits.append(Hit(HitKind.ACTION, title, href, act.icon, max(rank, PREFIX)))
    return hits


def _is_possible(act: ObjectAction, name: str, directory: Directory, who: Principal) -> bool:
    is_for_it = act.for_paused is None or act.for_paused == (name in directory.paused)
    return is_for_it and rights.lock_of(who, "", (act.action, act.kind, name)) is None


async def _directory(request: PageRequest, text: str) -> Directory:
    glance = await saved_bar.glance(request)
    saved = {view.name: view.href for view in glance.views}
    capabilities = request.console.messaging.capabilities
    if not text:
        return Directory(saved=saved, capabilities=capabilities)
    administration = request.administration
    is_system = "%" in text or "sys" in text.lower()
    topics = await administration.topics(system=is_system)
    groups = await administration.groups()
    everyone = await administration.members.everyone()
    members = [member.client async for __, member in paced(everyone)]
    connected = [each.client for each in request.services.connections.all()]
    return Directory(
        topics=[topic.name for topic in topics],
        groups=[group.name for group in groups],
        clients=list(dict.fromkeys([*members, *connected])),
        saved=saved,
        paused=frozenset(group.name for group in groups if not group.consume_enabled),
        capabilities=capabilities,
    )


async def _messages(
    request: PageRequest, text: str, budget_s: float, names: Sequence[str]
) -> tuple[list[Hit], Sequence[StoredMessage]]:
    """A hit for the message with this id, or else for the messages with this key, and those.

    A text in one of these names is not looked up.
    """
    if len(text.split()) != 1:
        return [], []  # ids and keys have no blanks
    if await request.services.search.record_of_id(text) is not None:
        return [_id_hit(text)], []
    if _is_in(text, names):
        return [_key_search(text)], []
    try:
        lookup = await request.services.search.by_text(text, budget_s=budget_s)
    except EngineError:
        return [], []  # too many searches wait: the names are there all the same
    who = request.who
    return message_hits(text, who, lookup), visible_matches(who, text, lookup.messages)


def message_hits(text: str, who: Principal, lookup: Lookup) -> list[Hit]:
    """The hits of messages whose id or key is `text`; a key only where `who` may read it."""
    kind, quoted = HitKind.MESSAGE, segment(text)
    if any(text in (each.message_id, each.offset_id) for each in lookup.messages):
        return [_id_hit(text)]
    if visible_matches(who, text, lookup.messages):
        title = _("Messages with key %(key)s", key=text)
        return [Hit(kind, title, f"/messages?by=key&key={quoted}", "message", EQUAL)]
    return [] if lookup.is_over else [_key_search(text)]  # its time was up before


def _id_hit(text: str) -> Hit:
    title = _("Message with id %(id)s", id=text)
    return Hit(HitKind.MESSAGE, title, f"/m/{segment(text)}", "message", EQUAL)


def _key_search(text: str) -> Hit:
    title = _("Search for messages with key %(key)s", key=text)
    href = f"/messages?by=key&key={segment(text)}"
    return Hit(HitKind.MESSAGE, title, href, "search", TYPO)


def _is_in(text: str, names: Sequence[str]) -> bool:
    words = text.lower()
    return any(words in name.lower() for name in names)
