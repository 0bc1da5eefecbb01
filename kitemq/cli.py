"""`kitemq`: the command line of server and client.

Exit codes: 0 done, 1 failed, 2 wrong usage or refused by the server, 3 partly done, 4 no server
there or no answer in time, 130 interrupted. Results go to standard output (a table on a terminal,
JSON lines elsewhere or with --json), everything else to standard error.
"""

import argparse
import logging
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from kitemq.address import CA_VARIABLE, TOKEN_VARIABLE, VARIABLE
from kitemq.commands import (
    bench,
    consume,
    control,
    dead,
    groups,
    produce,
    purge,
    replay,
    report,
    scheduled,
    search,
    stats,
    tail,
    topics,
    trace,
)
from kitemq.commands.output import Exit, Output, complain, exit_of, note
from kitemq.errors import Invalid, KiteError, rejected

COMMANDS = (
    produce,
    consume,
    tail,
    topics,
    trace,
    groups,
    search,
    stats,
    scheduled,
    dead,
    replay,
    report,
    purge,
    control,
    bench,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit code."""
    options = _options(arguments)
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    if getattr(options, "ca", ""):
        os.environ[CA_VARIABLE] = options.ca  # where every client that a command makes looks
    output = Output(json_wanted=options.json, table_wanted=options.table)
    try:
        return int(options.run(options, output))
    except KiteError as error:
        complain(error)
        return exit_of(error)
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except BrokenPipeError:
        # Whoever read us has enough. Python would complain once more while it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.OK


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


def serve(options: argparse.Namespace, output: Output) -> int:
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
    return serve_app(arguments + options.rest)


def people(options: argparse.Namespace, output: Output) -> int:
    """Users and tokens, straight in the server's database."""
    with server_needed():
        from app.users import main as change_people  # a client never loads the server

    for name in (VARIABLE, TOKEN_VARIABLE, CA_VARIABLE):
        os.environ.pop(name, None)
    return change_people(options.words)


def verify(options: argparse.Namespace, output: Output) -> int:
    """Check every file of a store; exit code 1 where something does not agree."""
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


def repair(options: argparse.Namespace, output: Output) -> int:
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


def _listen_arguments(listen: str) -> list[str]:
    host, separator, port = listen.rpartition(":")
    if not separator or not port.isdecimal():
        raise Invalid(
            f"{listen!r} is no HOST:PORT", field="--listen", remedy="as in 127.0.0.1:8080"
        )
    return ["--host", host or "127.0.0.1", "--port", port]


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """What is asked for; the options of all commands may stand before or after the command."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] in (["users"], ["tokens"]):
        return argparse.Namespace(run=people, words=words, json=False, table=False)
    everywhere = argparse.ArgumentParser(prog="kitemq", add_help=False, allow_abbrev=False)
    _add_common(everywhere)
    common, words = everywhere.parse_known_args(arguments)
    parser = command_line()
    options, rest = parser.parse_known_args(words, namespace=common)
    if rest and options.run is not serve:  # the server knows its settings, and tells what is wrong
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    options.rest = rest
    return options


def command_line() -> argparse.ArgumentParser:
    """Every command with its options."""
    parser = argparse.ArgumentParser(
        prog="kitemq",
        description="KiteMQ: the server, and what one does with it.",
        epilog="Exit codes: 0 done, 1 failed, 2 wrong usage or refused, 3 partly done, "
        "4 server unreachable, 130 interrupted.",
    )
    _add_common(parser)
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    _add_serve(commands)
    _add_store(commands)
    for name, text in (("users", "who may log in"), ("tokens", "what programs log in with")):
        commands.add_parser(name, help=f"{text}; see kitemq {name} --help")
    for module in COMMANDS:
        module.add_to(commands)
    return parser


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--server",
        default="",
        metavar="URL",
        help=f"the server; else {VARIABLE}, else http://127.0.0.1:8080",
    )
    parser.add_argument(
        "--ca",
        default="",
        metavar="FILE",
        help=f"PEM file of the authorities to trust for https; else {CA_VARIABLE}, else the "
        "system's",
    )
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--json", action="store_true", help="JSON lines, also on a terminal")
    shape.add_argument("--table", action="store_true", help="tables, also without a terminal")


def _add_serve(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "serve",
        help="run the server",
        allow_abbrev=False,
        epilog="Every setting of docs/settings.md is an option too: --name value, with dashes for "
        "underscores.",
    )
    parser.add_argument("--data", type=Path, default=None, metavar="DIR", help="where it keeps all")
    parser.add_argument(
        "--listen", default=None, metavar="HOST:PORT", help="port 0 takes a free one"
    )
    parser.add_argument("--host", default=None, help="the same in two words: the address")
    parser.add_argument("--port", default=None, help="and the port")
    parser.add_argument("--config", type=Path, default=None, metavar="FILE", help="TOML settings")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a setting in one word"
    )
    parser.set_defaults(run=serve)


def _add_store(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser("store", help="look after a data directory")
    words = parser.add_subparsers(metavar="WORD", required=True)
    verifying = words.add_parser(
        "verify", help="check every file; the server may be running or not"
    )
    verifying.add_argument("dir", type=Path, metavar="DIR")
    verifying.set_defaults(run=verify)
    repairing = words.add_parser(
        "repair", help="make a damaged store one that starts; the server must be stopped"
    )
    repairing.add_argument("--data", type=Path, required=True, metavar="DIR")
    repairing.set_defaults(run=repair)


if __name__ == "__main__":
    sys.exit(main())
