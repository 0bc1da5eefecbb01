"""The model of the wire: a setting is declared once, and shows wherever settings do."""

import argparse
import json

import msgspec
import pytest

from app.ui.framework import list_exports
from app.ui.topics import topic
from engine.broker import TopicConfig, TopicType
from engine.message import Promise
from engine.topic import catalog
from kitemq import Client
from kitemq.cli import command_line, main
from kitemq.model import topics
from kitemq.model.conversion import changes, convert, encoded, from_json, given
from kitemq.model.values import Int64
from tests.live import LiveServer

FORM_NAMES = {"retention_ms": "retention"}  # a form's field that is typed in another unit


class Source(msgspec.Struct):
    offset: int
    kind: Promise | None = None
    extra: int = 0


class Target(msgspec.Struct):
    offset: Int64
    kind: topics.Promise | None
    name: str = "-"


def options_of(*words: str) -> set[str]:
    """The options of a command of the command line."""
    found: argparse.ArgumentParser = command_line()
    for word in words:
        groups = [each for each in found._actions if isinstance(each, argparse._SubParsersAction)]
        found = groups[0].choices[word]
    return {option for action in found._actions for option in action.option_strings}


def test_values_become_others_by_the_names_of_their_attributes():
    made = convert(Source(2**60, Promise.FLUSHED), Target, name="n")
    assert made == Target(Int64(2**60), topics.Promise.FLUSHED, "n")
    content = msgspec.json.encode(made, enc_hook=encoded)
    assert json.loads(content)["offset"] == str(2**60)
    assert from_json(content, Target) == made
    with pytest.raises(msgspec.ValidationError, match="offset"):
        convert(object(), Target)


def test_a_request_changes_what_it_gives_and_nothing_else():
    request = topics.TopicSettings(promise=topics.Promise.STORED, retention_ms=None)
    assert given(request) == {"promise": "stored", "retention_ms": None}
    changed = changes(TopicConfig("t", retention_ms=5), request)
    assert changed == {"promise": Promise.STORED, "retention_ms": None}
    assert changed["promise"] is Promise.STORED


def test_the_words_of_the_wire_are_the_engines():
    assert [each.value for each in topics.TopicType] == [each.value for each in TopicType]
    assert [each.value for each in topics.Promise] == [each.value for each in Promise]


def test_a_topic_setting_shows_wherever_settings_do():
    settings = set(topics.SETTINGS)
    assert settings == set(catalog.CHANGEABLE)
    assert settings <= set(topics.Topic.__struct_fields__)
    assert settings <= set(topics.DEFINITION_COLUMNS)
    assert settings <= set(list_exports.TOPIC_COLUMNS)
    assert {FORM_NAMES.get(name, name) for name in settings} == set(topic.CONFIG_FIELDS)
    options = {"--" + name.removesuffix("_ms").replace("_", "-") for name in settings}
    assert options <= options_of("topics", "create")
    assert options <= options_of("topics", "change")


def test_the_command_line_sets_every_topic_setting(
    server: LiveServer, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*words: str) -> int:
        return main(["--server", server.url, "topics", *words])

    given = ["--trace-sample", "0.25", "--retention", "12h", "--promise", "flushed"]
    assert run("create", "t", "--queues", "2", "--read-queues", "3", *given) == 0
    shown = json.loads(capsys.readouterr().out)
    with Client(server.url) as client:
        topic = client.topic("t")
        assert (topic.read_queues, topic.write_queues, topic.promise) == (3, 2, "flushed")
        assert (topic.trace_sample, topic.retention_ms) == (0.25, 12 * 3_600_000)
        assert shown == {name: getattr(topic, name) for name in topics.Topic.__struct_fields__}
        assert run("change", "t", "--trace-sample", "default", "--permission", "4") == 0
        topic = client.topic("t")
        assert (topic.trace_sample, topic.permission, topic.promise) == (None, 4, "flushed")
    assert run("change", "t", "--trace-sample", "2") == 2
    assert "--trace-sample" in capsys.readouterr().err
