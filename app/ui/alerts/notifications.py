"""Receivers and deliveries in the words of pages."""

from dataclasses import dataclass

from app.db.alert_rows import DeliveryRow, ReceiverRow
from app.services.alerts.events import WAITING
from app.services.alerts.receivers import shown
from app.services.alerts.webhook import host_of
from app.ui.framework import formats
from app.ui.framework.language import N_, _, translated
from kitemq.model.alerts import AlertReceiver, ReceiverKind, Weekday
from kitemq.model.conversion import convert

KINDS = (
    (ReceiverKind.WEBHOOK, N_("Webhook")),
    (ReceiverKind.SLACK, "Slack"),
    (ReceiverKind.TEAMS, "Microsoft Teams"),
    (ReceiverKind.EMAIL, N_("Email")),
)
DAYS = (
    (Weekday.MON, N_("Mon")),
    (Weekday.TUE, N_("Tue")),
    (Weekday.WED, N_("Wed")),
    (Weekday.THU, N_("Thu")),
    (Weekday.FRI, N_("Fri")),
    (Weekday.SAT, N_("Sat")),
    (Weekday.SUN, N_("Sun")),
)


# What templates translate: events, and results of deliveries.
WORDS = (
    *(N_("firing"), N_("resolved"), N_("test")),
    *(N_("waiting"), N_("delivered"), N_("failed"), N_("dropped")),
)


@dataclass(frozen=True, kw_only=True)
class AlertDeliveryRow(DeliveryRow):
    """A line of a table of deliveries."""

    about: str
    retry_ms: int | None


@dataclass(frozen=True)
class ReceiverLine:
    """A line of the table of receivers."""

    receiver: AlertReceiver
    kind: str
    timing: str  # when it is not notified at once; "" if it always is


def delivery_row(row: DeliveryRow) -> AlertDeliveryRow:
    """A delivery as a table shows it."""
    is_waiting = row.result == WAITING
    return convert(
        row,
        AlertDeliveryRow,
        receiver=row.receiver or host_of(row.url),
        about=" · ".join(text for text in (row.rule_name, row.subject) if text),
        retry_ms=row.next_ms if is_waiting and (row.attempts or row.next_ms > row.at_ms) else None,
    )


def receiver_line(row: ReceiverRow) -> ReceiverLine:
    """A receiver as the table shows it."""
    return ReceiverLine(shown(row), kind_word(row.kind), _timing(row))


def kind_word(kind: str) -> str:
    """The name of a kind of receiver."""
    return translated(dict(KINDS)[ReceiverKind(kind)])


def _timing(row: ReceiverRow) -> str:
    parts = []
    if row.quiet_days:
        days = [translated(word) for day, word in DAYS if day in row.quiet_days]
        text = _("daily") if len(days) == len(DAYS) else ", ".join(days)
        begin, end, zone = row.quiet_from, row.quiet_to, row.quiet_zone
        if begin == end:
            parts.append(
                _(
                    "quiet %(days)s from %(begin)s %(zone)s for 24 h",
                    days=text,
                    begin=begin,
                    zone=zone,
                )
            )
        else:
            parts.append(
                _(
                    "quiet %(days)s %(begin)s to %(end)s %(zone)s",
                    days=text,
                    begin=begin,
                    end=end,
                    zone=zone,
                )
            )
    if row.group_s:
        parts.append(_("grouped for %(time)s", time=formats.duration(row.group_s * 1000)))
    return "; ".join(parts)
