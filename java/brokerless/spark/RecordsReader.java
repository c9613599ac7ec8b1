package brokerless.spark;

import java.io.IOException;
import java.lang.ref.Cleaner;
import java.util.Arrays;
import java.util.Set;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Reads a task: the native library decodes it chunk by chunk, and the same vectors show each chunk to Spark. */
final class RecordsReader implements PartitionReader<ColumnarBatch> {
  private static final Logger LOG = LoggerFactory.getLogger(RecordsReader.class);
  private static final Cleaner CLEANER = Cleaner.create();

  /** The memory that may wait for the collector, which does not see its size ({@code java.nio.Bits} does the same). */
  private static final long MOST_WAITING = 256 << 20;

  /** The bytes that began to wait since the collector was last called. */
  private static final AtomicLong WAITING = new AtomicLong();

  private final NativeVector[] vectors;
  private final ColumnarBatch batch;
  private final long[] out;
  private final long[] metrics = new long[Metric.values().length];
  /** What the vectors hold: while one of them can be reached, the reader's memory is there. */
  private final Object memory = new Object();

  private long handle;

  /** Whether all rows were taken. */
  private boolean isAtEnd;

  private RecordsReader(RecordsTask task, Factory factory) throws IOException {
    StructType columns = factory.columns;
    vectors = new NativeVector[columns.size()];
    int addresses = 0;
    for (int i = 0; i < vectors.length; i++) {
      vectors[i] = NativeVector.of(columns.fields()[i], factory.decoded);
      vectors[i].memory = memory;
      addresses += vectors[i].addresses();
    }
    batch = new ColumnarBatch(vectors);
    out = new long[addresses + Native.COUNTS];
    handle = Native.open(task.json(), columns.fieldNames(), task.decodingJson(), factory.criteria);
  }

  // Synchronized with close: see there.
  @Override
  public synchronized boolean next() {
    if (handle == 0) {
      return false;
    }
    int rows;
    long started = System.nanoTime();
    try {
      rows = Native.next(handle, out);
      metrics[Metric.LOST_OFFSETS.ordinal()] = out[out.length - 1];
      if (rows < 0) {
        for (String warning : Native.warnings(handle)) {
          LOG.warn(warning);
        }
        isAtEnd = true;
        return false;
      }
    } catch (IOException error) {
      throw TaskFailure.of(error);
    }
    int first = 0;
    for (NativeVector vector : vectors) {
      vector.show(out, first);
      first += vector.addresses();
    }
    metrics[Metric.BATCHES.ordinal()] += out[out.length - 3];
    metrics[Metric.BATCH_BYTES.ordinal()] += out[out.length - 2];
    metrics[Metric.RECORDS.ordinal()] += rows;
    metrics[Metric.READ_NANOS.ordinal()] += System.nanoTime() - started;
    batch.setNumRows(rows);
    return true;
  }

  @Override
  public ColumnarBatch get() {
    return batch;
  }

  @Override
  public CustomTaskMetric[] currentMetricsValues() {
    return Arrays.stream(Metric.values())
        .map(metric -> metric.ofTask(metrics[metric.ordinal()]))
        .toArray(CustomTaskMetric[]::new);
  }

  /**
   * A script over the rows ({@code TRANSFORM}) takes them in a thread that Spark does not wait for. The end of the task
   * must not free the batch that this thread may still read: only the file is closed then, and the memory is freed when
   * nothing shows it any more.
   */
  @Override
  public synchronized void close() {
    if (handle == 0) {
      return;
    }
    long closed = handle;
    handle = 0;
    if (isAtEnd) {
      Native.close(closed);
    } else {
      long bytes = Native.stop(closed);
      CLEANER.register(memory, () -> Native.close(closed));
      if (WAITING.addAndGet(bytes) > MOST_WAITING) {
        WAITING.set(0);
        System.gc();
      }
    }
  }

  /** Makes a reader of a task in an executor. */
  static final class Factory implements PartitionReaderFactory {
    private static final long serialVersionUID = 1;

    private final StructType columns;

    /** The names of the columns that are decoded. */
    private final Set<String> decoded;

    /** What keys and values must hold: see {@link Criterion#json}. */
    private final byte[] criteria;

    Factory(StructType columns, Set<String> decoded, byte[] criteria) {
      this.columns = columns;
      this.decoded = decoded;
      this.criteria = criteria;
    }

    @Override
    public boolean supportColumnarReads(InputPartition task) {
      return true;
    }

    @Override
    public PartitionReader<InternalRow> createReader(InputPartition task) {
      throw new UnsupportedOperationException("tasks are read by columns");
    }

    @Override
    public PartitionReader<ColumnarBatch> createColumnarReader(InputPartition task) {
      try {
        Native.check();
        return new RecordsReader((RecordsTask) task, this);
      } catch (IOException error) {
        throw TaskFailure.of(error);
      }
    }
  }
}
