"""Both twins of the kernel; the compiled one only where it was built."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from types import ModuleType

import pytest

from engine.store import kernel
from engine.store.kernel import pure

FUNCTIONS = (
    "are_plain",
    "batch_columns",
    "decode_records",
    "encode_records",
    "index_items",
    "stored_columns",
)


def find_twins() -> dict[str, ModuleType]:
    """The twins that can be used here, by name."""
    twins = {"pure": pure}
    with suppress(ImportError):  # no compiler was there: then nobody uses it either
        twins["compiled"] = import_module("engine.store.kernel.compiled")
    return twins


TWINS = find_twins()


@contextmanager
def using(name: str) -> Iterator[None]:
    """Let the engine use one twin."""
    with pytest.MonkeyPatch.context() as patch:
        for function in FUNCTIONS:
            patch.setattr(kernel, function, getattr(TWINS[name], function))
        yield
