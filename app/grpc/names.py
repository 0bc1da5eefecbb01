"""Names with a namespace: the clients' (namespace, name) are RocketMQ's "namespace%name" inside."""

from typing import Any

from app.grpc.codes import GrpcRefusal
from protocol.rocketmq.messages import Resource
from protocol.rocketmq.numbers import Code

SEPARATOR = "%"
NAMESPACE_CHARS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")
NAMESPACE_CHARS_MAX = 64


def check_namespace(text: str) -> str:
    """`text` itself; a GrpcRefusal where it cannot be part of a name."""
    if len(text) > NAMESPACE_CHARS_MAX or not NAMESPACE_CHARS.issuperset(text):
        raise GrpcRefusal(
            Code.BAD_REQUEST,
            f"the namespace {text[:80]!r} is not made of at most {NAMESPACE_CHARS_MAX} letters, "
            "digits, '-' and '_'",
        )
    return text


def inner(resource: Any, namespace: str) -> str:
    """The name under which the engine knows a resource.

    Its own namespace goes before the call's, since one client fills the one, one the other.
    """
    own = resource.resource_namespace
    space = check_namespace(own) if own else namespace
    return f"{space}{SEPARATOR}{resource.name}" if space else str(resource.name)


def outer(name: str, namespace: str) -> Any:
    """The resource that a client in this namespace knows by the engine's `name`."""
    prefix = f"{namespace}{SEPARATOR}"
    if namespace and name.startswith(prefix):
        return Resource(resource_namespace=namespace, name=name[len(prefix) :])
    return Resource(name=name)
