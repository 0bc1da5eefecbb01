"""The pages of undecided transactions: producers, checks, and deciding one by hand."""

from collections import Counter
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from msgspec import Meta
from starlette.responses import Response

from app.addresses import redacted_url
from app.db.rows import AuditEntry
from app.pause import Pause, paced
from app.security.access import Action, Kind, Principal, lacks, require_decision
from app.security.message_rights import visible
from app.services.bodies import decompress
from app.ui.bodies.bodies import preview_of
from app.ui.framework import forms, pages, tables, typed_forms
from app.ui.framework.console import Console
from app.ui.framework.forms import Form
from app.ui.framework.language import N_, _
from app.ui.framework.page_request import PageRequest
from app.ui.framework.typed_forms import Fields
from app.ui.messages.message import address
from app.ui.transactions import story
from app.ui.transactions.story import Story
from engine.broker import (
    Journey,
    Transaction,
    TransactionDecision,
    TransactionPage,
    TransactionState,
)
from engine.errors import Busy, Conflict, Invalid
from kitemq.model.conversion import convert
from kitemq.model.transactions import TransactionCallback

TALLY_MAX = 2_000
TALLY_PAGE = 100
CALLBACKS_SHOWN_MAX = 100
GROUPS_SHOWN_MAX = 20
WORD = "operator"
NO_JOURNEY = Journey("", "", [], [], [], complete=True)
DECISIONS = (
    ("", N_("select one")),
    ("commit", N_("commit: deliver the message")),
    ("rollback", N_("roll back: never deliver the message")),
)
DONE = {
    TransactionState.COMMITTED: "committed",
    TransactionState.ROLLED_BACK: "rolled_back",
    TransactionState.PENDING: "checks_resumed",
}


class TransactionsQuery(Fields, frozen=True):
    """The page of the list: the state, and the producer group whose transactions it has."""

    kind: Literal["pending", "given_up"] = "pending"
    group: Annotated[str, Meta(max_length=255)] = ""
    size: tables.Size = tables.SIZE_DEFAULT
    cursor: str = ""


class DecideFields(Fields, frozen=True):
    """The form that decides a transaction; the decision has a struct of its own."""

    do: str
    decision: str
    confirm: str


class DecisionFields(Fields, frozen=True):
    """The decision by hand."""

    decision: Annotated[Literal["commit", "rollback"], Meta(title=N_("The decision"))]


@dataclass(frozen=True)
class TransactionRow:
    """A transaction; `half_id` identifies it in paths, `half_href` is the half message.

    `begun_ms` is the time of its half message, `given_up_ms` the time when its checks were given
    up, or None. `href` is the committed message, "" if there is none.
    """

    transaction_id: str
    half_id: str
    group: str
    topic: str
    state: TransactionState
    begun_ms: int
    given_up_ms: int | None
    checks: int
    next_check_ms: int | None
    tag: str
    keys: tuple[str, ...]
    preview: str
    half_href: str
    href: str


@dataclass(frozen=True)
class GroupTally:
    """The undecided transactions of a producer group, among those that were examined."""

    group: str
    pending: int
    given_up: int
    live_producers: int
    callback: str


@dataclass(frozen=True)
class Tally:
    """Tallies by producer group over the `examined` oldest of `total` transactions."""

    groups: list[GroupTally]
    groups_total: int
    examined: int
    total: int


@dataclass(frozen=True)
class TransactionList:
    """The context of `transactions.html`; `unknown` says why there may be more of a state."""

    rows: list[TransactionRow]
    query: TransactionsQuery
    next_cursor: str
    pending_total: int
    given_up_total: int
    oldest_ms: int | None
    tally: Tally
    callbacks: list[TransactionCallback]
    callbacks_total: int
    check_interval_ms: int | None
    check_max: int | None
    pending_unknown: str
    given_up_unknown: str
    sizes: tuple[int, ...] = tables.SIZES


@dataclass(frozen=True)
class TransactionDetail:
    """The context of `transaction.html`."""

    row: TransactionRow
    form: Form
    is_open: bool
    live_producers: int
    callback: str
    check_max: int | None
    story: Story
    story_failure: str
    word: str = WORD
    decisions: tuple[tuple[str, str], ...] = DECISIONS


async def show(request: PageRequest) -> Response:
    """GET /transactions"""
    console = request.console
    query = request.read_query(TransactionsQuery)
    page = await _page(
        console, query.kind, group=query.group, after=query.cursor, count_max=query.size
    )
    first = await _page(console, "pending", count_max=1)
    stuck = await _page(console, "given_up", count_max=1)
    callbacks = request.services.transactions.callbacks.all()
    checks = await console.messaging.transactions.check_settings()
    await decompress([item.message for item in page.items])
    context = TransactionList(
        rows=[row_of(request.who, item) async for item in paced(page.items)],
        query=query,
        next_cursor=page.next or "",
        pending_total=first.count,
        given_up_total=stuck.count,
        oldest_ms=first.items[0].begun_ms if first.items else None,
        tally=await _tally(request, first.count + stuck.count),
        callbacks=list(
            map(request.services.transactions.described, callbacks[:CALLBACKS_SHOWN_MAX])
        ),
        callbacks_total=len(callbacks),
        check_interval_ms=checks.interval_ms,
        check_max=checks.count_max,
        pending_unknown=first.unknown,
        given_up_unknown=stuck.unknown,
    )
    return await pages.respond(
        request, "transactions.html", context, title=_("Transactions"), is_live=True
    )


