"""Damaged journals and snapshots: stepped over and told, or refused with the place; never cut."""

from pathlib import Path

import pytest

from engine.errors import Corrupt
from engine.store.damage import Damage
from engine.store.files import OsFiles, make_lasting_directory
from engine.store.journal import JournalPlace
from engine.store.journal_files import file_path
from engine.store.journal_frames import frame, join_frames, read_frames
from tests.engine.store.parts import HeldPool
from tests.engine.store.test_journal import Part


@pytest.fixture
def root(tmp_path: Path) -> Path:
    make_lasting_directory(OsFiles(), tmp_path / "config")
    return tmp_path / "config"


def flip(path: Path, at: int, bit: int = 0) -> bytes:
    """Flip a bit; returns the file as it was."""
    before = path.read_bytes()
    data = bytearray(before)
    data[at] ^= 1 << bit
    path.write_bytes(data)
    return before


def damages(part: Part) -> list[Damage]:
    return part.journal._damage_log.listed()


def journal(root: Path, number: int = 0) -> Path:
    return file_path(root, "journal", number)


def snapshot(root: Path, number: int) -> Path:
    return file_path(root, "snapshot", number)


def filled(root: Path, count: int) -> list[int]:
    """A journal of changes; where each of its frames ends."""
    part, ends = Part(OsFiles(), root), []
    for number in range(count):
        part.set(f"n{number}", number)
        ends.append(part.journal.place.size_bytes)
    return ends


@pytest.mark.parametrize("is_clean", [False, True])
def test_a_bit_flipped_in_the_middle_costs_one_change_and_is_told(
    root: Path, is_clean: bool
) -> None:
    ends = filled(root, 5)
    for at in range(ends[1], ends[2]):
        for bit in (0, 5, 7):
            before = flip(journal(root), at, bit)
            part = Part(OsFiles(), root, stopped=JournalPlace(0, ends[-1]) if is_clean else None)
            assert part.values == {"n0": 0, "n1": 1, "n3": 3, "n4": 4}, (at, bit)
            (damage,) = damages(part)
            assert (damage.start, damage.end) == (ends[1], ends[2])
            assert damage.file == "progress.journal.0000000000"
            kept = (root / damage.copy).read_bytes()
            assert len(kept) in range(1, ends[2] - ends[1] + 1)
            assert part.journal.is_damaged
            journal(root).write_bytes(before)


def test_what_is_stepped_over_stays_where_it_is(root: Path) -> None:
    ends = filled(root, 3)
    flip(journal(root), ends[0] + 10)
    damaged = journal(root).read_bytes()
    Part(OsFiles(), root)
    assert journal(root).read_bytes().startswith(damaged), "what a start adds comes behind it"


def test_the_last_change_after_an_unclean_stop_is_cut_off_kept_and_told(root: Path) -> None:
    ends = filled(root, 3)
    flip(journal(root), ends[1] + 9)
    torn = journal(root).read_bytes()[ends[1] :]
    part = Part(OsFiles(), root)
    assert part.values == {"n0": 0, "n1": 1}
    (damage,) = damages(part)
    assert (damage.start, damage.end) == (ends[1], ends[2])
    assert (root / damage.copy).read_bytes() == torn
    assert journal(root).stat().st_size == ends[1]
    assert not part.journal.is_damaged, "a power loss may do that"


def test_after_a_clean_stop_not_even_the_last_change_can_be_torn(root: Path) -> None:
    ends = filled(root, 3)
    flip(journal(root), ends[1] + 9)
    part = Part(OsFiles(), root, stopped=JournalPlace(0, ends[-1]))
    assert part.journal.is_damaged
    assert len(damages(part)) == 1


def test_a_journal_that_lost_its_end_after_a_clean_stop_is_told(root: Path) -> None:
    ends = filled(root, 3)
    journal(root).write_bytes(journal(root).read_bytes()[: ends[1]])
    part = Part(OsFiles(), root, stopped=JournalPlace(0, ends[-1]))
    assert part.journal.is_damaged
    assert (damages(part)[0].start, damages(part)[0].end) == (ends[1], ends[2])


def test_what_a_checkpoint_saw_on_the_disk_is_damaged_and_not_torn(root: Path) -> None:
    ends = filled(root, 3)
    flip(journal(root), ends[1] + 9)
    assert Part(OsFiles(), root, synced=JournalPlace(0, ends[-1])).journal.is_damaged


