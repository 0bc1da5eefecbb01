"""`kitemq`: the command line of server and client.

Exit codes: 0 done, 1 failed, 2 wrong usage or refused by the server, 3 partly done, 4 no server
there or no answer in time, 130 interrupted. Results go to standard output (a table on a terminal,
JSON lines elsewhere or with --json), everything else to standard error.
"""

import logging
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Any, cast

import click

from kitemq.commands.command import CommandGroup
from kitemq.commands.output import Exit, complain, exit_of
from kitemq.errors import KiteError

# Each command with its module, which is imported when it is called, and its help.
COMMANDS = {
    "serve": ("serving", "run the server"),
    "promote": ("promote", "make a standby the leader"),
    "handover": ("promote", "let a standby lead in the leader's place"),
    "store": ("serving", "look after a data directory"),
    "users": ("serving", "who may log in; see kitemq users --help"),
    "tokens": ("serving", "what programs log in with; see kitemq tokens --help"),
    "produce": ("produce", "send messages"),
    "consume": ("consume", "receive messages of a group, print and acknowledge them"),
    "tail": ("tail", "follow a topic without consuming from it"),
    "topics": ("topics", "list, show, create, change or delete topics"),
    "trace": ("trace", "what happened to one message"),
    "groups": ("groups", "consumer groups and their lag"),
    "search": ("search", "find messages by id, key, time or content"),
    "stats": ("stats", "rates, totals and how long sends take"),
    "scheduled": ("scheduled", "messages that wait for their time"),
    "dead": ("dead", "dead letters of a group, and sending them again"),
    "replay": ("replay", "send messages of a topic again"),
    "report": ("report", "reports by Spark: run, runs, schedules"),
    "alerts": ("alerts", "what fires, rules, receivers and who was notified"),
    "retention": ("purge", "what is kept for how long, and what goes next"),
    "move": ("move", "copy everything into an Apache RocketMQ cluster"),
    "server": ("control", "the running server: checks, read-only, bundle"),
    "bench": ("bench", "measure a server quickly, through the SDK"),
    "completion": ("completion", "print a script that completes commands in a shell"),
}
EPILOG = (
    "Exit codes: 0 done, 1 failed, 2 wrong usage or refused, 3 partly done, "
    "4 server unreachable, 130 interrupted."
)


class Commands(CommandGroup):
    """All commands; the module of one is imported when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, text = COMMANDS[cmd_name]
        loaded: Any = import_module(f"kitemq.commands.{module}")
        command = cast(click.Command, getattr(loaded, cmd_name))
        command.help = command.help or text
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        close = [] if args[0] in COMMANDS else get_close_matches(args[0], COMMANDS, 1)
        if close and not ctx.resilient_parsing:
            raise click.UsageError(f"No such command {args[0]!r}. Did you mean {close[0]!r}?", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit code. Raises SystemExit for wrong usage."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    try:
        return int(command_line().main(arguments, "kitemq", standalone_mode=False) or Exit.OK)
    except click.ClickException as error:
        error.show()
        raise SystemExit(Exit.REFUSED) from None
    except click.Abort:
        return Exit.INTERRUPTED
    except KiteError as error:
        complain(error)
        return exit_of(error)


def command_line() -> Commands:
    """Every command with its options."""
    commands = Commands("kitemq", help="KiteMQ: the server and its clients.", epilog=EPILOG)
    return click.version_option(package_name="kitemq", prog_name="kitemq")(commands)


if __name__ == "__main__":
    sys.exit(main())
