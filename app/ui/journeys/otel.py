"""A journey as OpenTelemetry's OTLP/JSON, for tracing tools. Pure.

There is one trace per message, with a root span and a span for each stage. A stage that goes on
ends at the time of the export and has the attribute `kitemq.goes_on`.
"""

import hashlib
from typing import Any

import msgspec

from app.ui.journeys import words as journey_words
from app.version import VERSION
from engine.broker import Journey, Stage, StageName

Values = dict[str, str | int | bool]
INTERNAL, PRODUCER, CONSUMER = 1, 4, 5
KINDS = {StageName.PRODUCE: PRODUCER, StageName.DELIVERY: CONSUMER}
OK, ERROR = 1, 2
NS_PER_MS = 1_000_000
TRACE_BYTES, SPAN_BYTES = 16, 8


def encode(journey: Journey, now_ms: int) -> bytes:
    """Encode the document; without stages it has no span."""
    spans = [_span(journey, number, stage, now_ms) for number, stage in enumerate(journey.stages)]
    if spans:
        spans.insert(0, _root(journey, now_ms))
    scope = {"scope": {"name": "kitemq.traces", "version": VERSION}, "spans": spans}
    resource = {"attributes": _attributes({"service.name": "kitemq", "service.version": VERSION})}
    document = {"resourceSpans": [{"resource": resource, "scopeSpans": [scope]}]}
    return msgspec.json.format(msgspec.json.encode(document), indent=2)


def _root(journey: Journey, now_ms: int) -> dict[str, Any]:
    attributes: Values = {
        "messaging.system": "kitemq",
        "messaging.message.id": journey.message_id,
        "messaging.destination.name": journey.topic,
        "kitemq.complete": journey.complete,
    }
    return {
        "traceId": _digest(journey.message_id, TRACE_BYTES),
        "spanId": _digest(journey.message_id, SPAN_BYTES),
        "name": f"journey {journey.topic}".rstrip(),
        "kind": INTERNAL,
        "startTimeUnixNano": _ns(min(stage.at_ms for stage in journey.stages)),
        "endTimeUnixNano": _ns(
            max(journey_words.end_ms(stage, now_ms) for stage in journey.stages)
        ),
        "attributes": _attributes(attributes),
    }


def _span(journey: Journey, number: int, stage: Stage, now_ms: int) -> dict[str, Any]:
    is_bad = journey_words.tone(stage) == "bad"
    attributes: Values = {
        "messaging.system": "kitemq",
        "messaging.message.id": journey.message_id,
        "messaging.destination.name": stage.topic,
        "messaging.consumer.group.name": stage.group,
        "messaging.client.id": stage.client,
        "kitemq.queue": str(stage.queue) if stage.queue >= 0 else "",
        "kitemq.offset": "" if stage.offset is None else str(stage.offset),
        "kitemq.attempt": stage.attempt,
        "kitemq.outcome": stage.outcome.value,
        "kitemq.source": stage.source.value,
        "kitemq.detail": stage.detail,
        "kitemq.goes_on": journey_words.goes_on(stage),
    }
    return {
        "traceId": _digest(journey.message_id, TRACE_BYTES),
        "spanId": _digest(f"{journey.message_id}#{number}", SPAN_BYTES),
        "parentSpanId": _digest(journey.message_id, SPAN_BYTES),
        "name": stage.name.value,
        "kind": KINDS.get(stage.name, INTERNAL),
        "startTimeUnixNano": _ns(stage.at_ms),
        "endTimeUnixNano": _ns(journey_words.end_ms(stage, now_ms)),
        "attributes": _attributes(attributes),
        "status": {"code": ERROR, "message": stage.detail} if is_bad else {"code": OK},
    }


def _ns(at_ms: int) -> str:
    return str(at_ms * NS_PER_MS)


def _digest(text: str, size: int) -> str:
    return hashlib.blake2b(text.encode(), digest_size=size).hexdigest()


def _attributes(values: Values) -> list[dict[str, Any]]:
    """Attributes in OTLP's form, without empty ones."""
    return [{"key": key, "value": _value(value)} for key, value in values.items() if value != ""]


def _value(value: str | int | bool) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    return {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}
