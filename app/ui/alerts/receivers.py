"""The pages of a receiver: create, change, test and delete it, and what it was sent."""

import re
from dataclasses import dataclass, replace
from typing import Annotated

from msgspec import Meta, structs
from starlette.responses import Response

from app.db.alert_rows import ReceiverRow
from app.services.alerts.receiver_checks import GROUP_MAX_S
from app.services.alerts.receivers import Receivers, shown
from app.ui.alerts.alerts import AlertsQuery, parse_id
from app.ui.alerts.notifications import DAYS, KINDS, AlertDeliveryRow, delivery_row, kind_word
from app.ui.framework import forms, pages, typed_forms, zones
from app.ui.framework.forms import Form, Posted
from app.ui.framework.language import N_, _
from app.ui.framework.page_request import PageRequest
from app.ui.framework.typed_forms import Fields, InvalidField, Verbatim
from engine.errors import Conflict, Invalid, Refused
from kitemq.model.alerts import AlertReceiver, ReceiverKind, SmtpSecurity

DELIVERIES_SHOWN = 20
ON = "on"
SECURITIES = (
    (SmtpSecurity.STARTTLS, "STARTTLS"),
    (SmtpSecurity.TLS, "TLS"),
    (SmtpSecurity.NONE, N_("None")),
)
SECRETS = ("signing_secret", "smtp_password")
SEPARATORS = re.compile(r"[\s,;]+")


def parse_receiver_name(text: str) -> str:
    if not text.strip():
        raise InvalidField(_("Enter a name for the receiver."))
    return text.strip()


def parse_addresses(text: str) -> tuple[str, ...]:
    """Mail addresses, apart by spaces, commas or lines."""
    return tuple(dict.fromkeys(each for each in SEPARATORS.split(text) if each))


class ReceiverFields(Fields, frozen=True, kw_only=True):
    """The fields of every receiver."""

    name: Annotated[str, parse_receiver_name] = ""
    quiet_days: tuple[str, ...]
    quiet_from: str
    quiet_to: str
    quiet_zone: str
    critical_passes: bool
    group_s: Annotated[int, Meta(title=N_("Group for"), le=GROUP_MAX_S)]
    is_enabled: bool


class HookFields(ReceiverFields, frozen=True, kw_only=True):
    """The fields of a webhook or a chat. Empty ones of secrets keep what is stored."""

    url: str
    signing_secret: Verbatim
    drop_signing_secret: bool


class MailFields(ReceiverFields, frozen=True, kw_only=True):
    """The fields of a mail receiver. An empty password keeps the stored one."""

    smtp_host: str
    smtp_port: Annotated[int, Meta(title=N_("Port"), ge=1, le=65_535)]
    smtp_security: Annotated[SmtpSecurity, Meta(title=N_("Encryption"))]
    smtp_username: str
    smtp_password: Verbatim
    mail_from: str
    mail_to: Annotated[tuple[str, ...], parse_addresses]


class NewReceiverQuery(Fields, frozen=True):
    """The kind of the receiver to be created."""

    kind: ReceiverKind = ReceiverKind.WEBHOOK


@dataclass(frozen=True)
class ReceiverForm:
    """The context of `alert_receiver.html`; a new receiver has none, and no deliveries."""

    kind: ReceiverKind
    kind_label: str
    form: Form
    receiver: AlertReceiver | None
    deliveries: list[AlertDeliveryRow]
    older: int | None
    rules: list[str]
    zones: tuple[str, ...]
    kinds: tuple[tuple[str, str], ...] = KINDS
    days: tuple[tuple[str, str], ...] = DAYS
    securities: tuple[tuple[str, str], ...] = SECURITIES


@dataclass(frozen=True)
class ReceiverDeletion:
    """The context of `alert_receiver_delete.html`: the rules that keep it from being deleted."""

    receiver: AlertReceiver
    rules: list[str]
    form: Form


async def new(request: PageRequest) -> Response:
    """GET /alerts/receivers/new: the form of a kind, which the query names."""
    kind = request.read_query(NewReceiverQuery).kind
    return await _page(request, ReceiverRow(name="", kind=kind))


async def create(request: PageRequest) -> Response:
    """POST /alerts/receivers/new"""
    posted = await forms.read(request)
    kind = typed_forms.query({"kind": posted.one("kind")}, NewReceiverQuery).kind
    return await _take(request, ReceiverRow(name="", kind=kind), posted)


async def show(request: PageRequest) -> Response:
    """GET /alerts/receivers/{id}"""
    return await _page(request, await _receiver(request))


async def change(request: PageRequest) -> Response:
    """POST /alerts/receivers/{id}"""
    return await _take(request, await _receiver(request), await forms.read(request))


