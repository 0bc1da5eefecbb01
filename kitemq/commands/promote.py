"""`kitemq promote`: makes a standby the leader, a running one or the directory of a stopped one."""

import time
from pathlib import Path

import click

from kitemq.client import Client
from kitemq.commands.command import ClientCommand, CommandOptions, flag, option
from kitemq.commands.output import Exit, Output
from kitemq.commands.serving import server_needed
from kitemq.errors import Busy, Unreachable, rejected

START_TIMEOUT_S = 30.0
LOOK_S = 0.1


class PromoteOptions(CommandOptions):
    data: Path | None
    force: bool


@click.command(
    cls=ClientCommand,
    epilog="With --data it promotes the directory of a standby that is stopped.",
)
@option("--data", type=Path, metavar="DIR", help="of a standby that is stopped")
@flag("--force", "although its leader is connected: what it lacks of that is lost")
def promote(options: PromoteOptions, output: Output) -> int:
    """Make a standby the leader."""
    if options.data is not None:
        return _promote_directory(options.data, output)
    with Client(options.server) as client:
        epoch = client.server.promote(force=options.force).epoch
        until_s = time.monotonic() + START_TIMEOUT_S
        while not _leads(client, epoch):
            if time.monotonic() > until_s:
                raise Busy("it was promoted, and does not answer yet", remedy="see its log")
            time.sleep(LOOK_S)
    output.row({"epoch": epoch})
    return Exit.OK


def _leads(client: Client, epoch: int) -> bool:
    try:
        state = client.server.replication()
    except (Busy, Unreachable):  # it starts anew
        return False
    return not state.leader and state.epoch >= epoch


def _promote_directory(data: Path, output: Output) -> int:
    with server_needed():
        from engine.errors import EngineError  # only here, as above
        from engine.replication.promotion import promote_directory

    try:
        state = promote_directory(data)
    except EngineError as error:
        raise rejected(error.code, error.detail, field=error.field, remedy=error.remedy) from None
    output.row({"epoch": state.epoch})
    return Exit.OK
