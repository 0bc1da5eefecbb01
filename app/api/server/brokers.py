"""REST for the brokers of the cluster behind this server."""

from app.api.framework.operation import Call, Operations
from app.security.access import READ_SERVER
from kitemq.model.brokers import BrokerList

operations = Operations("system")


@operations.get("/brokers", capability="brokers", needs=READ_SERVER)
async def list_brokers(call: Call[None, None]) -> BrokerList:
    """List the brokers of the cluster behind this server, with their figures.

    Also those that are away, and those whose queues have no numbers. 409 with the embedded engine,
    which is one broker.
    """
    return BrokerList(await call.administration.brokers())
