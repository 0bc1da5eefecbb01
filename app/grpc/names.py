"""Names with namespaces: a client's (namespace, name) is "namespace%name" in the engine."""

from typing import Any

from app.grpc.codes import GrpcRefusal
from protocol.rocketmq.messages import Resource
from protocol.rocketmq.numbers import Code

SEPARATOR = "%"
NAMESPACE_CHARS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")
NAMESPACE_CHARS_MAX = 64


def check_namespace(text: str) -> str:
    """`text`; raises GrpcRefusal if it is no valid namespace."""
    if len(text) > NAMESPACE_CHARS_MAX or not NAMESPACE_CHARS.issuperset(text):
        raise GrpcRefusal(
            Code.BAD_REQUEST,
            f"the namespace {text[:80]!r} is not made of at most {NAMESPACE_CHARS_MAX} letters, "
            "digits, '-' and '_'",
        )
    return text


def inner(resource: Any, namespace: str) -> str:
    """The engine's name of a resource.

    The resource's namespace precedes the call's, as clients differ in which one they set.
    """
    own = resource.resource_namespace
    space = check_namespace(own) if own else namespace
    return f"{space}{SEPARATOR}{resource.name}" if space else str(resource.name)


def outer(name: str, namespace: str) -> Any:
    """The resource for the engine's `name`, as clients in this namespace know it."""
    prefix = f"{namespace}{SEPARATOR}"
    if namespace and name.startswith(prefix):
        return Resource(resource_namespace=namespace, name=name[len(prefix) :])
    return Resource(name=name)
