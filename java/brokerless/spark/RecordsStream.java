package brokerless.spark;

import java.util.Map;
import java.util.Optional;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.AcceptsLatestSeenOffset;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReportsSourceMetrics;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A stream of records: its offsets and plans are Python's, and its tasks are read in the JVM or in Python. */
class RecordsStream implements MicroBatchStream, AcceptsLatestSeenOffset, ReportsSourceMetrics {
  private final MicroBatchStream python;
  private final PartitionReaderFactory readers;
  private final String description;

  /** The latest end offsets that the stream has seen. */
  private Offset latest;

  private RecordsStream(MicroBatchStream python, PartitionReaderFactory readers, String description) {
    this.python = python;
    this.readers = readers;
    this.description = description;
  }

  /** Returns a stream whose tasks these readers read; null for those of Python. */
  static MicroBatchStream of(
      MicroBatchStream python, PartitionReaderFactory readers, CaseInsensitiveStringMap options) {
    String description = Described.stream(options);
    return python instanceof SupportsTriggerAvailableNow limited
        ? new Limited(python, limited, readers, description)
        : new RecordsStream(python, readers, description);
  }

  /** The source's description in the progress of a query. */
  @Override
  public String toString() {
    return description;
  }

  @Override
  public Map<String, String> metrics(Optional<Offset> consumed) {
    return consumed.isEmpty() || latest == null ? Map.of() : OffsetsBehind.metrics(consumed.get().json(), latest.json());
  }

  /** Keeps the latest end offsets for the metrics, which must not look at the logs again. */
  final Offset seen(Offset offset) {
    latest = offset == null ? latest : offset;
    return offset;
  }

  @Override
  public Offset initialOffset() {
    return python.initialOffset();
  }

  @Override
  public Offset latestOffset() {
    return seen(python.latestOffset());
  }

  @Override
  public void setLatestSeenOffset(Offset offset) {
    if (python instanceof AcceptsLatestSeenOffset accepting) {
      accepting.setLatestSeenOffset(offset);
    }
  }

  @Override
  public Offset deserializeOffset(String json) {
    return python.deserializeOffset(json);
  }

  @Override
  public InputPartition[] planInputPartitions(Offset start, Offset end) {
    InputPartition[] planned = python.planInputPartitions(start, end);
    if (readers == null) {
      return planned;
    }
    return RecordsTask.of(planned);
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    return readers == null ? python.createReaderFactory() : readers;
  }

  @Override
  public void commit(Offset end) {
    python.commit(end);
  }

  @Override
  public void stop() {
    python.stop();
  }

  /** A stream that knows limits of its batches: Python's does from Spark 4.2 on. */
  private static final class Limited extends RecordsStream implements SupportsTriggerAvailableNow {
    private final SupportsTriggerAvailableNow python;

    private Limited(
        MicroBatchStream stream,
        SupportsTriggerAvailableNow python,
        PartitionReaderFactory readers,
        String description) {
      super(stream, readers, description);
      this.python = python;
    }

    @Override
    public ReadLimit getDefaultReadLimit() {
      return python.getDefaultReadLimit();
    }

    @Override
    public Offset latestOffset(Offset start, ReadLimit limit) {
      return python.latestOffset(start, limit);
    }

    @Override
    public Offset reportLatestOffset() {
      return seen(python.reportLatestOffset());
    }

    @Override
    public void prepareForTriggerAvailableNow() {
      python.prepareForTriggerAvailableNow();
    }
  }
}