def test_a_copy_is_kept_once_however_often_one_starts(root: Path) -> None:
    ends = filled(root, 3)
    flip(journal(root), ends[0] + 10)
    for _ in range(3):
        Part(OsFiles(), root)
    assert len(list((root / "set-aside").iterdir())) == 1


def generations(root: Path) -> Part:
    part = Part(OsFiles(), root)
    for number in range(4):
        part.set(f"n{number}", number)
        part.journal.compact()
    part.set("last", 9)
    return part


def test_a_damaged_snapshot_falls_back_to_the_one_before_it(root: Path) -> None:
    whole = generations(root)
    newest = snapshot(root, 4)
    size = newest.stat().st_size
    for at in (0, 9, size // 2, size - 9, size - 1):
        before = flip(newest, at)
        part = Part(OsFiles(), root)
        assert part.values == whole.values, at
        assert [damage.file for damage in damages(part)] == ["progress.snapshot.0000000004"]
        aside = root / damages(part)[0].copy
        assert aside.read_bytes() != before
        aside.unlink()
        newest.write_bytes(before)


def test_damage_makes_a_new_snapshot_at_the_first_tick(root: Path) -> None:
    whole = generations(root)
    flip(snapshot(root, 4), 9)
    part = Part(OsFiles(), root)
    part.journal.tick()
    again = Part(OsFiles(), root)
    assert again.values == whole.values
    assert damages(again) == []


def test_a_snapshot_with_nothing_older_refuses_with_file_offset_and_command(root: Path) -> None:
    generations(root)
    flip(snapshot(root, 4), 9)
    snapshot(root, 3).unlink()
    journal(root, 3).unlink()
    before = {path: path.read_bytes() for path in root.iterdir()}
    with pytest.raises(Corrupt) as refused:
        Part(OsFiles(), root)
    assert "progress.snapshot.0000000004 is damaged at offset 0" in refused.value.detail
    assert f"kitemq store repair --data {root.parent}" in refused.value.remedy
    assert {path: path.read_bytes() for path in root.iterdir()} == before


def test_a_journal_that_is_missing_refuses(root: Path) -> None:
    pool = HeldPool()
    part = Part(OsFiles(), root, pool)
    for number in range(3):
        part.set(f"n{number}", number)
        part.journal._compacting = False
        part.journal.compact()  # no snapshot is ever written
    journal(root, 1).unlink()
    with pytest.raises(Corrupt, match=r"journal\.0000000001 is missing"):
        Part(OsFiles(), root)


def test_a_journal_that_builds_on_a_torn_one_is_put_aside_and_told(root: Path) -> None:
    part = Part(OsFiles(), root, HeldPool())
    part.set("a", 1)
    part.set("a", 2)
    part.journal.compact()  # the snapshot is never written
    part.set("a", 3)
    dropped = journal(root, 1).read_bytes()
    journal(root).write_bytes(journal(root).read_bytes()[:-1])
    again = Part(OsFiles(), root)
    assert again.values == {"a": 1}
    assert [(root / damage.copy).read_bytes() for damage in damages(again)][1] == dropped
    assert again.journal.is_damaged


def test_only_two_generations_are_kept(root: Path) -> None:
    generations(root)
    assert sorted(path.name.partition(".")[2] for path in root.iterdir()) == [
        f"{kind}.{number:010d}" for kind in ("journal", "snapshot") for number in (3, 4)
    ]


def test_frames_inside_a_damaged_one_are_not_taken_for_changes() -> None:
    inner = frame(b"\x93\xa3set\xa1x\x01")
    outer = bytearray(frame(b"\x93\xa3set\xc4" + inner + b"\x01"))
    outer[9] ^= 1
    after = frame(b"\x93\xa3set\xa1y\x02")
    found = read_frames(bytes(outer) + after)
    assert [payload.data for payload in found.payloads] == [after[8:]]


def test_every_stretch_is_either_a_frame_or_a_gap_or_the_end() -> None:
    payloads = [b"\x93\xa3set\xa1%c%c" % (97 + number, number) for number in range(20)]
    whole = join_frames(payloads)
    for at in range(len(whole)):
        for bit in range(8):
            data = bytearray(whole)
            data[at] ^= 1 << bit
            found = read_frames(bytes(data))
            covered = sum(8 + len(payload.data) for payload in found.payloads)
            covered += sum(gap.end - gap.start for gap in found.gaps)
            assert covered == found.end, (at, bit)
            assert not (found.is_ended and not found.gaps and len(found.payloads) == 20)
