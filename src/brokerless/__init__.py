"""Apache Kafka logs at rest, with no broker: read log directories as Arrow.

>>> import brokerless as bl
>>> log = bl.Log(SAMPLE)
>>> rows = next(log.read(columns=["offset", "key"]))
>>> rows.column_names
['offset', 'key']
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from brokerless.public import *

    __version__: str

__all__ = [
    "BrokerlessError",
    "Compaction",
    "Conversion",
    "Erasure",
    "Log",
    "LogDirs",
    "Producer",
    "Retention",
    "Schemas",
    "TopicConfig",
    "Truncation",
    "check",
    "cluster",
    "commits",
    "compare",
    "create_log_dir",
    "errors",
    "groups",
    "open_log_dir",
    "producers",
    "read_split",
    "register_duckdb",
    "remote_segments",
    "repair",
    "report",
    "rescue",
    "rewrite",
    "scan_polars",
    "serve",
    "transactions",
]

# Classes of arguments and results, whose names callers rarely type.
_ALSO = (
    "AppendResult",
    "ClusterReport",
    "Comparison",
    "DamagedRange",
    "Decoding",
    "Defect",
    "Encoding",
    "Finding",
    "InactivePartition",
    "KAFKA_COLUMNS",
    "LeaderEpoch",
    "LogDirFiles",
    "LogDirWriter",
    "LogWriter",
    "Matches",
    "MissingPartition",
    "OffsetAndTimestamp",
    "Reader",
    "Remark",
    "RepairReport",
    "RescueReport",
    "RewriteResult",
    "Schema",
    "SchemaVersion",
    "Segment",
    "Split",
    "Topic",
)

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Import the library on first use, so that `--help` and processes that need only a part start fast."""
        if name == "__version__":
            from importlib.metadata import version  # noqa: PLC0415

            return version(__name__)
        if name == "errors":
            from importlib import import_module  # noqa: PLC0415

            # A module of its own, which `from brokerless import errors` asks for before the library is needed.
            return import_module("brokerless.errors")
        if name not in __all__ and name not in _ALSO:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from brokerless import public  # noqa: PLC0415

        globals().update({public_name: getattr(public, public_name) for public_name in (*__all__, *_ALSO)})
        return globals()[name]

    def __dir__() -> list[str]:
        """List all public names, including those not imported yet, for completion at a prompt."""
        return sorted({*globals(), *__all__, *_ALSO, "__version__"})
