"""Producing messages: one or a batch as JSON, or one as its raw bytes."""

from app.api.framework.operation import JSON, Call, Operations, Parameter, content_type
from app.api.messages.direct_produce import DirectProduce, result_of
from app.api.messages.new_messages import NewMessages, RawHeaders, from_json
from app.security.access import Action
from app.send_batcher import BatchSlice
from engine.errors import Invalid
from engine.message_columns import ColumnsResult, MessageColumns
from kitemq.model.produce import NewBatch, NewMessageAlone, ProduceResult

operations = Operations("messages")


@operations.post(
    "/topics/{topic}/messages",
    needs=Action.PRODUCE,
    status=201,
    errors=(409,),
    example_body='{"body": "order 1", "tag": "new", "keys": ["1"]}',
    body=(NewBatch, NewMessageAlone),
    raw_body=True,
    direct=DirectProduce.of,
    headers=(
        Parameter("KiteMQ-Tag", "Raw bodies only: the tag."),
        Parameter("KiteMQ-Keys", "Raw bodies only: keys, separated by commas."),
        Parameter("KiteMQ-Group", "Raw bodies only: the message group."),
        Parameter("KiteMQ-Delay-Level", "Raw bodies only: 0 to 18."),
        Parameter("KiteMQ-Deliver-At-Ms", "Raw bodies only: when, in ms since 1970 UTC."),
        Parameter("KiteMQ-Transaction-Group", "Raw bodies only: the producer group."),
        Parameter("KiteMQ-Queue", "Raw bodies only: the queue."),
        Parameter("KiteMQ-Durability", "Raw bodies only: stored, flushed or replicated."),
        Parameter("KiteMQ-Content-Type", "Raw bodies only: kept instead of Content-Type."),
    ),
)
async def produce(call: Call[None, None]) -> ProduceResult:
    """Store one message or a batch.

    JSON is one message or `{"messages": [...]}`; any other content type is the raw body of one
    message, described by KiteMQ-* headers (`KiteMQ-Property-<name>` for properties, whose names
    HTTP makes lower case; `content-type` is kept as a property). All are stored or none. The
    answer waits for the durability: `stored` survives a killed process, `flushed` power loss,
    `replicated` the loss of the machine.
    """
    topic = call.path("topic")
    if content_type(call.scope) == JSON:
        new = from_json(topic, call.content, call.client, call.host.clock.now_ms())
    else:
        new = RawHeaders(topic, call.scope["headers"]).message(call.content, call.client)
    try:
        sent = await _stored(call, new)
    except Invalid as error:
        raise new.renamed(error) from None
    return result_of(sent, call.settings.store_host)


async def _stored(call: Call[None, None], new: NewMessages) -> BatchSlice | ColumnsResult:
    if not isinstance(new.messages, MessageColumns):
        return await call.messaging.send(new.messages, new.durability)
    return await call.messaging.send_columns(new.messages, new.durability)
