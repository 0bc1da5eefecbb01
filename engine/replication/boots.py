"""Notes at a start that the machine may have lost power, before anything is written.

A leader's standbys may then have what its disk has not, and other bytes where its log has a hole:
they are cut where it is whole, as at the beginning of an epoch. The file `boot` names the start of
the machine in which a directory was used last. The death of a process loses nothing.
"""

from pathlib import Path

from engine.replication.epochs import OS_FILES, EpochRole, EpochState, save_epochs
from engine.replication.tail import DirectoryLog, bases_of
from engine.store.checkpoint import read_checkpoint, read_clean
from engine.store.files import Files, make_lasting_directory, read_whole, write_atomic
from engine.store.recovery import LogScan

FILE = "boot"
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str:
    """Another one after each start of the machine; "" where the system has none."""
    try:
        return BOOT_ID.read_text().strip()
    except OSError:
        return ""


def save_boot(root: Path, boot: str, files: Files = OS_FILES) -> None:
    """Note that a directory is used in this boot; OSError."""
    make_lasting_directory(files, root)
    write_atomic(files, root / FILE, boot.encode())


def after_boot(root: Path, state: EpochState, boot: str, files: Files = OS_FILES) -> EpochState:
    """The state with which a directory that stands still is used in this boot; OSError.

    It is on the disk when this returns. After a loss of power that reads the log from its
    checkpoint on.
    """
    try:
        is_same = read_whole(files, root / FILE) == boot.encode()
    except FileNotFoundError:
        is_same = False
    if is_same or not boot:
        return state
    if state.role is not EpochRole.STANDBY and not _is_clean(root, files):
        state = state.lose_power(_whole_end(root, files))
        save_epochs(root, state, files)
    save_boot(root, boot, files)
    return state


def _is_clean(root: Path, files: Files) -> bool:
    """Whether it was stopped in order, so that all of it is on the disk."""
    return not files.exists(root / "abort") and read_clean(files, root / "clean")[0] is not None


def _whole_end(root: Path, files: Files) -> int:
    """Where the log of a directory stops being whole, as its recovery is going to find it."""
    bases = bases_of(files, root)
    if not bases:
        return 0
    log, marked = DirectoryLog(files, root, bases), read_checkpoint(files, root / "checkpoint")
    end = bases[-1] + log.segment_bytes
    begin = marked.checkpoint.confirmed
    begin = begin if bases[0] <= begin <= end else bases[0]
    scan = LogScan(log, begin, end, marked.crc_range)
    for _ in scan.records():
        if scan.damages:
            return scan.damages[0].start
    return scan.end
