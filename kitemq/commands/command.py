"""A command of the command line: its parsing by click, the options that every command takes.

A command is a function of its options and of where it prints; it returns an exit code.
"""

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, get_type_hints

import click
import msgspec
from click.core import ParameterSource

from kitemq.address import CA_VARIABLE, VARIABLE
from kitemq.commands.output import Exit, Output


class CommandOptions(msgspec.Struct, kw_only=True):
    """The values of a command's parameters, by name.

    A command with parameters of its own takes a subclass that has a field for each. A field
    `settings` takes those that have none, by name.
    """

    server: str


class NamedOptions(CommandOptions):
    name: str


class IdOptions(CommandOptions):
    id: str


class DeleteOptions(NamedOptions):
    yes: bool


Run = Callable[[Any, Output], int]

argument = click.argument
option = click.option


def flag(name: str, text: str) -> Callable[[Run], Run]:
    """A switch that is off where it is not given."""
    return click.option(name, is_flag=True, help=text)


def repeated(*names: str, **attributes: Any) -> Callable[[Run], Run]:
    """An option that may be given several times; None where it never is."""
    return click.option(*names, multiple=True, callback=_none_for_empty, **attributes)


class OptionalChoice(click.Choice[str]):
    """One of some words, or the empty default."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return "" if value == "" else str(super().convert(value, param, ctx))


def several(*options: Callable[[Run], Run]) -> Callable[[Run], Run]:
    """Options that several commands take, in this order."""

    def add(function: Run) -> Run:
        for each in reversed(options):
            function = each(function)
        return function

    return add


yes_option = flag("--yes", "do not ask")
dry_run_option = flag("--dry-run", "only show what would happen")


class ClientCommand(click.Command):
    """One command. `one_of` names parameters of which one at most may be given.

    `needs_one` asks for exactly one of them. `constants` are further values of `options`.
    """

    def __init__(
        self,
        *arguments: Any,
        one_of: Sequence[str] = (),
        needs_one: bool = False,
        constants: dict[str, Any] | None = None,
        **attributes: Any,
    ) -> None:
        super().__init__(*arguments, **attributes)
        self._one_of = one_of
        self._needs_one = needs_one
        self._constants = constants or {}
        self.params += everywhere()

    def invoke(self, ctx: click.Context) -> int:
        self._check_choice(ctx)
        assert self.callback is not None
        return run(self.callback, ctx, self._constants)

    def _check_choice(self, ctx: click.Context) -> None:
        names = [
            param.opts[0] if isinstance(param, click.Option) else param.make_metavar(ctx)
            for param in self.params
            if param.name in self._one_of
            and ctx.get_parameter_source(param.name) is ParameterSource.COMMANDLINE
        ]
        if len(names) > 1:
            raise click.UsageError(f"{names[1]} is not allowed with {names[0]}", ctx)
        if self._needs_one and not names:
            raise click.UsageError(f"one of {', '.join(self._one_of)} is needed", ctx)


class CommandGroup(click.Group):
    """Commands under one word."""

    command_class = ClientCommand

    def __init__(self, *arguments: Any, **attributes: Any) -> None:
        super().__init__(*arguments, **attributes)
        self.params += everywhere()

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)  # as they are written, not by name


def run(function: Run, ctx: click.Context, constants: dict[str, Any] | None = None) -> int:
    """Call the function of a command; its exit code."""
    shared = ctx.find_root().ensure_object(dict)
    if "ca" in shared:
        os.environ[CA_VARIABLE] = shared["ca"]  # where every client that a command makes looks
    output = Output(is_json="json" in shared, is_table="table" in shared)
    values = {"server": shared.get("server", ""), **ctx.params, **(constants or {})}
    try:
        return int(function(options_of(options_kind(function), values, ctx.args), output))
    except BrokenPipeError:
        # The reader has enough. Python would complain once more while it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.OK


def options_kind(function: Run) -> type[CommandOptions]:
    """The struct that a command takes."""
    kind: type[CommandOptions] = get_type_hints(function)["options"]
    return kind


def options_of(
    kind: type[CommandOptions], values: dict[str, Any], rest: list[str]
) -> CommandOptions:
    """A command's options; `rest` are words that are none of its parameters."""
    fields = {name: value for name, value in values.items() if name in kind.__struct_fields__}
    if "settings" in kind.__struct_fields__:
        fields["settings"] = {name: values[name] for name in values.keys() - fields.keys()}
    if "rest" in kind.__struct_fields__:
        fields["rest"] = rest
    return kind(**fields)


def everywhere() -> list[click.Parameter]:
    """The options of all commands, which may stand before or after the command's name."""
    return [
        _shared("--server", "the server", f"else {VARIABLE}, else http://127.0.0.1:8080", "URL"),
        _shared(
            "--ca",
            "PEM file of the authorities to trust for https",
            f"else {CA_VARIABLE}, else the system's",
            "FILE",
        ),
        _shared("--json", "JSON lines, also on a terminal"),
        _shared("--table", "tables, also without a terminal"),
    ]


def _shared(name: str, text: str, otherwise: str = "", metavar: str = "") -> click.Option:
    return click.Option(
        [name],
        is_flag=not metavar,
        metavar=metavar or None,
        help=f"{text}; {otherwise}" if otherwise else text,
        expose_value=False,
        callback=_share,
    )


def _share(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    if not value:
        return
    shared = ctx.find_root().ensure_object(dict)
    shared[param.name] = value
    if {"json", "table"} <= set(shared):
        raise click.UsageError("--table is not allowed with --json", ctx)


def _none_for_empty(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
    return list(value) or None
