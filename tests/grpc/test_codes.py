"""The table from our errors to RocketMQ's codes, and the numbers against the .proto itself."""

import hashlib
import re
from enum import IntEnum

import pytest

from app.errors import ProblemError
from app.grpc.codes import CODES, OF_CODE, OF_FIELD, GrpcRefusal, code_of, status_of
from engine.errors import EngineError, Invalid, MessageNotFound, Refused
from protocol.rocketmq import numbers
from protocol.rocketmq.messages import FOLDER, METHODS, POOL, SERVICE
from protocol.rocketmq.numbers import Code

ENUMS = [
    each
    for each in vars(numbers).values()
    if isinstance(each, type) and each is not IntEnum and issubclass(each, IntEnum)
]
# Where a name of the .proto is too general for our tree.
PROTO_NAMES = {"ClientLanguage": "Language", "BodyEncoding": "Encoding"}
FIELD = re.compile(r"(?:map<[^>]*>|[\w.]+)\s+(\w+)\s*=\s*(\d+)\s*;")
RPC = re.compile(r"^\s*rpc (\w+)\((stream )?(\w+)\)\s*returns \((stream )?(\w+)\)", re.M)


def every_error() -> list[type[EngineError]]:
    found, left = [], [EngineError]
    while left:
        kind = left.pop()
        found.append(kind)
        left += [each for each in kind.__subclasses__() if each.__module__ == "engine.errors"]
    return found


def test_every_engine_error_has_a_row() -> None:
    assert set(CODES) == set(every_error())


def test_the_nearest_words_of_an_error_decide() -> None:
    assert code_of(Invalid("x")) is Code.BAD_REQUEST
    assert code_of(Invalid("x", field="messages[3].tag")) is Code.ILLEGAL_MESSAGE_TAG
    by_property = Invalid("x", field="messages[0].properties.TAGS")
    assert code_of(by_property) is Code.ILLEGAL_MESSAGE_PROPERTY_KEY
    assert code_of(MessageNotFound("x")) is Code.MESSAGE_NOT_FOUND
    lost = MessageNotFound("x", code="transaction_not_found")
    assert code_of(lost) is Code.INVALID_TRANSACTION_ID
    wrong = Refused("x", code="wrong_message_type")
    assert code_of(wrong) is Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE


def test_no_error_becomes_a_good_or_an_empty_code() -> None:
    codes = {*CODES.values(), *OF_CODE.values(), *OF_FIELD.values()}
    assert all(code >= Code.BAD_REQUEST for code in codes)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (GrpcRefusal(Code.FORBIDDEN, "no"), Code.FORBIDDEN),
        (ProblemError(429, "too_many_requests", "slow"), Code.TOO_MANY_REQUESTS),
        (ProblemError(413, "body_too_large", "large"), Code.PAYLOAD_TOO_LARGE),
        (ZeroDivisionError("secret"), Code.INTERNAL_SERVER_ERROR),
    ],
)
def test_a_status_tells_what_is_expected_and_nothing_else(error: Exception, code: Code) -> None:
    status = status_of(error)
    assert status.code == code
    assert status.message
    assert "secret" not in status.message


@pytest.mark.parametrize("kind", ENUMS, ids=lambda kind: kind.__name__)
def test_our_enumerations_are_those_of_the_proto(kind: type[IntEnum]) -> None:
    name = PROTO_NAMES.get(kind.__name__, kind.__name__)
    known = POOL.FindEnumTypeByName(f"apache.rocketmq.v2.{name}").values_by_name
    theirs = {name: value.number for name, value in known.items()}
    ours = {member.name: int(member) for member in kind}
    left_out = {name for name in theirs if name not in ours}
    assert ours.items() <= theirs.items()
    assert all(theirs[name] == 0 for name in left_out), "only the unspecified may be missing"


def test_the_compiled_descriptors_are_of_these_proto_files() -> None:
    """Without a compiler: by check sum, and by every field number in the text."""
    for line in (FOLDER / "SHA256SUMS").read_text().splitlines():
        digest, name = line.split()
        assert hashlib.sha256((FOLDER / name).read_bytes()).hexdigest() == digest, (
            f"{name} has changed: run tools/rocketmq_descriptors.sh"
        )
    in_text: list[tuple[str, int]] = []
    compiled: list[tuple[str, int]] = []
    for name in ("definition", "service"):
        path = f"apache/rocketmq/v2/{name}.proto"
        text = re.sub(r"//.*", "", (FOLDER / path).read_text())
        messages = re.sub(r"enum \w+ \{.*?\}", "", text, flags=re.S)
        in_text += [(field, int(number)) for field, number in FIELD.findall(messages)]
        for message in POOL.FindFileByName(path).message_types_by_name.values():
            compiled += [(field.name, field.number) for field in message.fields]
    assert sorted(in_text) == sorted(compiled)
    assert len(compiled) > 150


def test_every_rpc_of_the_proto_is_served_with_its_own_messages() -> None:
    text = re.sub(r"//.*", "", (FOLDER / "apache/rocketmq/v2/service.proto").read_text())
    stated = {
        name: (request, response, bool(asks), bool(answers))
        for name, asks, request, answers, response in RPC.findall(text)
    }
    served = {
        method.name: (
            method.request.DESCRIPTOR.name,
            method.response.DESCRIPTOR.name,
            method.is_client_stream,
            method.is_server_stream,
        )
        for method in METHODS.values()
    }
    assert served == stated
    assert SERVICE == "apache.rocketmq.v2.MessagingService"
