"""Traces: what happened to one message, and how the recording of it goes."""

from app.api.framework.operation import API, Call, operation
from app.security.access import READ_SERVER
from kitemq.model.conversion import convert
from kitemq.model.journeys import Journey, TraceStatus

TAG = "traces"


@operation(
    "GET",
    f"{API}/messages/{{id}}/journey",
    tag=TAG,
    needs=READ_SERVER,
    answer=Journey,
    errors=(422,),
    example="curl $URL/api/v1/messages/7F00000100001F900000000000000000/journey",
)
async def get_journey(call: Call[None, None]) -> Journey:
    """Get a message's journey.

    Takes a message id or an offset id. Stages come from the message's records in the log, from
    what was traced, from the groups' progress and from traces that clients send themselves. Where
    nothing is found `stages` is empty and `reasons_checked` says why that can be.
    """
    return convert(await call.services.journeys.find(call.path("id")), Journey)


@operation(
    "GET",
    f"{API}/traces/status",
    tag=TAG,
    needs=READ_SERVER,
    answer=TraceStatus,
    example="curl $URL/api/v1/traces/status",
)
async def trace_status(call: Call[None, None]) -> TraceStatus:
    """Tell how the recording of traces goes."""
    return convert(call.host.broker.traces.status(), TraceStatus)


OPERATIONS = (get_journey, trace_status)
