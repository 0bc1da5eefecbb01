"""Every command of the command line has a struct whose fields are its parameters."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest

from kitemq.cli import command_line
from kitemq.commands.command import ClientCommand, CommandOptions, options_kind, options_of

pytestmark = pytest.mark.makers

SHARED = set(CommandOptions.__struct_fields__)
VALUES = {"integer": 1, "float": 1.5, "boolean": True, "Path": Path("x")}


def commands(command: click.Command, name: str = "") -> Iterator[Any]:
    """The commands below one, each as a parameter of a test."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        for each in command.list_commands(context):
            member = command.get_command(context, each)
            assert member is not None
            yield from commands(member, f"{name} {each}".strip())
    elif isinstance(command, ClientCommand):
        yield pytest.param(command, id=name)


def value_of(parameter: click.Parameter) -> Any:
    """A value as the command line gives it for a parameter."""
    one = VALUES.get(parameter.type.name, "json")
    many = (one,)
    if parameter.multiple:
        return list(many) if parameter.callback is not None else many
    return many if parameter.nargs == -1 else one


def parameters(command: ClientCommand) -> list[click.Parameter]:
    return [each for each in command.params if each.expose_value]


COMMANDS = [*commands(command_line())]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_takes_a_struct_of_its_parameters(command: ClientCommand) -> None:
    assert command.callback is not None
    kind = options_kind(command.callback)
    values = {str(each.name): value_of(each) for each in parameters(command)}
    given = {"server": "", **values, **command._constants}
    options = options_of(kind, given, ["rest"])
    fields = set(kind.__struct_fields__)
    if "settings" not in fields:
        assert set(values) | set(command._constants) == fields - SHARED - {"rest"}
    # The values have the types of the fields.
    assert msgspec.convert(options, kind, from_attributes=True, dec_hook=_path) == options


@pytest.mark.parametrize("command", COMMANDS)
def test_an_option_that_is_left_out_has_the_type_of_its_field(command: ClientCommand) -> None:
    assert command.callback is not None
    kind = options_kind(command.callback)
    words: list[str] = []
    for each in parameters(command):
        if each.required:
            words += [each.opts[0]] if isinstance(each, click.Option) else []
            words.append(each.type.choices[0] if isinstance(each.type, click.Choice) else "1")
    values = command.make_context("command", words).params
    options = options_of(kind, {"server": "", **values, **command._constants}, [])
    msgspec.convert(options, kind, from_attributes=True, dec_hook=_path)


def _path(kind: type, value: Any) -> Any:
    assert isinstance(value, kind)
    return value
