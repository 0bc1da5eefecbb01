"""`kitemq server`: its self-checks, the read-only switch, a support bundle."""

from pathlib import Path

from kitemq.client import Client
from kitemq.commands.command import CommandGroup, CommandOptions, argument, flag, option
from kitemq.commands.output import Exit, Output, note
from kitemq.errors import Invalid
from kitemq.model.server import CheckOutcome

BROKER_COLUMNS = (
    "name", "place", "reachable", "topics", "queues", "stored_today", "stored_yesterday",
    "in_per_s", "out_per_s", "disk_ratio", "log_bytes",
)  # fmt: skip
CHECK_COLUMNS = ("code", "outcome", "detail", "took_ms")


server = CommandGroup("server")


@server.command("checks", help="what it finds out about itself; 1 where it fails")
def show_checks(options: CommandOptions, output: Output) -> int:
    """Exit code 1 where a check failed; a warning is none."""
    with Client(options.server) as client:
        checks = client.server.self_checks()
    output.rows(checks, CHECK_COLUMNS)
    failed = [check.code for check in checks if check.outcome is CheckOutcome.FAILED]
    if failed:
        note(f"failed: {', '.join(failed)}")
    return Exit.FAILED if failed else Exit.OK


@server.command("brokers", help="the brokers of the cluster behind it; 1 where one is away")
def show_brokers(options: CommandOptions, output: Output) -> int:
    with Client(options.server) as client:
        brokers = client.server.brokers()
    output.rows(brokers, BROKER_COLUMNS)
    away = [each.name for each in brokers if not each.reachable]
    if away:
        note(f"away: {', '.join(away)}")
    return Exit.FAILED if away else Exit.OK


class FreezeOptions(CommandOptions):
    reason: str


@server.command("freeze", help="refuse every change until it is thawed")
@option("--reason", required=True, metavar="TEXT", help="shown on every page")
def freeze(options: FreezeOptions, output: Output) -> int:
    with Client(options.server) as client:
        output.row(client.server.freeze(options.reason))
    return Exit.OK


@server.command("thaw", help="take changes again")
def thaw(options: CommandOptions, output: Output) -> int:
    with Client(options.server) as client:
        output.row(client.server.thaw())
    return Exit.OK


class BundleOptions(CommandOptions):
    file: Path
    force: bool


@server.command("bundle", help="a support bundle, without secrets")
@argument("file", type=Path, metavar="FILE")
@flag("--force", "replace FILE")
def bundle(options: BundleOptions, output: Output) -> int:
    path: Path = options.file
    if path.exists() and not options.force:
        raise Invalid(f"{path} exists", field="FILE", remedy="name another file, or add --force")
    with Client(options.server) as client:
        data = client.server.support_bundle()
    try:
        path.write_bytes(data)
    except OSError as error:
        raise Invalid(f"{path} cannot be written: {error.strerror}", field="FILE") from None
    output.row({"file": str(path), "bytes": len(data)})
    return Exit.OK
