"""`kitemq serve`, `store`, `users` and `tokens`: what needs the server's packages."""

import os
import sys
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from kitemq.address import CA_VARIABLE, TOKEN_VARIABLE, VARIABLE
from kitemq.commands.command import (
    ClientCommand,
    CommandGroup,
    CommandOptions,
    argument,
    option,
)
from kitemq.commands.output import Exit, Output, note
from kitemq.errors import Invalid, KiteError, rejected


@contextmanager
def server_needed() -> Iterator[None]:
    """Imports of the server's packages; raises KiteError where only the SDK is installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("app", "engine"):
            raise
        raise KiteError(
            "the server is not installed",
            code="not_installed",
            remedy="pip install kitemq-server",
        ) from None


class ServeOptions(CommandOptions):
    data: Path | None
    listen: str | None
    host: str | None
    port: str | None
    config: Path | None
    set: tuple[str, ...]
    rest: list[str]


@click.command(
    cls=ClientCommand,
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    epilog="Every setting of docs/settings.md is an option too: --name value, with dashes for "
    "underscores. Before a RocketMQ cluster, by its name servers: "
    "kitemq serve --rocketmq '10.0.0.1:9876;10.0.0.2:9876'",
)
@option("--data", type=Path, metavar="DIR", help="where it keeps all")
@option("--listen", metavar="HOST:PORT", help="port 0 takes a free one")
@option("--host", help="the same in two words: the address")
@option("--port", help="and the port")
@option("--config", type=Path, metavar="FILE", help="TOML settings")
@option("--set", multiple=True, metavar="NAME=VALUE", help="a setting in one word")
def serve(options: ServeOptions, output: Output) -> int:
    """Run the server until it is stopped."""
    with server_needed():
        from app.serve import main as serve_app  # a client never loads the server

    # The client's own variable; the server refuses settings that it does not know.
    for name in (VARIABLE, TOKEN_VARIABLE, CA_VARIABLE):
        os.environ.pop(name, None)
    arguments = ["--data", str(options.data)] if options.data is not None else []
    if options.config is not None:
        arguments += ["--config", str(options.config)]
    if options.listen is not None:
        arguments += _listen_arguments(options.listen)
    for name in ("host", "port"):
        if getattr(options, name) is not None:
            arguments += [f"--{name}", str(getattr(options, name))]
    for pair in options.set:
        name, separator, value = pair.partition("=")
        if not separator:
            raise Invalid(
                f"{pair!r} is no NAME=VALUE", field="--set", remedy="see docs/settings.md"
            )
        arguments += [f"--{name.strip().replace('_', '-')}={value}"]
    return serve_app([*arguments, *options.rest])


def _people(word: str) -> click.Command:
    """A command whose words the server's own parser reads."""

    @click.command(
        word,
        add_help_option=False,
        context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    )
    @argument("words", nargs=-1, type=click.UNPROCESSED)
    def run(words: tuple[str, ...]) -> int:
        with server_needed():
            from app.users import main as change_people  # a client never loads the server

        for name in (VARIABLE, TOKEN_VARIABLE, CA_VARIABLE):
            os.environ.pop(name, None)
        return change_people([word, *words])

    return run


users = _people("users")
tokens = _people("tokens")
store = CommandGroup("store")


class VerifyOptions(CommandOptions):
    dir: Path
    against: Path | None


