"""`kitemq users` and `kitemq tokens`: people from the command line, straight in the database.

For the first admin, and for admins who are locked out: it needs no server and no login, but the
rights over the data directory. A running server notices the change within seconds.
"""

import argparse
import getpass
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from msgspec import UNSET

from app.db.rows import Actor, AuditEntry, DatabaseError, UserRow
from app.security.access import Role, parse_patterns
from app.security.access_keys import AccessKeys, access_key_of
from app.security.accounts import TOKENS_MAX
from app.security.credentials import (
    EVERYWHERE,
    TOKEN_NAME,
    create_token,
    parse_name,
    parse_role,
    patterns_for,
)
from app.security.passwords import check_password, hash_password
from app.settings import SettingsError, load
from engine.errors import EngineError, Invalid, NotFound

EXIT_FAILED = 1
EXIT_REFUSED = 2
ACTOR = Actor("command line")


def main(arguments: Sequence[str]) -> int:
    """Do one thing to users or tokens; the exit code."""
    options = _parser().parse_args(arguments)
    overrides = {} if options.data is None else {"data": str(options.data)}
    if options.database_url is not None:
        overrides["database_url"] = options.database_url
    try:
        settings = load(overrides, config=options.config)
        options.folder = settings.data
        from app.db.database import Database  # takes longer to load than --help may take

        database = Database(settings.database)
        try:
            options.run(options, database)
        finally:
            database.close()
    except (SettingsError, DatabaseError) as error:
        sys.stderr.write(f"kitemq: {error}\n")
        return EXIT_FAILED
    except EngineError as error:
        remedy = f"; {error.remedy}" if error.remedy else ""
        sys.stderr.write(f"kitemq: {error.detail}{remedy}\n")
        return EXIT_REFUSED
    return 0


def add_user(options: argparse.Namespace, database: Any) -> None:
    name, role = parse_name(options.name), parse_role(options.role)
    patterns = patterns_for(role, options.allow or UNSET)
    others = database.users.load().users
    if not others and role is not Role.ADMIN:
        raise Invalid("the first user must be an admin", remedy="say --role admin")
    user = UserRow(
        name=name,
        password_hash=_new_hash(options),
        role=role,
        patterns=patterns,
        created_ms=_now_ms(),
    )
    database.users.add_user(user, _entry("user.create", "user", name))
    _say(f"user {name} ({role}) is added")


def list_users(options: argparse.Namespace, database: Any) -> None:
    for user in database.users.load().users:
        state = " (switched off)" if user.disabled else ""
        patterns = f" {' '.join(user.patterns)}" if user.role != Role.ADMIN else ""
        _say(f"{user.name} {user.role}{patterns}{state}")


def change_user(options: argparse.Namespace, database: Any) -> None:
    name = parse_name(options.name)
    changes: dict[str, Any] = {}
    if options.role is not None:
        changes["role"] = parse_role(options.role)
    if options.allow:
        changes["patterns"] = parse_patterns(options.allow)
    if options.disable is not None:
        changes["disabled"] = options.disable
    changed = database.users.change_user(name, changes, _entry("user.change", "user", name))
    _say(f"user {name} is {changed.role}{', switched off' if changed.disabled else ''}")


def set_password(options: argparse.Namespace, database: Any) -> None:
    name = parse_name(options.name)
    changes = {"password_hash": _new_hash(options)}
    database.users.change_user(name, changes, _entry("user.password", "user", name))
    _say(f"user {name} has another password; all logins have ended")


def delete_user(options: argparse.Namespace, database: Any) -> None:
    name = parse_name(options.name)
    database.users.delete_user(name, _entry("user.delete", "user", name))
    _say(f"user {name} is deleted")


