"""What a request code does."""

from typing import NamedTuple

from app.remoting.connection import Handler


class RemotingOperation(NamedTuple):
    """The handler of a request code, and its description."""

    handler: Handler
    about: str
