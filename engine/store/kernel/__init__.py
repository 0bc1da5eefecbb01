"""Loops over whole batches: compiled where the installation could build them, else in Python.

Both twins have the same functions and give the same bytes. `KITEMQ_KERNEL=pure` in the environment
keeps to Python, which tests and comparisons need.
"""

import os
from typing import Final

from engine.store.kernel.interface import (
    EncodedColumns,
    IndexNumbers,
    RecordColumns,
    StoredColumns,
)

_name = "pure"
try:
    if os.environ.get("KITEMQ_KERNEL") == "pure":
        raise ImportError("the environment keeps to Python")
    from engine.store.kernel.compiled import (
        are_plain,
        batch_columns,
        decode_records,
        encode_records,
        index_items,
        stored_columns,
    )

    _name = "compiled"
except ImportError:  # or there was no compiler, or no headers of Python
    from engine.store.kernel.pure import (
        are_plain,
        batch_columns,
        decode_records,
        encode_records,
        index_items,
        stored_columns,
    )

KERNEL: Final = _name  # "compiled" or "pure"

__all__ = [
    "KERNEL",
    "EncodedColumns",
    "IndexNumbers",
    "RecordColumns",
    "StoredColumns",
    "are_plain",
    "batch_columns",
    "decode_records",
    "encode_records",
    "index_items",
    "stored_columns",
]
