"""`kitemq topics`: list, show, create, change, delete, export, import."""

import argparse
from typing import Any

from kitemq.client import Client
from kitemq.commands import definitions, purge
from kitemq.commands.asking import confirmed
from kitemq.commands.output import Exit, Output
from kitemq.commands.settings import add_options, settings_of
from kitemq.model.topics import NewTopic, TopicSettings

COLUMNS = ("name", "type", "read_queues", "write_queues", "permission", "durability")
QUEUE_COLUMNS = ("queue", "min_offset", "max_offset", "last_stored_ms")


def list_topics(options: argparse.Namespace, output: Output) -> int:
    with Client(options.server) as client:
        found = client.topics(q=options.q, type=options.type, system=options.system)
        output.rows(found, COLUMNS)
    return Exit.OK


def show_topic(options: argparse.Namespace, output: Output) -> int:
    with Client(options.server) as client:
        topic = client.topic(options.name)
    output.row(topic)
    if not output.is_json:
        output.rows(topic.queues, QUEUE_COLUMNS)
    return Exit.OK


def create_topic(options: argparse.Namespace, output: Output) -> int:
    with Client(options.server) as client:
        output.row(client.create_topic(options.name, **_settings(options, NewTopic)))
    return Exit.OK


def change_topic(options: argparse.Namespace, output: Output) -> int:
    with Client(options.server) as client:
        output.row(client.change_topic(options.name, **_settings(options, TopicSettings)))
    return Exit.OK


def delete_topic(options: argparse.Namespace, output: Output) -> int:
    confirmed(f"delete topic {options.name} with all its messages", options)
    with Client(options.server) as client:
        client.delete_topic(options.name)
    output.line(f"topic {options.name} is deleted", {"deleted": options.name})
    return Exit.OK


def _settings(options: argparse.Namespace, kind: type[TopicSettings]) -> dict[str, Any]:
    for name in ("read_queues", "write_queues"):
        if getattr(options, name) is None:
            setattr(options, name, options.queues)
    return settings_of(options, kind)


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `topics` and its words."""
    parser = commands.add_parser("topics", help="list, show, create, change or delete topics")
    words = parser.add_subparsers(metavar="WORD", required=True)

    listing = words.add_parser("list", help="topics by name")
    listing.add_argument("q", nargs="?", default="", help="part of the name")
    listing.add_argument("--type", default="", help="NORMAL, FIFO, DELAY or TRANSACTION")
    listing.add_argument("--system", action="store_true", help="the engine's own topics too")
    listing.set_defaults(run=list_topics)

    showing = words.add_parser("show", help="one topic with its queues")
    showing.add_argument("name")
    showing.set_defaults(run=show_topic)

    for word, text, run, kind in (
        ("create", "create a topic", create_topic, NewTopic),
        ("change", "change what is given", change_topic, TopicSettings),
    ):
        setting = words.add_parser(word, help=text)
        setting.add_argument("name")
        setting.add_argument("--queues", default=None, metavar="VALUE", help="read and write")
        add_options(setting, kind, but=("name",))
        setting.set_defaults(run=run)

    definitions.add_words(words)
    purge.add_word(words)

    deleting = words.add_parser("delete", help="delete a topic with its messages")
    deleting.add_argument("name")
    deleting.add_argument("--yes", action="store_true", help="do not ask")
    deleting.set_defaults(run=delete_topic)
