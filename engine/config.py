"""Settings of the engine, each with its default, unit and help."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.message import Durability

MIB = 1024 * 1024
ROCKETMQ_SCHEME = "rocketmq://"  # of a leader that is an Apache RocketMQ master


def setting(default: Any, help_text: str, *, is_shown: bool = True, **about: Any) -> Any:
    """A dataclass field that carries its own help; `docs/settings.md` is made from it.

    `about` bounds its values: `least`, `above` and `most` of a number, `choices` of a text. With
    `is_secret` no page shows it; neither do logs what is not `is_shown`.
    """
    is_shown = is_shown and not about.get("is_secret")
    return field(default=default, repr=is_shown, metadata={"help": help_text, **about})


@dataclass(frozen=True, kw_only=True)
class EngineConfig:
    """The engine's settings; each part gets only those that it uses."""

    data: Path = setting(Path("data"), "Directory of the log, the queues and the progress files.")
    segment_bytes: int = setting(64 * MIB, "Size of one commit log file; sparse until written.")
    queue_file_entries: int = setting(300_000, "Entries of 20 bytes in one consume queue file.")
    index_slots: int = setting(500_000, "Hash slots of one key index file (4 bytes each).")
    index_items: int = setting(1_000_000, "Keys that one key index file holds (20 bytes each).")
    timer_log_bytes: int = setting(
        100 * MIB,
        "Size of the file in which waiting exact times are written for Apache RocketMQ: its "
        "mappedFileSizeTimerLog. Sparse; each takes 52 bytes of it.",
    )
    durability: Durability = setting(
        Durability.STORED,
        "What accepted means unless a topic or a send asks for more: stored (page cache, "
        "survives a killed process), flushed (on disk, survives power loss) or replicated (on a "
        "standby, too).",
    )
    replicated_timeout_s: float = setting(
        3.0, "A send that is to be replicated waits so long for a standby.", above=0
    )
    replicated_fallback: str = setting(
        "refuse",
        "What such a send gets with no standby in time: refuse, or flushed.",
        choices=("refuse", "flushed"),
    )
    flush_interval_s: float = setting(0.5, "How often what is only stored is brought to disk.")
    checkpoint_interval_s: float = setting(1.0, "How often recovery's starting point moves on.")
    open_files_max: int = setting(
        512,
        "Consume queue files kept open at once. At rest the engine holds these, `log_files_max`, "
        "and about ten more, however large the log is.",
    )
    log_files_max: int = setting(
        64,
        "Full log files and full key index files kept open at once; the others are opened when "
        "they are read. At most half of `reserved_files`.",
    )
    disk_free_min_bytes: int = setting(
        256 * MIB, "Writes are refused while the disk has less room than this; reads go on."
    )
    retention_h: float = setting(
        72.0, "Hours that messages are kept, whole log files at a time; 0 keeps them for good."
    )
    retention_bytes: int = setting(
        0, "Most bytes that the log may take, the oldest files going first; 0 sets no limit."
    )
    retention_interval_s: float = setting(10.0, "How often the log is looked over for old files.")
    disk_expire_percent: int = setting(
        75, "From this much of the disk in use on, no topic's own retention holds old files back."
    )
    disk_force_percent: int = setting(
        85, "From this much of the disk in use on, the oldest files go though they are not old."
    )
    disk_refuse_percent: int = setting(
        90, "From this much of the disk in use on, sends are refused; 0 never refuses for it."
    )
    disk_enough_bytes: int = setting(
        8192 * MIB, "While this much is free, the three percentages do not count; 0: never."
    )
    trace_sample: float = setting(
        1.0,
        "Share of messages whose deliveries are traced, 0 (none) to 1 (all), in topics without a "
        "rate of their own.",
    )
    auto_create_topics: bool = setting(True, "Create an unknown topic at its first message.")
    auto_create_groups: bool = setting(True, "Create an unknown consumer group at its first use.")
    default_queues: int = setting(4, "Read and write queues of a topic that names none.")
    retry_max: int = setting(16, "Retries after the first delivery, unless the group says other.")
    inflight_max: int = setting(
        10_000, "Messages that one group may have outstanding in one queue; then receive waits."
    )
    long_polls_max: int = setting(100_000, "Long polls held open at once, over all clients.")
    long_polls_per_key_max: int = setting(1024, "Long polls held on one queue or one group.")
    store_host: str = setting(
        "127.0.0.1:8080",
        "Address written into records and offset ids; the server's own unless it is set.",
    )
    transaction_timeout_s: float = setting(
        6.0, "A half message is first checked so long after it was stored."
    )
    transaction_check_interval_s: float = setting(
        30.0, "From one check of a half message to the next; a polled check is leased for it."
    )
    transaction_check_max: int = setting(
        15, "After so many checks without an answer a transaction is given up."
    )
    transactions_max: int = setting(
        1_000_000, "Undecided transactions at once; then half messages are refused."
    )
    topics_max: int = setting(100_000, "Topics that may exist at once.")
    groups_max: int = setting(100_000, "Consumer groups that may exist at once.")
    member_timeout_s: float = setting(
        120.0, "A consumer that gave no sign of life for so long is no member of its group."
    )
    members_max: int = setting(10_000, "Members of all consumer groups together.")
    queue_lock_lease_s: float = setting(
        60.0, "How long a consumer keeps a queue that it locked, unless it locks it again."
    )
    broadcast_clients_max: int = setting(
        1000, "Clients of one broadcast group whose progress is kept."
    )
    broadcast_client_timeout_s: float = setting(
        86_400.0, "The progress of a broadcast client that was not seen for so long is forgotten."
    )
    recent_bytes: int = setting(
        1024 * MIB,
        "So much of the log's end counts as recent: a group that starts as RocketMQ's do gets all "
        "of a queue whose first message lies there.",
    )
    lag_sample_s: float = setting(
        10.0,
        "How often the lag of every group is sampled for its history, for up to 2,000 queues of "
        "groups; with more it is less often in proportion. 0 keeps no history.",
    )
    lag_history_days: int = setting(30, "Days that the history of lag is kept.")
    lag_history_bytes_max: int = setting(
        256 * MIB, "Most bytes that the history of lag takes, the oldest days going first."
    )
    requests_waiting_max: int = setting(
        10_000, "Requests that wait for their reply at once; more are refused as busy."
    )
    reply_keep_s: float = setting(
        3600.0,
        "How long a reply can be fetched, and a second one to the same request is known as such.",
    )
