package brokerless.spark;

import java.util.Arrays;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.AcceptsLatestSeenOffset;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;

/** A stream of records: its offsets and plans are Python's, and its tasks are read in the JVM. */
class RecordsStream implements MicroBatchStream, AcceptsLatestSeenOffset {
  private final MicroBatchStream python;
  private final PartitionReaderFactory readers;

  private RecordsStream(MicroBatchStream python, PartitionReaderFactory readers) {
    this.python = python;
    this.readers = readers;
  }

  static MicroBatchStream of(MicroBatchStream python, PartitionReaderFactory readers) {
    return python instanceof SupportsTriggerAvailableNow limited
        ? new Limited(python, limited, readers)
        : new RecordsStream(python, readers);
  }

  @Override
  public Offset initialOffset() {
    return python.initialOffset();
  }

  @Override
  public Offset latestOffset() {
    return python.latestOffset();
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
    return Arrays.stream(python.planInputPartitions(start, end))
        .map(task -> new RecordsTask(RecordsTask.jsonOf(task)))
        .toArray(InputPartition[]::new);
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    return readers;
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
        MicroBatchStream stream, SupportsTriggerAvailableNow python, PartitionReaderFactory readers) {
      super(stream, readers);
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
      return python.reportLatestOffset();
    }

    @Override
    public void prepareForTriggerAvailableNow() {
      python.prepareForTriggerAvailableNow();
    }
  }
}
