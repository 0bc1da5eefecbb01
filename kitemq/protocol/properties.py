"""Names of the broker's own properties, and the encoding of a message's properties.

A property block is RocketMQ's: name, byte 1, value, byte 2, for each. The names are those which a
producer may not set; `engine.message` has the same list, and a test compares the two.
"""

TAGS = "TAGS"
KEYS = "KEYS"
UNIQ_KEY = "UNIQ_KEY"  # message id
SHARDING_KEY = "__SHARDINGKEY"  # message group
RETRY_TOPIC = "RETRY_TOPIC"  # where a retried message was first sent to
CORRELATION_ID = "CORRELATION_ID"  # of a request: what its reply is tied to it by
EVENT_MS = "KITE_EVENT_MS"  # the producer's own time; it may set this one

RESERVED = frozenset(
    """KEYS TAGS WAIT DELAY RETRY_TOPIC REAL_TOPIC REAL_QID TRAN_MSG PGROUP MIN_OFFSET MAX_OFFSET
    BUYER_ID ORIGIN_MESSAGE_ID TRANSFER_FLAG CORRECTION_FLAG MQ2_FLAG RECONSUME_TIME MSG_REGION
    TRACE_ON UNIQ_KEY EXTEND_UNIQ_INFO MAX_RECONSUME_TIMES CONSUME_START_TIME INNER_NUM INNER_BASE
    DUP_INFO CHECK_IMMUNITY_TIME_IN_SECONDS TRAN_PREPARED_QUEUE_OFFSET __transactionId__
    TRANSACTION_CHECK_TIMES INSTANCE_ID CORRELATION_ID REPLY_TO_CLIENT TTL ARRIVE_TIME
    PUSH_REPLY_TIME CLUSTER MSG_TYPE POP_CK POP_CK_OFFSET 1ST_POP_TIME __SHARDINGKEY REDIRECT
    INNER_MULTI_DISPATCH INNER_MULTI_QUEUE_OFFSET TRACE_CONTEXT TIMER_DELAY_SEC TIMER_DELAY_MS
    TIMER_DELIVER_MS __BORNHOST BORN_TIMESTAMP TIMER_ENQUEUE_MS TIMER_DEQUEUE_MS TIMER_ROLL_TIMES
    TIMER_OUT_MS TIMER_DEL_UNIQKEY DLQ_ORIGIN_TOPIC DLQ_ORIGIN_MESSAGE_ID __CRC32#
    KITE_SOURCE KITE_ERROR KITE_CLIENT KITE_REASON
    KITE_REDRIVEN_JOB KITE_REDRIVEN_FROM KITE_REDRIVEN_TIMES KITE_LATE""".split()
)


def split_properties(block: bytes) -> dict[str, str]:
    """The properties by name; what has no name or no value is left out."""
    properties = {}
    for item in block.decode("utf-8", "replace").split("\x02"):
        name, _, value = item.partition("\x01")
        if name and value:
            properties[name] = value
    return properties
