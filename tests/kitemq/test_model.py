"""The model of the wire: a setting is declared once, and shows wherever settings do."""

import json

import click
import msgspec
import pytest

from app.ui.framework import list_exports
from app.ui.groups import settings as group_settings
from app.ui.topics import topic
from engine.broker import (
    Exponential,
    GroupConfig,
    Ladder,
    LagBasis,
    Mode,
    ReplayState,
    ReplayTo,
    ResetNote,
    ResetTo,
    StartAt,
    Steps,
    Strategy,
    TopicConfig,
    TopicType,
    TransactionDecision,
    TransactionState,
)
from engine.message import Durability
from engine.topic import catalog
from kitemq import Client
from kitemq.cli import command_line, main
from kitemq.model import groups, progress, replays, resets, topics, transactions
from kitemq.model.conversion import changes, convert, encoded, from_json, set_fields
from kitemq.model.values import Int64
from tests.live import LiveServer

TYPED_OTHERWISE = {
    "start_at_ms": "--start-at", "retry_policy": "--retry", "consume_enabled": "--paused",
    "rooms": "--room",
}  # fmt: skip
FORM_NAMES = {"retention_ms": "retention"}  # a form's field that is typed in another unit


class Source(msgspec.Struct):
    offset: int
    kind: Durability | None = None
    extra: int = 0


class Target(msgspec.Struct):
    offset: Int64
    kind: topics.Durability | None
    name: str = "-"


def options_of(*words: str) -> set[str]:
    """The options of a command of the command line."""
    found: click.Command = command_line()
    for word in words:
        assert isinstance(found, click.Group)
        found = found.get_command(click.Context(found), word) or found
    return {option for param in found.params for option in param.opts}


def test_values_become_others_by_the_names_of_their_attributes():
    made = convert(Source(2**60, Durability.FLUSHED), Target, name="n")
    assert made == Target(Int64(2**60), topics.Durability.FLUSHED, "n")
    content = msgspec.json.encode(made, enc_hook=encoded)
    assert json.loads(content)["offset"] == str(2**60)
    assert from_json(content, Target) == made
    with pytest.raises(msgspec.ValidationError, match="offset"):
        convert(object(), Target)


def test_a_request_changes_what_it_gives_and_nothing_else():
    request = topics.TopicSettings(durability=topics.Durability.STORED, retention_ms=None)
    assert set_fields(request) == {"durability": "stored", "retention_ms": None}
    changed = changes(TopicConfig("t", retention_ms=5), request)
    assert changed == {"durability": Durability.STORED, "retention_ms": None}
    assert changed["durability"] is Durability.STORED


def test_the_words_of_the_wire_are_the_engines():
    for wire, engine in (
        (topics.TopicType, TopicType),
        (topics.Durability, Durability),
        (groups.Mode, Mode),
        (groups.StartAt, StartAt),
        (groups.Strategy, Strategy),
        (progress.LagBasis, LagBasis),
        (replays.ReplayTo, ReplayTo),
        (replays.ReplayState, ReplayState),
        (resets.ResetTo, ResetTo),
        (resets.ResetNote, ResetNote),
        (transactions.Decision, TransactionDecision),
        (transactions.TransactionState, TransactionState),
    ):
        assert [each.value for each in wire] == [each.value for each in engine]


def test_a_topic_setting_shows_wherever_settings_do():
    settings = set(topics.SETTINGS)
    assert settings == set(catalog.CHANGEABLE)
    assert settings <= set(topics.Topic.__struct_fields__)
    assert settings <= set(topics.DEFINITION_COLUMNS)
    assert settings <= set(list_exports.TOPIC_COLUMNS)
    assert {FORM_NAMES.get(name, name) for name in settings} == set(
        topic.ConfigFields.__struct_encode_fields__
    )
    options = {"--" + name.removesuffix("_ms").replace("_", "-") for name in settings}
    assert options <= options_of("topics", "create")
    assert options <= options_of("topics", "change")


def test_a_group_setting_shows_wherever_settings_do():
    settings = set(groups.SETTINGS)
    assert settings == set(GroupConfig.__struct_fields__) - {"name", "paused_topics"}
    assert settings <= set(groups.Group.__struct_fields__)
    options = {TYPED_OTHERWISE.get(name) or "--" + name.replace("_", "-") for name in settings}
    assert options <= options_of("groups", "create")
    assert options <= options_of("groups", "change")
    # The form calls two by other names, and pausing is a button beside it.
    names = {"start_at_ms": "start_at", "retry_policy": "policy"}
    form = {names.get(name, name) for name in settings - {"consume_enabled"}}
    assert form <= set(group_settings.GroupFields.__struct_encode_fields__)


@pytest.mark.parametrize(
    "policy", [Ladder(), Exponential(1_000, 60_000, 1.5), Steps((1_000, 2_000))]
)
def test_a_group_comes_through_whole_with_each_retry_policy(policy):
    config = GroupConfig("g", retry_policy=policy, rooms=("a", "b"), strategy=Strategy.CIRCLE)
    group = convert(
        config,
        groups.Group,
        paused=False,
        members=0,
        status=groups.GroupStatus.IDLE,
        status_reason=groups.StatusReason.UNUSED,
    )
    content = msgspec.json.encode(group, enc_hook=encoded)
    assert from_json(content, groups.Group) == group
    assert convert(group, GroupConfig) == config


def test_the_command_line_sets_every_group_setting(
    server: LiveServer, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*words: str) -> int:
        return main(["--server", server.url, "groups", *words])

    given = ["--retry", "steps:1s,30s", "--no-dead-letters", "--ordered", "--retry-max", "3"]
    assert run("create", "g", *given, "--paused", "--room", "a", "--room", "b") == 0
    with Client(server.url) as client:
        group = client.groups.get("g")
        assert group.retry_policy == groups.Steps((1_000, 30_000))
        assert (group.dead_letters, group.ordered, group.retry_max) == (False, True, 3)
        assert (group.consume_enabled, group.paused, group.rooms) == (False, True, ("a", "b"))
        assert run("change", "g", "--dead-letters", "--start-at", "1000", "--no-paused") == 0
        group = client.groups.get("g")
        assert (group.dead_letters, group.start, group.start_at_ms) == (True, "time", 1000)
        assert (group.consume_enabled, group.ordered) == (True, True)
    assert run("change", "g", "--retry-max", "-1") == 2
    assert "--retry-max" in capsys.readouterr().err


def test_the_command_line_sets_every_topic_setting(
    server: LiveServer, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*words: str) -> int:
        return main(["--server", server.url, "topics", *words])

    given = ["--trace-sample", "0.25", "--retention", "12h", "--durability", "flushed"]
    assert run("create", "t", "--queues", "2", "--read-queues", "3", *given) == 0
    shown = json.loads(capsys.readouterr().out)
    with Client(server.url) as client:
        topic = client.topics.get("t")
        assert (topic.read_queues, topic.write_queues, topic.durability) == (3, 2, "flushed")
        assert (topic.trace_sample, topic.retention_ms) == (0.25, 12 * 3_600_000)
        assert shown == {name: getattr(topic, name) for name in topics.Topic.__struct_fields__}
        assert run("change", "t", "--trace-sample", "default", "--permission", "4") == 0
        topic = client.topics.get("t")
        assert (topic.trace_sample, topic.permission, topic.durability) == (None, 4, "flushed")
    assert run("change", "t", "--trace-sample", "2") == 2
    assert "--trace-sample" in capsys.readouterr().err