@store.command("verify", help="check every file; the server may be running or not")
@argument("dir", type=Path)
@option("--against", type=Path, metavar="DIR", help="compare with this directory instead")
def verify(options: VerifyOptions, output: Output) -> int:
    """Check every file of a store; exit code 1 where something does not agree."""
    if options.against is not None:
        return _compare(options.dir, options.against, output)
    with server_needed():
        from engine.errors import EngineError  # only here, as above
        from engine.inspection import inspect
        from engine.store.files import OsFiles

    def progress(size_bytes: int) -> None:
        if sys.stderr.isatty():
            sys.stderr.write(f"\r{size_bytes / 2**20:,.0f} MiB checked ")

    try:
        report = inspect(OsFiles(), options.dir, progress=progress)
    except EngineError as error:
        raise rejected(error.code, error.detail, field=error.field, remedy=error.remedy) from None
    if sys.stderr.isatty():
        note("")
    for fault in report.faults:
        note(f"{fault.where}: {fault.detail}")
    for text in report.notes:
        note(text)
    output.row(
        {
            "sound": report.is_sound,
            "records": report.records,
            "bytes": report.bytes,
            "queues": report.queues,
            "entries": report.entries,
            "files": report.files,
            "set_aside": report.set_aside,
            "faults": report.fault_count,
        }
    )
    return Exit.OK if report.is_sound else Exit.FAILED


def _compare(one: Path, other: Path, output: Output) -> int:
    with server_needed():
        from engine.errors import EngineError  # only here, as above
        from engine.replication.comparison import DataDirectory, compare
        from engine.store.files import OsFiles

    try:
        result = compare(DataDirectory(OsFiles(), one), DataDirectory(OsFiles(), other))
    except EngineError as error:
        raise rejected(error.code, error.detail, field=error.field, remedy=error.remedy) from None
    for text in result.differences:
        note(text)
    output.row(
        {
            "equal": result.is_equal,
            "bytes": result.log_bytes,
            "changes": result.changes,
            "queues": result.queues,
            "differences": result.difference_count,
        }
    )
    return Exit.OK if result.is_equal else Exit.FAILED


class RepairOptions(CommandOptions):
    data: Path


@store.command("repair", help="make a damaged store one that starts; the server must be stopped")
@option("--data", type=Path, required=True, metavar="DIR")
def repair(options: RepairOptions, output: Output) -> int:
    """Make a damaged store one that starts; what is removed is kept in its folder set-aside."""
    with server_needed():
        from engine.errors import EngineError  # only here, as above
        from engine.inspection import repair as repair_store
        from engine.store.files import OsFiles

    try:
        done = repair_store(OsFiles(), options.data)
    except EngineError as error:
        raise rejected(error.code, error.detail, field=error.field, remedy=error.remedy) from None
    for line in done.done:
        note(line)
    for name in done.kept:
        note(f"kept: {name}")
    for line in done.missing:
        note(f"missing: {line}")
    output.row({"repaired": len(done.done), "kept": len(done.kept), "missing": len(done.missing)})
    return Exit.OK


class TailFileOptions(CommandOptions):
    file: Path


@store.command("tail", help="the messages of a tail that was set aside; see docs/standby.md")
@argument("file", type=Path)
def print_tail(options: TailFileOptions, output: Output) -> int:
    """Print what a directory alone had when it began to follow a later leader."""
    with server_needed():
        from engine.errors import EngineError  # only here, as above
        from engine.replication.tail import tail_messages

    try:
        for message in tail_messages(options.file):
            encoding, body = _body_text(message.body)
            output.row(
                {
                    "topic": message.topic,
                    "queue": message.queue,
                    "offset": message.offset,
                    "message_id": message.message_id,
                    "stored_ms": message.stored_ms,
                    "tag": message.tag,
                    "keys": list(message.keys),
                    "encoding": encoding,
                    "body": body,
                }
            )
    except EngineError as error:
        raise rejected(error.code, error.detail, field=error.field, remedy=error.remedy) from None
    return Exit.OK


def _body_text(body: bytes) -> tuple[str, str]:
    try:
        return "utf-8", body.decode()
    except UnicodeDecodeError:
        return "base64", b64encode(body).decode()


def _listen_arguments(listen: str) -> list[str]:
    host, separator, port = listen.rpartition(":")
    if not separator or not port.isdecimal():
        raise Invalid(
            f"{listen!r} is no HOST:PORT", field="--listen", remedy="as in 127.0.0.1:8080"
        )
    return ["--host", host or "127.0.0.1", "--port", port]
