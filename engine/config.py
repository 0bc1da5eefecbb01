"""Settings of the engine, each with its default, unit and help."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.message import Promise

MIB = 1024 * 1024


def setting(default: Any, help_text: str) -> Any:
    """A dataclass field that carries its own help; `docs/settings.md` is made from it."""
    return field(default=default, metadata={"help": help_text})


@dataclass(frozen=True, kw_only=True)
class EngineConfig:
    """Everything that the engine can be told; parts are handed only what they use."""

    data: Path = setting(Path("data"), "Directory of the log, the queues and the progress files.")
    segment_bytes: int = setting(64 * MIB, "Size of one commit log file; sparse until written.")
    queue_file_entries: int = setting(300_000, "Entries of 20 bytes in one consume queue file.")
    index_slots: int = setting(500_000, "Hash slots of one key index file (4 bytes each).")
    index_items: int = setting(1_000_000, "Keys that one key index file holds (20 bytes each).")
    promise: Promise = setting(
        Promise.STORED,
        "What accepted means unless a topic or a send asks for more: stored (page cache, "
        "survives a killed process) or flushed (on disk, survives power loss).",
    )
    flush_interval_s: float = setting(0.5, "How often what is only stored is brought to disk.")
    checkpoint_interval_s: float = setting(1.0, "How often recovery's starting point moves on.")
    open_files_max: int = setting(512, "Consume queue files kept open at once.")
    disk_free_min_bytes: int = setting(
        256 * MIB, "Writes are refused while the disk has less room than this; reads go on."
    )
    auto_create_topics: bool = setting(True, "Create an unknown topic at its first message.")
    auto_create_groups: bool = setting(True, "Create an unknown consumer group at its first use.")
    default_queues: int = setting(4, "Read and write queues of a topic that names none.")
    retry_max: int = setting(16, "Retries after the first delivery, unless the group says other.")
    inflight_max: int = setting(
        10_000, "Messages that one group may have outstanding in one queue; then receive waits."
    )
    parked_max: int = setting(100_000, "Long polls held open at once, over all clients.")
    parked_per_key_max: int = setting(1024, "Long polls held on one queue or one group.")
    store_host: str = setting(
        "127.0.0.1:8080",
        "Address written into records and offset ids; the server's own unless it is set.",
    )
    topics_max: int = setting(100_000, "Topics that may exist at once.")
    groups_max: int = setting(100_000, "Consumer groups that may exist at once.")
