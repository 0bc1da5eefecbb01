from array import array
from collections.abc import Callable, Sequence

from engine.message import StoredMessage
from engine.store.kernel.interface import IndexNumbers, RecordColumns

def are_plain(
    data: bytes,
    count: int,
    bodies_at: int,
    tags_at: int,
    keys_at: int,
    flags_at: int,
    born_at: int,
    ids_at: int,
    properties_at: int,
    body_bytes_max: int,
    tag_bytes_max: int,
    keys_bytes_max: int,
    key_count_max: int,
    id_bytes_max: int,
    properties_bytes_max: int,
) -> bool: ...
def batch_columns(
    data: bytes,
    start: int,
    count_max: int,
    body_bytes_max: int,
    tag_bytes_max: int,
    keys_bytes_max: int,
    key_count_max: int,
    id_bytes_max: int,
    properties_bytes_max: int,
    reserved: frozenset[bytes],
) -> tuple[bytes, int, int, int, int, int, int, int, int]: ...
def encode_records(
    columns: RecordColumns,
) -> tuple[bytes, bytes, list[int], list[int] | None, bytes, bytes]: ...
def index_items(
    slots: array[int], hashes: IndexNumbers, places: IndexNumbers, seconds: int, number: int
) -> bytes: ...
def decode_records(
    data: bytes,
    starts: Sequence[int],
    make: Callable[..., StoredMessage],
    unpack_host: Callable[[bytes], str],
) -> list[StoredMessage | None]: ...
def stored_columns(
    data: bytes, entries: bytes, start: int, first_offset: int, queue: int, topic: bytes
) -> tuple[int, int, bytes, bytes, bytes, bytes, bytes, bytes, bytes]: ...
