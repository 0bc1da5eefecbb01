"""`kitemq promote` and `kitemq handover`: make a standby the leader.

One that is running, alone or in place of its leader, or the directory of a stopped one.
"""

import time
from collections.abc import Callable
from pathlib import Path

import click

from kitemq.client import Client
from kitemq.commands.command import ClientCommand, CommandOptions, flag, option
from kitemq.commands.output import Exit, Output
from kitemq.commands.serving import server_needed
from kitemq.errors import Busy, Refused, Unreachable, rejected
from kitemq.model.server import Replication

START_TIMEOUT_S = 30.0
LOOK_S = 0.1
STRANGER_CODES = ("login_needed", "right_missing")


class PromoteOptions(CommandOptions):
    data: Path | None
    force: bool


@click.command(
    cls=ClientCommand,
    epilog="With --data it promotes the directory of a standby that is stopped.",
)
@option("--data", type=Path, metavar="DIR", help="of a standby that is stopped")
@flag("--force", "although its leader is connected: what it lacks of that is lost; or a leader "
      "once more, where two standbys were promoted apart from each other")  # fmt: skip
def promote(options: PromoteOptions, output: Output) -> int:
    """Make a standby the leader."""
    if options.data is not None:
        return _promote_directory(options.data, output)
    with Client(options.server) as client:
        epoch = client.server.promote(force=options.force).epoch
        _wait(client, epoch, lambda state: not state.leader)
    output.row({"epoch": epoch})
    return Exit.OK


class HandoverOptions(CommandOptions):
    to: str
    timeout: float


@click.command(cls=ClientCommand)
@option("--to", default="", metavar="HOST:PORT", help="the standby's ha_listen, or its host")
@option("--timeout", type=click.FloatRange(0, 60, min_open=True), default=5.0, metavar="SECONDS",
        help="how long the standby has")  # fmt: skip
def handover(options: HandoverOptions, output: Output) -> int:
    """Let a standby lead in the leader's place.

    The server named by --server is the leader; it is a standby of the other afterwards.
    """
    with Client(options.server) as client:
        done = client.server.hand_over(options.to, timeout_s=options.timeout)
        _wait(client, done.epoch, lambda state: not state.leader or state.is_connected)
    output.row({"epoch": done.epoch, "leader": done.leader})
    return Exit.OK


def _wait(client: Client, epoch: int, is_done: Callable[[Replication], bool]) -> None:
    """Wait until the server has started anew in its other role.

    One that knew this caller before has the users of its leader by then, who may be others.
    """
    until_s = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            state = client.server.replication()
            if state.epoch >= epoch and is_done(state):
                return
        except (Busy, Unreachable):  # it starts
            pass
        except Refused as error:
            if error.code in STRANGER_CODES:
                return
            raise
        if time.monotonic() > until_s:
            raise Busy("it is done, but the server does not answer yet", remedy="see its log")
        time.sleep(LOOK_S)


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