async def test(request: PageRequest) -> Response:
    """POST /alerts/receivers/{id}/test: send it a test."""
    row = await _receiver(request)
    await request.services.alerts.receivers.test(request.actor, row.id)
    return forms.go(request, f"/alerts/receivers/{row.id}?done=tested#deliveries")


async def delete(request: PageRequest) -> Response:
    """POST /alerts/receivers/{id}/delete: delete it if the form repeats its name."""
    row = await _receiver(request)
    wrong = _("That is not the name of the receiver.")
    form = await forms.confirmation(request, row.name, wrong)
    if not form.is_wrong:
        try:
            await request.services.alerts.receivers.delete(request.actor, row.id)
            return forms.go(request, "/alerts?done=deleted")
        except Conflict as error:
            form.blame(error)
    return await delete_page(request, form)


async def delete_page(request: PageRequest, form: Form | None = None) -> Response:
    """GET /alerts/receivers/{id}/delete"""
    row = await _receiver(request)
    rules = request.services.alerts.receivers.rules_naming(row.id)
    context = ReceiverDeletion(shown(row), rules, form or Form({"confirm": ""}))
    title = _("Delete receiver")
    return await pages.respond(request, "alert_receiver_delete.html", context, title=title)


async def _receiver(request: PageRequest) -> ReceiverRow:
    receivers = await request.services.alerts.loaded_receivers()
    return receivers.get(parse_id(request.path_params["id"]))


async def _take(request: PageRequest, before: ReceiverRow, posted: Posted) -> Response:
    receivers = await request.services.alerts.loaded_receivers()
    form, row = _read(posted, before)
    if not form.is_wrong:
        try:
            row = await _save(request, receivers, row, is_password_new=bool(_password(form)))
            done = "changed" if before.id else "created"
            return forms.go(request, f"/alerts/receivers/{row.id}?done={done}")
        except (Invalid, Conflict, Refused) as error:
            form.blame(error)
    form.values |= {name: "" for name in SECRETS if name in form.values}
    return await _page(request, before, form)


async def _save(
    request: PageRequest, receivers: Receivers, row: ReceiverRow, *, is_password_new: bool
) -> ReceiverRow:
    if row.id:
        return await receivers.change(request.actor, row, has_password=is_password_new)
    return await receivers.create(request.actor, row)


def _password(form: Form) -> str:
    return form.values.get("smtp_password", "")


def _read(posted: Posted, before: ReceiverRow) -> tuple[Form, ReceiverRow]:
    """The form, and the receiver in it; secrets that it leaves empty stay."""
    if before.kind == ReceiverKind.EMAIL:
        form, mail = typed_forms.read(posted, MailFields)
        given = structs.asdict(mail)
        # Without a login there is no password, also none that was stored.
        given["smtp_password"] = mail.smtp_password or (
            before.smtp_password if mail.smtp_username else ""
        )
        return form, replace(before, **given)
    form, hook = typed_forms.read(posted, HookFields)
    given = structs.asdict(hook)
    is_dropped = given.pop("drop_signing_secret")
    given["url"] = hook.url or before.url
    given["signing_secret"] = hook.signing_secret or ("" if is_dropped else before.signing_secret)
    return form, replace(before, **given)


def _form_of(row: ReceiverRow) -> Form:
    """The form of a receiver, without its secrets."""
    shape = MailFields if row.kind == ReceiverKind.EMAIL else HookFields
    values = {name: str(getattr(row, name, "")) for name in shape.__struct_fields__}
    flags = {name: ON if getattr(row, name) else "" for name in ("critical_passes", "is_enabled")}
    hidden = dict.fromkeys(("url", "drop_signing_secret", *SECRETS), "")
    form = Form(values | flags | hidden | {"mail_to": "\n".join(row.mail_to)})
    form.lists["quiet_days"] = row.quiet_days
    return form


async def _page(request: PageRequest, row: ReceiverRow, form: Form | None = None) -> Response:
    alerts = request.services.alerts
    before = request.read_query(AlertsQuery).before
    deliveries = await alerts.deliveries(DELIVERIES_SHOWN, before, row) if row.id else []
    context = ReceiverForm(
        kind=ReceiverKind(row.kind),
        kind_label=kind_word(row.kind),
        form=form or _form_of(row),
        receiver=shown(row) if row.id else None,
        deliveries=list(map(delivery_row, deliveries)),
        older=deliveries[-1].id if len(deliveries) == DELIVERIES_SHOWN else None,
        rules=alerts.receivers.rules_naming(row.id) if row.id else [],
        zones=zones.names(),
    )
    title = row.name or _("New receiver")
    return await pages.respond(
        request, "alert_receiver.html", context, title=title, is_live=bool(row.id)
    )