def row_of(who: Principal, transaction: Transaction) -> TransactionRow:
    """A transaction as a row of a table."""
    message = visible(who, transaction.message)
    offset = transaction.offset
    state = transaction.state
    return convert(
        transaction,
        TransactionRow,
        half_id=message.offset_id,
        group=transaction.producer_group,
        given_up_ms=message.stored_ms if state is TransactionState.GIVEN_UP else None,
        tag=message.tag,
        keys=message.keys,
        preview=preview_of(message),
        half_href=f"/transactions/{message.offset_id}/half",
        href="" if offset is None else address(transaction.topic, transaction.queue, offset),
    )


async def detail(request: PageRequest) -> Response:
    """GET /transactions/{id}: the state of one, and the form that decides it."""
    return await _detail(request, typed_forms.fill({}, DecideFields))


async def half(request: PageRequest) -> Response:
    """GET /transactions/{id}/half: redirect to the record of the half message."""
    messaging = request.console.messaging
    record = await messaging.message_by_offset_id(request.path_params["id"])
    return forms.go(request, address(record.topic, record.queue, record.offset))


async def decide(request: PageRequest) -> Response:
    """POST /transactions/{id}: commit, roll back, or resume the checks."""
    form, fields = await request.read_form(DecideFields)
    service = request.services.transactions
    actor = request.actor
    # The audit trail names it by the message id, which the producer knows.
    transactions = request.console.messaging.transactions
    transaction = await transactions.get(request.path_params["id"])
    require_decision(request.who, transaction.topic, by_hand=True)
    try:
        if fields.do == "resume":
            done = await service.resume(
                actor, transaction.transaction_id, transaction.producer_group
            )
        else:
            decision = TransactionDecision(typed_forms.parse(form, DecisionFields).decision)
            if fields.confirm != WORD:
                form.refuse("confirm", _("Confirmation text does not match; no decision made."))
            if form.is_wrong:
                return await _detail(request, form)
            done = await service.decide_by_hand(
                actor, transaction.transaction_id, decision, transaction.producer_group
            )
    except Conflict as error:
        form.blame(error)
        return await _detail(request, form)
    return forms.go(
        request, f"/transactions/{transaction.message.offset_id}?done={DONE[done.state]}"
    )


async def _page(
    console: Console, kind: str, *, group: str = "", after: str = "", count_max: int
) -> TransactionPage:
    transactions = console.messaging.transactions
    listing = transactions.given_up if kind == "given_up" else transactions.pending
    return await listing(group=group, after=after, count_max=count_max)


async def _tally(request: PageRequest, total: int) -> Tally:
    """Tally the oldest transactions of both states by producer group, in small reads."""
    console, pause = request.console, Pause()
    counts: dict[str, Counter[str]] = {"pending": Counter(), "given_up": Counter()}
    examined = 0
    for kind, counter in counts.items():
        after: str | None = ""
        while after is not None and counter.total() < TALLY_MAX:
            page = await _page(console, kind, after=after, count_max=TALLY_PAGE)
            counter.update(item.producer_group for item in page.items)
            after = page.next
            await pause.when_due()
        examined += counter.total()
    live = await _live_producers(request)
    names = sorted({*counts["pending"], *counts["given_up"], *live})
    names.sort(key=lambda name: -(counts["pending"][name] + counts["given_up"][name]))
    rows = [
        GroupTally(
            group=name,
            pending=counts["pending"][name],
            given_up=counts["given_up"][name],
            live_producers=live.get(name, 0),
            callback=_callback_url(request, name),
        )
        for name in names[:GROUPS_SHOWN_MAX]
    ]
    return Tally(rows, len(names), examined, total)


async def _live_producers(request: PageRequest) -> dict[str, int]:
    """The connections by group at which checks are asked, here or at brokers."""
    remote = await request.console.messaging.transactions.remote_producers()
    return dict(Counter(request.services.transactions.producers.groups()) + Counter(remote))


def _callback_url(request: PageRequest, group: str) -> str:
    """Where the checks of a producer group are sent, without secrets; "" for nowhere."""
    callback = request.services.transactions.callbacks.find(group)
    return redacted_url(callback.url) if callback else ""


async def _detail(request: PageRequest, form: Form) -> Response:
    transactions = request.console.messaging.transactions
    transaction = await transactions.get(request.path_params["id"])
    await decompress([transaction.message])
    told, failure = await _story(request, transaction.transaction_id)
    context = TransactionDetail(
        row=row_of(request.who, transaction),
        form=form,
        is_open=transaction.state in (TransactionState.PENDING, TransactionState.GIVEN_UP),
        live_producers=(await _live_producers(request)).get(transaction.producer_group, 0),
        callback=_callback_url(request, transaction.producer_group),
        check_max=(await transactions.check_settings()).count_max,
        story=told,
        story_failure=failure,
    )
    return await pages.respond(
        request,
        "transaction.html",
        context,
        title=_("Transaction %(transaction_id)s", transaction_id=transaction.transaction_id),
    )


async def _story(request: PageRequest, transaction_id: str) -> tuple[Story, str]:
    """What happened to a transaction, and why some of it is unknown."""
    failure = ""
    entries: list[AuditEntry] = []
    try:
        entries = await request.services.audit.entries(
            limit=story.ENTRIES_MAX, kind="transaction", name=transaction_id
        )
    except Busy as error:
        failure = forms.sentence(error)
    if lacks(request.who, Action.READ, Kind.AUDIT):
        entries = [replace(entry, actor=_("(hidden)")) for entry in entries]
    try:
        journey = await request.services.journeys.find(transaction_id)
    except (Busy, Invalid) as error:
        journey, failure = NO_JOURNEY, forms.sentence(error)
    return story.tell(journey, entries, request.console.now_ms()), failure
