"""`kitemq server`: its self-checks, the read-only switch, a support bundle."""

import argparse
from pathlib import Path

from kitemq.client import Client
from kitemq.commands.output import Exit, Output, note
from kitemq.errors import Invalid
from kitemq.model.server import CheckOutcome

CHECK_COLUMNS = ("code", "outcome", "detail", "took_ms")


def show_checks(options: argparse.Namespace, output: Output) -> int:
    """Exit code 1 where a check failed; a warning is none."""
    with Client(options.server) as client:
        found = client.self_checks()
    output.rows(found, CHECK_COLUMNS)
    failed = [check.code for check in found if check.outcome is CheckOutcome.FAILED]
    if failed:
        note(f"failed: {', '.join(failed)}")
    return Exit.FAILED if failed else Exit.OK


def freeze(options: argparse.Namespace, output: Output) -> int:
    with Client(options.server) as client:
        output.row(client.freeze(options.reason))
    return Exit.OK


def thaw(options: argparse.Namespace, output: Output) -> int:
    with Client(options.server) as client:
        output.row(client.thaw())
    return Exit.OK


def bundle(options: argparse.Namespace, output: Output) -> int:
    path: Path = options.file
    if path.exists() and not options.force:
        raise Invalid(f"{path} exists", field="FILE", remedy="name another file, or add --force")
    with Client(options.server) as client:
        data = client.support_bundle()
    try:
        path.write_bytes(data)
    except OSError as error:
        raise Invalid(f"{path} cannot be written: {error.strerror}", field="FILE") from None
    output.row({"file": str(path), "bytes": len(data)})
    return Exit.OK


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser("server", help="the running server: checks, read-only, bundle")
    words = parser.add_subparsers(metavar="WORD", required=True)
    checking = words.add_parser("checks", help="what it finds out about itself; 1 where it fails")
    checking.set_defaults(run=show_checks)
    freezing = words.add_parser("freeze", help="refuse every change until it is thawed")
    freezing.add_argument("--reason", required=True, metavar="TEXT", help="shown on every page")
    freezing.set_defaults(run=freeze)
    words.add_parser("thaw", help="take changes again").set_defaults(run=thaw)
    bundling = words.add_parser("bundle", help="a support bundle, without secrets")
    bundling.add_argument("file", type=Path, metavar="FILE")
    bundling.add_argument("--force", action="store_true", help="replace FILE")
    bundling.set_defaults(run=bundle)
