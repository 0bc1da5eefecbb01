"""Notes at a start that the machine may have lost power, before anything is written.

A leader's standbys may then have what its disk has not, and other bytes where its log has a hole:
they are cut where it is whole, as at the beginning of an epoch, and get what it has behind that
once its holes are closed. The file `boot` names the start of
the machine in which a directory was used last. The death of a process loses nothing.
"""

from pathlib import Path

from engine.replication.epochs import OS_FILES, EpochRole, EpochState, save_epochs
from engine.replication.holes import close_holes
from engine.replication.tail import scan_directory
from engine.store.checkpoint import read_clean
from engine.store.files import Files, make_lasting_directory, read_whole, write_atomic

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
    checkpoint on, and closes its holes.
    """
    try:
        is_same = read_whole(files, root / FILE) == boot.encode()
    except FileNotFoundError:
        is_same = False
    if is_same or not boot:
        return state
    if state.role is not EpochRole.STANDBY and not _is_clean(root, files):
        scan = scan_directory(root, files)
        state = state.lose_power(scan.whole_end)
        save_epochs(root, state, files)  # before: from there on its standbys have other bytes
        close_holes(root, scan.damages, files)
    save_boot(root, boot, files)
    return state


def _is_clean(root: Path, files: Files) -> bool:
    """Whether it was stopped in order, so that all of it is on the disk."""
    return not files.exists(root / "abort") and read_clean(files, root / "clean")[0] is not None
