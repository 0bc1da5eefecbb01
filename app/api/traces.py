"""Traces: what happened to one message, and how the recording of it goes."""

from app.api.framework.operation import Call, Operations
from app.security.access import READ_SERVER
from kitemq.model.conversion import convert
from kitemq.model.journeys import Journey, TraceStatus

operations = Operations("traces", id="7F00000100001F900000000000000000")


@operations.get(
    "/messages/{id}/journey",
    capability="journeys",
    needs=READ_SERVER,
    not_found=False,
    errors=(422,),
)
async def get_journey(call: Call[None, None]) -> Journey:
    """Get a message's journey.

    Takes a message id or an offset id. Stages come from the message's records in the log, from
    what was traced, from the groups' progress and from traces that clients send themselves. Where
    nothing is found `stages` is empty and `reasons_checked` says why that can be.
    """
    return convert(await call.services.journeys.find(call.path("id")), Journey)


@operations.get("/traces/status", capability="delivery_records", needs=READ_SERVER)
async def trace_status(call: Call[None, None]) -> TraceStatus:
    """Tell how the recording of traces goes."""
    return convert(await call.services.journeys.status(), TraceStatus)
