"""`python -m tools.sdk_reference`: the SDK's reference from its docstrings, docs/sdk-reference.md.

It is made of the source, so that every version of Python makes the same page.
"""

import ast
import inspect
import sys
import textwrap
from collections.abc import Iterator
from enum import Enum
from typing import Any

import msgspec

import kitemq
from kitemq import errors
from kitemq.api.connection import Api

HEAD = """\
# Reference of the Python SDK

Made from the docstrings by `python -m tools.sdk_reference`. [The Python SDK](sdk.md) is the guide.
`AsyncClient` has the same operations as `Client`: they are awaited, and lists are asynchronous
iterators. The structs that operations return are in `kitemq.model`; [REST](rest.md) shows their
fields.
"""
PARTS = {
    "Administering": ("Client", "AsyncClient"),
    "Sending": ("Producer", "AsyncProducer", "Message", "SendResult", "Durability", "Reply"),
    "Receiving": ("Consumer", "AsyncConsumer", "Received", "AckResult", "ReplyResult"),
    "Transactions": (
        "TransactionProducer", "Transaction", "AsyncTransactionProducer", "AsyncTransaction",
        "Check", "Decision", "TransactionState",
    ),
}  # fmt: skip
WIDTH = 100


def reference() -> str:
    """The page."""
    parts = "".join(
        f"\n## {title}\n" + "".join(_class(name) for name in names)
        for title, names in PARTS.items()
    )
    first, _, tree = (errors.__doc__ or "").partition("\n\n")
    return f"{HEAD}{parts}\n## Errors\n\n{first}\n\n```text\n{tree.strip()}\n```\n"


def _class(name: str) -> str:
    kind = getattr(kitemq, name)
    parts = [f"\n### {name}\n", _signature(kind, name), _text(kind)]
    if name == "AsyncClient":
        return "".join(parts)
    if name == "Client":
        parts += _resources(kind)
    parts += [_member(name, member, value) for member, value in _members(kind)]
    return "".join(parts)


def _resources(kind: type) -> Iterator[str]:
    """The resources of the client, in the order in which it makes them."""
    with kind("http://127.0.0.1:9") as client:
        for name, api in vars(client).items():
            if isinstance(api, Api):
                yield f"\n### client.{name}\n" + _text(type(api))
                for member, value in _members(type(api)):
                    yield _member(f"client.{name}", member, value)


def _members(kind: type) -> Iterator[tuple[str, Any]]:
    """Public methods and properties that the class itself defines."""
    for name, value in vars(kind).items():
        is_member = isinstance(value, property) or inspect.isfunction(value)
        if is_member and not name.startswith("_") and inspect.getdoc(value):
            yield name, value


def _member(owner: str, name: str, value: Any) -> str:
    head = f"\n#### {owner}.{name}\n"
    if isinstance(value, property):
        assert value.fget is not None
        return head + _text(value)
    return head + _signature(value, name) + _text(value)


def _signature(value: Any, name: str) -> str:
    """The call of a function or class as code; the fields of a struct or enum."""
    if isinstance(value, type):
        if issubclass(value, Exception):
            return ""
        if issubclass(value, (Enum, msgspec.Struct)):
            return _code(_fields(value))
        call = f"{name}({_parameters(value.__init__)})"
    else:
        node = _node(value)
        prefix = "async " if isinstance(node, ast.AsyncFunctionDef) else ""
        returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
        call = f"{prefix}{name}({_parameters(value)}){returns}"
    call = call.replace("'", '"')
    return _code(call if len(call) <= WIDTH else _folded(call))


def _code(text: str) -> str:
    return f"\n```python\n{text}\n```\n"


def _node(value: Any) -> Any:
    """The definition of a function or class, as it is written."""
    return ast.parse(textwrap.dedent(inspect.getsource(value))).body[0]


def _parameters(function: Any) -> str:
    """Parameters but `self`, with the values of constants that are defaults."""
    arguments = _node(function).args
    arguments.args = arguments.args[1:]
    for defaults in (arguments.defaults, arguments.kw_defaults):
        defaults[:] = [each and _constant(each, function.__globals__) for each in defaults]
    return ast.unparse(arguments).replace("=", " = ")


def _constant(node: ast.expr, names: dict[str, Any]) -> ast.expr:
    value = eval(ast.unparse(node), names)  # noqa: S307  # of our own source
    return ast.Constant(value) if isinstance(value, (int, float, str)) else node


def _fields(kind: type) -> str:
    """The public fields of a struct, or the members of an enum, one a line."""
    lines = [
        ast.unparse(each)
        for each in _node(kind).body
        if isinstance(each, (ast.AnnAssign, ast.Assign))
    ]
    public = [line.replace("'", '"') for line in lines if not line.startswith("_")]
    return "\n".join([f"class {kind.__name__}:", *(f"    {line}" for line in public)])


def _folded(call: str) -> str:
    """A call with each parameter on a line of its own."""
    head, _, rest = call.partition("(")
    depth, start, parts = 0, 0, []
    for at, sign in enumerate(rest):
        if sign == ")" and depth == 0:
            parts.append(rest[start:at])
            end = rest[at:]
            break
        depth += (sign in "([{") - (sign in ")]}")
        if sign == "," and depth == 0:
            parts.append(rest[start:at])
            start = at + 1
    else:
        raise ValueError(call)
    return "\n".join([f"{head}(", *(f"    {part.strip()}," for part in parts), end])


def _text(value: Any) -> str:
    return f"\n{inspect.getdoc(value)}\n"


if __name__ == "__main__":
    sys.stdout.write(reference())
