"""The public names of `brokerless`, imported on first use of one of them.

`X as X` marks a name as re-exported for type checkers.
"""

from brokerless import errors as errors
from brokerless.errors import BrokerlessError as BrokerlessError
from brokerless.rewriting.compact.compact import Compaction as Compaction
from brokerless.rewriting.convert import Conversion as Conversion
from brokerless.rewriting.erase import Erasure as Erasure
from brokerless.log.defect import Defect as Defect
from brokerless.log.log import Log as Log
from brokerless.log.matches import Matches as Matches
from brokerless.log.reader import (
    KAFKA_COLUMNS as KAFKA_COLUMNS,
    Reader as Reader,
    read_split as read_split,
)
from brokerless.rewriting.retain import Retention as Retention
from brokerless.checking.check import check as check
from brokerless.checking.compare import compare as compare
from brokerless.checking.comparison import Comparison as Comparison
from brokerless.checking.finding import Finding as Finding
from brokerless.healing.damaged_range import DamagedRange as DamagedRange
from brokerless.healing.repair import repair as repair
from brokerless.healing.report import (
    MissingPartition as MissingPartition,
    RepairReport as RepairReport,
    RescueReport as RescueReport,
)
from brokerless.healing.rescue import rescue as rescue
from brokerless.layout.file_names import InactivePartition as InactivePartition
from brokerless.layout.log_dir_files import LogDirFiles as LogDirFiles
from brokerless.log.segment import Segment as Segment
from brokerless.layout.topic_config import TopicConfig as TopicConfig
from brokerless.log.split import Split as Split
from brokerless.layout.checkpoints import LeaderEpoch as LeaderEpoch
from brokerless.log.offsets_for_times import OffsetAndTimestamp as OffsetAndTimestamp
from brokerless.rewriting.truncate import Truncation as Truncation
from brokerless.append.writer import AppendResult as AppendResult, LogWriter as LogWriter
from brokerless.log_dir.log_dirs import LogDirs as LogDirs, Topic as Topic
from brokerless.log_dir.writer import (
    LogDirWriter as LogDirWriter,
    create_log_dir as create_log_dir,
    open_log_dir as open_log_dir,
)
from brokerless.remarks import Remark as Remark
from brokerless.produce.producer import Producer as Producer
from brokerless.query.duckdb import register_duckdb as register_duckdb
from brokerless.query.polars import scan_polars as scan_polars
from brokerless.reporting.report import ClusterReport as ClusterReport, report as report
from brokerless.rewriting.run import RewriteResult as RewriteResult, rewrite as rewrite
from brokerless.serving.serve import serve as serve
from brokerless.state.cluster import cluster as cluster
from brokerless.state.groups import groups as groups
from brokerless.state.offset_commits import commits as commits
from brokerless.state.producers import producers as producers
from brokerless.schemas.schema import Schema as Schema, SchemaVersion as SchemaVersion
from brokerless.state.remote_segments import remote_segments as remote_segments
from brokerless.state.schemas import Schemas as Schemas
from brokerless.state.transactions import transactions as transactions
from brokerless.values.decoding import Decoding as Decoding
from brokerless.values.encoding import Encoding as Encoding
