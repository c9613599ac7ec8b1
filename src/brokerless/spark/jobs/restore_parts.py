"""One task of a restore: it reads exported files, and writes parts for the log directory.

Each finished task leaves a receipt beside its parts, once the parts are durable. A run after a failure reuses these
parts.
"""

from __future__ import annotations

import itertools
import json
import time
import uuid
from collections import defaultdict
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Self

import pyarrow as pa

from brokerless.io import disk, storage
from brokerless.spark.jobs.formats import reading
from brokerless.staging.parts import DIRECTORY, Part

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from brokerless.spark.jobs.export_directory import ExportDirectory
    from brokerless.spark.jobs.manifest import ExportedFile
    from brokerless.staging.parts import PartWriter, Staging


@dataclass(frozen=True)
class Made:
    """The result of one task.

    Attributes:
        parts: one part per partition.
        seconds: the time of each part.
    """

    parts: tuple[Part, ...]
    seconds: tuple[float, ...]

    def to_json(self) -> bytes:
        """Return the result as JSON."""
        return json.dumps({"parts": [asdict(part) for part in self.parts], "seconds": self.seconds}).encode()

    @classmethod
    def from_json(cls, content: bytes, path: str) -> Self:
        """Parse the JSON of `to_json`.

        Raises:
            ValueError: the file is no receipt. The message has its path.
        """
        try:
            fields = json.loads(content)
            return cls(tuple(Part(**part) for part in fields["parts"]), tuple(fields["seconds"]))
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path} is not the receipt of a task: {error}; delete it to do the task again") from error

    def is_there(self) -> bool:
        """Return whether all parts exist with their recorded size."""
        return all(storage.exists(part.path) and storage.size(part.path) == part.size for part in self.parts)


@dataclass(frozen=True, kw_only=True)
class PartMaker:
    """The work of a restore's tasks. Picklable.

    Attributes:
        directory: the directory of the export.
        form: "parquet" or "json".
        staging: the staging area of the parts.
        segment_bytes: the topics' `segment.bytes`, which no batch exceeds.
    """

    directory: ExportDirectory
    form: str
    staging: Staging
    segment_bytes: Mapping[str, int]

    def make_numbered(self, numbered: tuple[int, Sequence[ExportedFile]]) -> Made:
        """Make the parts of a numbered task from its files, which are sorted by offset.

        Raises:
            ValueError: a file differs from the one that the export wrote, or the staging directory is not visible here.
        """
        number, files = numbered
        parts: list[Part] = []
        seconds: dict[tuple[str, int], float] = defaultdict(float)
        for topic, of_topic in itertools.groupby(files, lambda file: file.topic):
            try:
                parts += self._make(topic, of_topic, seconds)
            except ValueError as error:
                what = f"topic {topic!r} cannot be restored: {error}"
                raise ValueError(f"{what}; the other topics can be restored: name them") from error
        for part in parts:
            with disk.open_existing(part.path) as output:
                output.sync()
        made = Made(tuple(parts), tuple(round(seconds[part.topic, part.partition], 3) for part in parts))
        receipt = self._receipt(number)
        unfinished = f"{receipt}.{uuid.uuid4().hex}"
        with disk.create(unfinished) as output:
            output.append(made.to_json())
            output.sync()
        disk.rename(unfinished, receipt)
        disk.sync_directory(f"{self.staging.path}/{DIRECTORY}")
        return made

    def _make(self, topic: str, files: Iterable[ExportedFile], seconds: dict[tuple[str, int], float]) -> Sequence[Part]:
        writer = self._writer(topic)
        for file in files:
            begun = time.monotonic()
            path = f"{self.directory.path}/{file.name}"
            count, first, last = 0, -1, -1
            for rows in reading(path, self.form):
                if rows.num_rows:
                    first = rows["offset"][0].as_py() if not count else first
                    last = rows["offset"][-1].as_py()
                count += rows.num_rows
                writer.send(rows.append_column("partition", pa.repeat(pa.scalar(file.partition), rows.num_rows)))
            if count != file.rows:
                raise ValueError(f"{path} has {count} rows, and was exported with {file.rows}")
            if (first, last) != (file.first_offset, file.last_offset):
                raise ValueError(
                    f"{path} has offsets {first} to {last}, and was exported with {file.first_offset} to "
                    f"{file.last_offset}"
                )
            seconds[topic, file.partition] += time.monotonic() - begun
        return writer.finish()

    def made_before(self, tasks: int) -> dict[int, Made]:
        """Return the results of an earlier run, by task number."""
        found = {}
        for number in range(tasks):
            if storage.exists(self._receipt(number)):
                path = self._receipt(number)
                made = Made.from_json(storage.read_all(path), path)
                if made.is_there():
                    found[number] = made
        return found

    def _writer(self, topic: str) -> PartWriter:
        # Half, because the size of a compressed batch is an estimate.
        size = min(self.staging.encoding.batch_size, self.segment_bytes[topic] // 2)
        return replace(self.staging, topic=topic, encoding=replace(self.staging.encoding, batch_size=size)).writer()

    def _receipt(self, number: int) -> str:
        return f"{self.staging.path}/{DIRECTORY}/task-{number:06d}"
