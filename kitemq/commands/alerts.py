"""`kitemq alerts`: what fires, rules and their history; receivers made, changed and tested."""

from pathlib import Path
from typing import Any

from kitemq.client import Client
from kitemq.commands.asking import confirmed
from kitemq.commands.command import (
    CommandGroup,
    CommandOptions,
    IdOptions,
    argument,
    option,
    repeated,
    several,
    yes_option,
)
from kitemq.commands.output import Exit, Output
from kitemq.commands.settings import settings_of, settings_options
from kitemq.errors import Invalid
from kitemq.model.alerts import AlertChange, NewAlertReceiver, ReceiverPatch
from kitemq.rest import Json

STATE_COLUMNS = ("rule_id", "name", "severity", "state", "subjects_checked", "evaluated_ms")
RULE_COLUMNS = ("id", "name", "kind", "threshold", "for_s", "severity", "enabled", "receivers")
RECEIVER_COLUMNS = ("id", "name", "kind", "address", "enabled", "group_s")
CHANGE_COLUMNS = ("at_ms", "subject", "before", "after", "detail", "notified")
HISTORY_LIMIT = 50
# Lists are repeated options; secrets come from files, as other users see the arguments of commands.
TYPED_OTHERWISE = ("mail_to", "quiet_days", "url", "signing_secret", "smtp_password")
IDENTITY = ("name", "kind")

alerts = CommandGroup("alerts")

receiver_settings = several(
    option("--url-file", metavar="FILE", help="address of webhook, slack or teams; - reads stdin"),
    option("--signing-secret-file", metavar="FILE", help="key of a webhook's HMAC-SHA256"),
    option("--smtp-password-file", metavar="FILE", help="password of the mail server"),
    repeated("--to", "mail_to", metavar="ADDRESS", help="recipient; several may be given"),
    repeated("--quiet-day", "quiet_days", metavar="DAY", help="mon to sun; several may be given"),
    settings_options(NewAlertReceiver, but=(*TYPED_OTHERWISE, *IDENTITY)),
)


@alerts.command("states", help="the state of every rule, firing ones first")
def show_states(options: CommandOptions, output: Output) -> int:
    with Client(options.server) as client:
        output.rows(client.alerts.states().items, STATE_COLUMNS)
    return Exit.OK


@alerts.command("rules", help="rules by name")
def list_rules(options: CommandOptions, output: Output) -> int:
    with Client(options.server) as client:
        output.rows(client.alerts.rules(), RULE_COLUMNS)
    return Exit.OK


class HistoryOptions(CommandOptions):
    id: str
    limit: int


@alerts.command("history", help="what a rule fired for, and who was notified")
@argument("id")
@option("--limit", type=int, default=HISTORY_LIMIT, help="0 means all")
def show_history(options: HistoryOptions, output: Output) -> int:
    with Client(options.server) as client:
        changes = client.alerts.history(options.id, limit=options.limit)
        output.rows(changes if output.is_json else map(_change_row, changes), CHANGE_COLUMNS)
    return Exit.OK


@alerts.command("receivers", help="receivers, without their secrets")
def list_receivers(options: CommandOptions, output: Output) -> int:
    with Client(options.server) as client:
        output.rows(client.alerts.receivers(), RECEIVER_COLUMNS)
    return Exit.OK


class ReceiverOptions(CommandOptions):
    url_file: str | None
    signing_secret_file: str | None
    smtp_password_file: str | None
    mail_to: list[str] | None
    quiet_days: list[str] | None
    settings: dict[str, Any]


class NewReceiverOptions(ReceiverOptions):
    name: str
    kind: str


@alerts.command("create-receiver", help="add a receiver: webhook, slack, teams or email")
@argument("name")
@argument("kind")
@receiver_settings
def create_receiver(options: NewReceiverOptions, output: Output) -> int:
    given = {"name": options.name, "kind": options.kind, **_given(options)}
    settings = settings_of(given, NewAlertReceiver)
    kind = settings.pop("kind")
    with Client(options.server) as client:
        output.row(client.alerts.create_receiver(options.name, kind, **settings))
    return Exit.OK


class ChangedReceiverOptions(ReceiverOptions):
    id: str
    rename: str | None


@alerts.command("change-receiver", help="change what is given")
@argument("id")
@option("--rename", metavar="NAME", help="its new name")
@receiver_settings
def change_receiver(options: ChangedReceiverOptions, output: Output) -> int:
    settings = settings_of(_given(options), ReceiverPatch)
    if options.rename is not None:
        settings["name"] = options.rename
    with Client(options.server) as client:
        output.row(client.alerts.change_receiver(options.id, **settings))
    return Exit.OK


class DeletedReceiverOptions(IdOptions):
    yes: bool


@alerts.command("delete-receiver", help="delete a receiver that no rule names")
@argument("id")
@yes_option
def delete_receiver(options: DeletedReceiverOptions, output: Output) -> int:
    confirmed(f"delete the receiver {options.id}", yes=options.yes)
    with Client(options.server) as client:
        client.alerts.delete_receiver(options.id)
    return Exit.OK


@alerts.command("test-receiver", help="send a receiver a test")
@argument("id")
def test_receiver(options: IdOptions, output: Output) -> int:
    with Client(options.server) as client:
        output.row(client.alerts.test_receiver(options.id))
    return Exit.OK


def _given(options: ReceiverOptions) -> dict[str, Any]:
    """The settings that were given, secrets read from their files."""
    files = {
        "url": options.url_file,
        "signing_secret": options.signing_secret_file,
        "smtp_password": options.smtp_password_file,
    }
    secrets = {name: _secret(name, path) for name, path in files.items() if path is not None}
    lists = {"mail_to": options.mail_to, "quiet_days": options.quiet_days}
    return {**options.settings, **lists, **secrets}


def _secret(name: str, path: str) -> str:
    field = f"--{name.replace('_', '-')}-file"
    try:
        text = Path("/dev/stdin" if path == "-" else path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise Invalid(f"{path} cannot be read: {error}", field=field) from None
    return text.strip()


def _change_row(change: AlertChange) -> Json:
    notified = [f"{each.receiver} ({each.error or each.result})" for each in change.deliveries]
    return {
        "at_ms": change.at_ms,
        "subject": change.subject,
        "before": change.before,
        "after": change.after,
        "detail": change.detail,
        "notified": ", ".join(notified),
    }
