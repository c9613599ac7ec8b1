"""`repair`: writes a log directory without its faults, beside the damaged one or in its place.

1. A deep check of each log finds the sound batches, and so determines the steps (`RepairPlan.of`). A dry run ends here.
2. The repaired partitions are built from the sound batches, in a directory that a broker would delete. Indexes,
   snapshots and leader epochs are built as a broker's recovery does (`recovery.loader.load`).
3. The built partitions are checked. The bytes that were left out, and a report, are written beside the log directory.
4. One rename publishes the result: of the whole copy, or of the journal of the log directory (`commit_journal`).

So a process that dies leaves the log directory either unchanged or repaired.
"""

from __future__ import annotations

import contextlib
import errno
import os
from functools import partial
from typing import TYPE_CHECKING

from brokerless.arguments import some_or_all
from brokerless.healing.lost_directory import lost_directory
from brokerless.healing.repair_plan import RepairPlan
from brokerless.io import disk, storage
from brokerless.layout import checkpoints, commit_journal, file_names
from brokerless.layout.lock import Lock
from brokerless.layout.log_dir_files import LogDirFiles
from brokerless.log_dir.copying import check_at_rest
from brokerless.notes import collected
from brokerless.wording import option

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from brokerless.healing.report import RepairReport
    from brokerless.io.runner import Progress


def repair(
    path: str | os.PathLike[str],
    output: str | os.PathLike[str] | None = None,
    *,
    in_place: bool = False,
    sources: Iterable[str | os.PathLike[str]] = (),
    topics: Iterable[str] | None = None,
    keep_suspect: bool = False,
    indexes_only: bool = False,
    lost_path: str | os.PathLike[str] | None = None,
    dry_run: bool = False,
    progress: Progress = lambda _name, _size: None,
) -> RepairReport:
    """Write a log directory, or a partition's directory, without its faults.

    Every sound batch on both sides of damage is kept, with its offsets. Lost batches come from other replicas with the
    same history. Indexes, producer snapshots, leader epochs and checkpoints are rebuilt.

    Args:
        path: the log directory of one broker, or a partition's directory. It must not be in use.
        output: the new directory for the result; None only with `in_place` or `dry_run`.
        in_place: put the result in the place of the damaged partitions.
        sources: directories with other replicas, the best first.
        topics: only these topics; None: all.
        keep_suspect: keep a batch with a wrong checksum if all its records can be decoded. It gets a new checksum.
        indexes_only: repair only indexes and other small files. A log with damaged batches stays unchanged.
        lost_path: the new directory for the left-out bytes and the report; by default the name of the result with
            ".lost" added, and a number if that exists.
        dry_run: change nothing, and return the report of the planned repair.
        progress: called from any thread with the name of a log and the number of its bytes checked or written since the
            last call.

    Raises:
        FileExistsError: `output` or `lost_path` exists.
        FileNotFoundError: `path`, or the parent of `output`, does not exist.
        LogInUseError: a broker, or another writer, has the directory open.
        CorruptRecordError: the directory's ids cannot be read, so that its broker is not known; or a repaired partition
            has another fault, and nothing is changed.
        ValueError: the arguments contradict each other, or a topic does not exist.
    """
    given = os.fspath(path)
    others = [os.fspath(source) for source in sources]
    for local in (given, *others):
        disk.check_local(local, "repair")
    for made in (output, lost_path):
        disk.check_local(os.fspath("" if made is None else made))
    if not dry_run and (output is None) != in_place:
        raise ValueError(
            f"give either a directory for the result ({option('output')}), or {option('in_place')}; "
            f"{option('dry_run')} says what either would do"
        )
    names = some_or_all("topics", topics)
    if not storage.exists(given):
        raise FileNotFoundError(errno.ENOENT, "no such directory", given)
    is_partition = file_names.is_partition_directory(storage.list_directory(given))
    if in_place and is_partition:
        raise ValueError(f"{given} is one partition's directory: repair the log directory around it in place")
    if indexes_only and (others or keep_suspect):
        raise ValueError(
            f"{option('indexes_only')} leaves damaged batches as they are, so {option('sources')} and "
            f"{option('keep_suspect')} have no effect: leave them out"
        )
    result_to = given if output is None else os.fspath(output)
    target = os.path.abspath(result_to)
    lost_to = "" if dry_run else lost_directory(target, lost_path)
    if lost_to == target:
        raise ValueError(f"the lost bytes cannot go to {target}, the directory of the result: name another one")
    _finish_commit(given, is_allowed=in_place and not dry_run)
    check_at_rest(LogDirFiles(os.path.dirname(os.path.abspath(given)) if is_partition else given))
    plan = RepairPlan.of(given, others, names, keep_suspect=keep_suspect, indexes_only=indexes_only, progress=progress)
    lost_as_given = os.fspath(lost_path) if lost_path is not None else result_to.rstrip("/") + lost_to[len(target) :]
    shown = partial(_shown, (result_to, given, *others), lost_as_given)
    if dry_run:
        return plan.foreseen(target).with_paths(shown)
    if not in_place:
        with collected():
            return plan.copy(target, lost_to, is_partition=is_partition).with_paths(shown)
    with _locked(given), collected():
        result = plan.replace(lost_to)
    # The lock is released here: a check fails while a process holds it.
    return plan.verified(result).with_paths(shown)


def _shown(given: Sequence[str], lost_as_given: str, path: str) -> str:
    """Return a path as it was given; a name that is added to "." names another place."""
    return lost_as_given if path == os.path.abspath(lost_as_given) else storage.as_given(path, *given)


def _finish_commit(path: str, *, is_allowed: bool) -> None:
    """Finish a write that was interrupted after its commit. Readers already use the files of this write."""
    if not storage.exists(f"{path}/{commit_journal.NAME}"):
        return
    if not is_allowed:
        raise ValueError(f"a write to {path} was interrupted after its commit: run `brokerless recover` to finish it")
    with _locked(path):
        commit_journal.roll_forward(path)


@contextlib.contextmanager
def _locked(path: str) -> Iterator[None]:
    lock = Lock(f"{path}/{checkpoints.LOCK}")
    try:
        yield
    finally:
        lock.release()
