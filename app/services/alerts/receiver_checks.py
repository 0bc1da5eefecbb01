"""Receivers of notifications: which fields a kind has, and their valid values.

Names of servers are resolved when they are called; here only what no name can make valid is
refused.
"""

import re
from dataclasses import fields, replace
from typing import Any

from app.db.alert_rows import ReceiverRow
from app.services.alerts.quiet_hours import TIME_OF_DAY, WEEKDAYS
from app.services.alerts.rules import NAME_CHARS_MAX
from app.services.targets import Targets
from app.settings import is_loopback
from app.zone_rules import zone_rules
from engine.errors import Invalid
from kitemq.model.alerts import ReceiverKind, SmtpSecurity

RECEIVERS_MAX = 50
RECIPIENTS_MAX = 50
GROUP_MAX_S = 3600
URL_CHARS_MAX = 2048
TEXT_CHARS_MAX = 255
HTTP_FIELDS = frozenset({"url"})
MAIL_FIELDS = frozenset(
    {"smtp_host", "smtp_port", "smtp_security", "smtp_username", "smtp_password"}
    | {"mail_from", "mail_to"}
)
FIELDS = {
    ReceiverKind.WEBHOOK: HTTP_FIELDS | {"signing_secret"},
    ReceiverKind.SLACK: HTTP_FIELDS,
    ReceiverKind.TEAMS: HTTP_FIELDS,
    ReceiverKind.EMAIL: MAIL_FIELDS,
}
OF_SOME_KINDS = frozenset().union(*FIELDS.values())
# A stored password is sent to the server that it was entered for, and to no other.
SMTP_PLACE = ("smtp_host", "smtp_port", "smtp_security", "smtp_username")
MAIL_ADDRESS = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9.-]{1,190}\Z")
HOST = re.compile(r"[A-Za-z0-9._:\[\]-]{1,255}\Z")


def checked(receiver: ReceiverRow, targets: Targets) -> ReceiverRow:
    """The receiver with the defaults of fields that its kind lacks; Invalid names a wrong field."""
    if receiver.kind not in set(ReceiverKind):
        remedy = "one of " + ", ".join(ReceiverKind)
        raise Invalid(f"{receiver.kind[:40]!r} is no kind", field="kind", remedy=remedy)
    others = OF_SOME_KINDS - FIELDS[ReceiverKind(receiver.kind)]
    unused: dict[str, Any] = {
        each.name: each.default for each in fields(ReceiverRow) if each.name in others
    }
    receiver = replace(receiver, **unused)
    _check_text("name", receiver.name, NAME_CHARS_MAX, "give 1 to 128 printable characters")
    if receiver.kind == ReceiverKind.EMAIL:
        _check_mail(receiver, targets)
    else:
        _check_http(receiver, targets)
    _check_quiet_hours(receiver)
    _check_number("group_s", receiver.group_s, 0, GROUP_MAX_S)
    return receiver


def check_password(before: ReceiverRow, after: ReceiverRow, *, is_given: bool) -> None:
    """Raise Invalid where a stored password would go to another server or login."""
    moved = [name for name in SMTP_PLACE if getattr(before, name) != getattr(after, name)]
    if moved and before.smtp_password and after.smtp_username and not is_given:
        raise Invalid(
            f"{moved[0]} has changed, so the stored password does not apply",
            field="smtp_password",
            remedy="enter the password again",
        )


def _check_http(receiver: ReceiverRow, targets: Targets) -> None:
    if len(receiver.url) > URL_CHARS_MAX:
        raise Invalid(
            "the address is too long", field="url", remedy=f"give {URL_CHARS_MAX:,} characters"
        )
    targets.check_url(receiver.url)
    if receiver.signing_secret:
        remedy = f"give {TEXT_CHARS_MAX} printable characters at most"
        _check_text("signing_secret", receiver.signing_secret, TEXT_CHARS_MAX, remedy)


def _check_mail(receiver: ReceiverRow, targets: Targets) -> None:
    host = receiver.smtp_host
    if not HOST.match(host):
        raise Invalid("no mail server is named", field="smtp_host", remedy="give its name")
    _check_number("smtp_port", receiver.smtp_port, 1, 65_535)
    targets.check_host(host, receiver.smtp_port, field="smtp_host")
    if receiver.smtp_security not in set(SmtpSecurity):
        detail = f"{receiver.smtp_security[:40]!r} is no protection of a connection"
        raise Invalid(detail, field="smtp_security", remedy="one of " + ", ".join(SmtpSecurity))
    _check_login(receiver)
    _check_address("mail_from", receiver.mail_from)
    if not 1 <= len(receiver.mail_to) <= RECIPIENTS_MAX:
        remedy = f"give 1 to {RECIPIENTS_MAX} addresses"
        raise Invalid(f"{len(receiver.mail_to)} recipients", field="mail_to", remedy=remedy)
    for address in receiver.mail_to:
        _check_address("mail_to", address)


def _check_login(receiver: ReceiverRow) -> None:
    if not receiver.smtp_username:
        if receiver.smtp_password:
            detail, remedy = "a password without a login", "give the login, or no password"
            raise Invalid(detail, field="smtp_username", remedy=remedy)
        return
    remedy = f"give {TEXT_CHARS_MAX} printable characters at most"
    for name in ("smtp_username", "smtp_password"):
        _check_text(name, getattr(receiver, name), TEXT_CHARS_MAX, remedy)
    if receiver.smtp_security == SmtpSecurity.NONE and not is_loopback(receiver.smtp_host):
        raise Invalid(
            "a password is not sent over a connection without TLS",
            field="smtp_security",
            remedy="choose starttls or tls, or give no login",
        )


def _check_quiet_hours(receiver: ReceiverRow) -> None:
    for day in receiver.quiet_days:
        if day not in WEEKDAYS:
            remedy = "some of " + ", ".join(WEEKDAYS)
            raise Invalid(f"{day[:40]!r} is no day", field="quiet_days", remedy=remedy)
    for name in ("quiet_from", "quiet_to"):
        text = getattr(receiver, name)
        if not TIME_OF_DAY.match(text):
            remedy = "give hours and minutes, as 22:00"
            raise Invalid(f"{text[:40]!r} is no time of a day", field=name, remedy=remedy)
    if zone_rules(receiver.quiet_zone) is None:
        raise Invalid(
            f"{receiver.quiet_zone[:64]!r} is no time zone of this server",
            field="quiet_zone",
            remedy="give an IANA name, as Europe/Berlin, or UTC",
        )


def _check_address(field: str, address: str) -> None:
    if len(address) > TEXT_CHARS_MAX or not MAIL_ADDRESS.match(address):
        raise Invalid(
            f"{address[:80]!r} is no mail address",
            field=field,
            remedy="give an address as alerts@example.org, without a name",
        )


def _check_text(field: str, text: str, chars_max: int, remedy: str) -> None:
    if not text.strip() or len(text) > chars_max or not text.isprintable():
        raise Invalid(f"{field} is empty, too long or not printable", field=field, remedy=remedy)


def _check_number(field: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise Invalid(f"{field} is {value:,}", field=field, remedy=f"choose {low:,} to {high:,}")