def add_token(options: argparse.Namespace, database: Any) -> None:
    """Make a token; its text alone goes to standard output, so that a script can take it."""
    owner_name = parse_name(options.owner)
    if TOKEN_NAME.match(options.name) is None:
        raise Invalid(f"{options.name!r} is no name for a token", remedy="letters, digits, . _ @ -")
    owner = next((u for u in database.users.load().users if u.name == owner_name), None)
    if owner is None:
        raise NotFound(f"there is no user {owner_name!r}")
    role = parse_role(options.role or owner.role)
    patterns = parse_patterns(options.allow) or EVERYWHERE
    token, secret = create_token(
        options.name, owner, role, patterns, days=options.days, now_ms=_now_ms()
    )
    entry = _entry("token.create", "token", f"{owner_name}/{options.name}")
    database.users.add_token(token, entry, count_max=TOKENS_MAX)
    _say(secret)
    if options.access_key:
        keys = AccessKeys(options.folder)
        keys.load()
        _say(access_key_of(token.secret_hash))
        _say(keys.secret_key(token.secret_hash))


def _new_hash(options: argparse.Namespace) -> str:
    """The hash of a password from standard input, or typed twice on a terminal."""
    if options.password_stdin or not sys.stdin.isatty():
        password = sys.stdin.readline().rstrip("\n")
    else:
        password = getpass.getpass("Password: ")
        if getpass.getpass("Once more: ") != password:
            raise Invalid("the two passwords differ", remedy="try again")
    check_password(password)
    return hash_password(password)


def _entry(action: str, kind: str, name: str) -> AuditEntry:
    return AuditEntry.of(ACTOR, action, kind, name, at_ms=_now_ms())


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def _parser() -> argparse.ArgumentParser:
    where = argparse.ArgumentParser(add_help=False)
    where.add_argument("--data", type=Path, metavar="DIR", help="the server's data directory")
    where.add_argument("--config", type=Path, metavar="FILE", help="the server's TOML settings")
    where.add_argument("--database-url", metavar="URL", help="where it is not in the directory")
    parser = argparse.ArgumentParser(prog="kitemq", description="Users and tokens of a server.")
    kinds = parser.add_subparsers(metavar="KIND", required=True)
    users = kinds.add_parser("users", help="who may log in").add_subparsers(required=True)
    tokens = kinds.add_parser("tokens", help="for programs").add_subparsers(required=True)

    def word(
        words: Any, name: str, text: str, run: Callable[[argparse.Namespace, Any], None]
    ) -> argparse.ArgumentParser:
        command: argparse.ArgumentParser = words.add_parser(name, help=text, parents=[where])
        command.set_defaults(run=run)
        return command

    def rights(command: argparse.ArgumentParser, role: str | None) -> None:
        command.add_argument("--role", default=role, choices=list(Role))
        command.add_argument(
            "--allow",
            action="append",
            default=[],
            metavar="ACTION:KIND:GLOB",
            help="how far rights reach, as in produce:topic:orders-*, administer:report:* or, also "
            "for a viewer, read_messages:topic:orders-*; may be given again",
        )

    adding = word(users, "add", "add a user; the password is asked for", add_user)
    changing = word(users, "change", "role, rights, or switched off", change_user)
    other_password = word(users, "password", "set another password", set_password)
    deleting = word(users, "delete", "delete a user with all tokens", delete_user)
    word(users, "list", "everybody", list_users)
    making = word(tokens, "add", "make a token and print it, this once", add_token)
    for command in (adding, changing, other_password, deleting, making):
        command.add_argument("name")
    rights(adding, Role.VIEWER)
    rights(changing, None)
    rights(making, None)
    for command in (adding, other_password):
        command.add_argument("--password-stdin", action="store_true", help="read one line")
    switch = changing.add_mutually_exclusive_group()
    switch.add_argument("--disable", action="store_true", default=None)
    switch.add_argument("--enable", dest="disable", action="store_false")
    making.add_argument("--owner", required=True, help="the user whose rights bound it")
    making.add_argument(
        "--access-key",
        action="store_true",
        help="print its access key and secret for RocketMQ clients on two further lines",
    )
    making.add_argument("--days", type=int, help="until it expires; for good where left out")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
