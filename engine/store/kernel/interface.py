"""What both twins of the kernel take and give.

A batch lies in one `bytes` as its columns: lengths and numbers, big-endian, one for each message,
and behind lengths the values without a gap. A column is named by where it begins; SHARED (-1) says
that all messages share the value given beside it.

| column | width of a length or number | then       |
|--------|-----------------------------|------------|
| bodies | 4                           | the bodies |
| tags   | 2                           | ASCII      |
| keys   | 2                           | ASCII, a blank between each two |
| flags  | 8                           |            |
| born   | 8, in ms                    |            |
| ids    | 2                           | ASCII letters and digits |
| properties | 2                       | property strings, UTF-8 |
"""

from array import array
from typing import NamedTuple, TypeAlias

BORN_AT = 4  # where the time of birth lies in what the messages of a sender share
IndexNumbers: TypeAlias = "array[int] | memoryview[int]"


class RecordColumns(NamedTuple):
    """Messages of one queue that are to be encoded; the order of fields is the compiled twin's.

    `shared` is what lies in a record from the system flag to the prepared position. `id_first` is
    the number of the first message's id, 8 hex digits behind the prefix; or -1: the prefix is
    followed by the 16 digits of the record's position, and the id is not indexed. Neither counts
    where ids are a column. What the column of properties has follows the shared ones.
    `tag`, `keys` and `properties` are parts of the property block that all share. `topic_hash` is
    the unsigned hash of "topic#", `key_hashes` those of the shared keys in the machine's order.
    A `born_ms` stands for a 0 in its column.
    """

    data: bytes
    message_count: int
    bodies_at: int
    tags_at: int
    keys_at: int
    flags_at: int
    born_at: int
    ids_at: int
    properties_at: int
    position: int
    first_offset: int
    magic: int
    queue: int
    flag: int
    tag_code: int
    born_ms: int
    shared: bytes
    topic_field: bytes
    id_prefix: bytes
    id_first: int
    tag: bytes
    keys: bytes
    properties: bytes
    topic_hash: int
    key_hashes: bytes


class StoredColumns(NamedTuple):
    """Plain records of neighbouring offsets, by column; `size_bytes` is that of the records.

    Numbers are big-endian i64. Properties and bodies are u32 lengths, then the values.
    """

    message_count: int
    size_bytes: int
    born_ms: bytes
    stored_ms: bytes
    positions: bytes
    flags: bytes
    sys_flags: bytes
    properties: bytes
    bodies: bytes


class EncodedColumns(NamedTuple):
    """Records for the log and entries for the queue, as written; `tag_codes` None: all the same.

    `hashes` (u32) and `places` (i64), in the machine's byte order, are what is to be indexed.
    """

    records: bytes
    entries: bytes
    positions: list[int]
    tag_codes: list[int] | None
    hashes: bytes
    places: bytes
