"""The forms in which a query shows keys and values, unless its caller chooses them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from brokerless import _native
from brokerless.errors import BrokerlessError
from brokerless.notes import collected, note
from brokerless.schemas.schema import SCHEMAS_TOPIC
from brokerless.values.decoding import Decoding
from brokerless.values.forms import PARTS

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

    from brokerless.log_dir.log_dirs import LogDirs

# The first records of a topic decide.
_DECIDING = 100


def usual_decoding(directories: LogDirs, topic: str) -> Decoding | None:
    """Return how keys and values of a topic are decoded: by a registry's schemas where they are there, else as text.

    The first records decide. Bytes that are neither stay bytes.
    """
    try:
        # The query itself reports what is lost.
        with collected():
            rows = directories.to_table(
                [topic], columns=["key", "value", "headers"], limit=_DECIDING, on_corrupt="skip"
            )
    except (BrokerlessError, OSError):
        return None
    if not rows.num_rows:
        return None
    (batch,) = rows.combine_chunks().to_batches()
    has_schemas = SCHEMAS_TOPIC in directories.topics()
    binary = _native.binary_columns(batch)
    forms: dict[str, Any] = {}
    for part in PARTS:
        if has_schemas and is_framed(batch, part):
            forms[part] = "registry"
        elif part not in binary:
            forms[part] = "utf8"
    return Decoding(**forms) if forms else None


def registry_decoding(directories: LogDirs, topics: Iterable[str | None]) -> Decoding | None:
    """Return how keys and values are decoded by a registry's schemas, if those of all topics that have records are."""
    if SCHEMAS_TOPIC not in directories.topics():
        return None
    forms: set[tuple[tuple[str, Any], ...]] = set()
    for topic in topics:
        usual = None if topic is None else usual_decoding(directories, topic)
        if usual is not None:
            forms.add(tuple((part, "registry") for part in PARTS if usual.form(part) == "registry"))
    if len(forms) > 1:
        note("some topics have a registry's schemas and some do not, so none is decoded: choose topics, or the forms")
    (common,) = forms if len(forms) == 1 else ((),)
    return Decoding(**dict(common)) if common else None


def is_framed(rows: pa.RecordBatch, part: str) -> bool:
    """Return whether all keys or values look as if they name a schema. Registries count ids from 1."""
    headers = rows["headers"] if "headers" in rows.schema.names else None
    ids = _native.schema_ids(rows[part], headers, is_key=part == "key")
    framings = set(ids["framing"].drop_null().to_pylist())
    are_counted = all(int(one or 0) > 0 for one in ids["schemaId"].drop_null().to_pylist())
    return bool(framings) and "none" not in framings and are_counted
