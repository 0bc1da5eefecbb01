"""`kitemq topics`: list, show, create, change, delete, export, import."""

from typing import Any

from kitemq.client import Client
from kitemq.commands import definitions, purge
from kitemq.commands.asking import confirmed
from kitemq.commands.command import (
    CommandGroup,
    CommandOptions,
    DeleteOptions,
    NamedOptions,
    argument,
    flag,
    option,
    yes_option,
)
from kitemq.commands.output import Exit, Output
from kitemq.commands.settings import NULL_HELP, settings_of, settings_options
from kitemq.model.topics import NewTopic, TopicSettings

COLUMNS = ("name", "type", "read_queues", "write_queues", "permission", "durability")
QUEUE_COLUMNS = ("queue", "min_offset", "max_offset", "last_stored_ms")


topics = CommandGroup("topics")
topics.add_command(definitions.export_topics)
topics.add_command(definitions.import_topics)
topics.add_command(purge.purge_topic)


class TopicListOptions(CommandOptions):
    q: str
    type: str
    system: bool


@topics.command("list", help="topics by name")
@argument("q", default="", help="part of the name")
@option("--type", default="", help="NORMAL, FIFO, DELAY or TRANSACTION")
@flag("--system", "the engine's own topics too")
def list_topics(options: TopicListOptions, output: Output) -> int:
    with Client(options.server) as client:
        items = client.topics.list(q=options.q, type=options.type, system=options.system)
        output.rows(items, COLUMNS)
    return Exit.OK


@topics.command("show", help="one topic with its queues")
@argument("name")
def show_topic(options: NamedOptions, output: Output) -> int:
    with Client(options.server) as client:
        topic = client.topics.get(options.name)
    output.row(topic)
    if not output.is_json:
        output.rows(topic.queues, QUEUE_COLUMNS)
    return Exit.OK


class TopicOptions(CommandOptions):
    name: str
    queues: str | None
    settings: dict[str, Any]


@topics.command("create", help="create a topic", epilog=NULL_HELP)
@argument("name")
@option("--queues", metavar="VALUE", help="read and write")
@settings_options(NewTopic, but=("name",))
def create_topic(options: TopicOptions, output: Output) -> int:
    with Client(options.server) as client:
        output.row(client.topics.create(options.name, **_settings(options, NewTopic)))
    return Exit.OK


@topics.command("change", help="change what is given", epilog=NULL_HELP)
@argument("name")
@option("--queues", metavar="VALUE", help="read and write")
@settings_options(TopicSettings)
def change_topic(options: TopicOptions, output: Output) -> int:
    with Client(options.server) as client:
        output.row(client.topics.change(options.name, **_settings(options, TopicSettings)))
    return Exit.OK


@topics.command("delete", help="delete a topic with its messages")
@argument("name")
@yes_option
def delete_topic(options: DeleteOptions, output: Output) -> int:
    confirmed(f"delete topic {options.name} with all its messages", yes=options.yes)
    with Client(options.server) as client:
        client.topics.delete(options.name)
    output.line(f"topic {options.name} is deleted", {"deleted": options.name})
    return Exit.OK


def _settings(options: TopicOptions, kind: type[TopicSettings]) -> dict[str, Any]:
    given = {"name": options.name, **options.settings}
    for name in ("read_queues", "write_queues"):
        if given[name] is None:
            given[name] = options.queues
    return settings_of(given, kind)
