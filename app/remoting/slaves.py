"""Slaves of RocketMQ, which copy the log from the port for standbys: what they are told of it."""

from typing import TYPE_CHECKING

from app.remoting.call import RemotingCall, json_body
from app.remoting.errors import ErrorResponse, RemotingRefusal
from app.replication_settings import listen_at
from app.security.access import Action, Kind
from engine.host import host_text
from protocol.remoting.codes import ResponseCode

if TYPE_CHECKING:
    from app.remoting.backend import RemotingBackend


def register(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """Tell a slave of this broker where its master is; any other broker is refused.

    Nothing is kept of it: routes never name a slave, as it lacks what the journal holds.
    """
    call.require(Action.READ, Kind.SERVER)
    settings = backend.settings
    name = call.text("brokerName")
    if name != settings.broker_name or call.number("brokerId") <= 0:
        raise RemotingRefusal(
            ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
            f"there is one broker and no cluster of brokers: its slaves have its brokerName, "
            f"{settings.broker_name!r}, and a brokerId above 0",
        )
    address = listen_at(settings, call.connection.server_host)
    if address is None or settings.ha_secret:
        raise RemotingRefusal(
            ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
            "slaves get the log where the setting ha_listen is set and ha_secret is not",
        )
    master = {"haServerAddr": host_text(*address), "masterAddr": backend.address(call.connection)}
    return ErrorResponse(fields=master, body=json_body({"table": {}}))
