package brokerless.spark;

import java.io.IOException;
import org.apache.spark.sql.catalyst.InternalRow;
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

  private final NativeVector[] vectors;
  private final ColumnarBatch batch;
  private final long[] addresses;
  private long handle;

  private RecordsReader(RecordsTask task, StructType columns) throws IOException {
    vectors = new NativeVector[columns.size()];
    for (int i = 0; i < vectors.length; i++) {
      vectors[i] = NativeVector.of(columns.fields()[i]);
    }
    batch = new ColumnarBatch(vectors);
    addresses = new long[vectors.length * Native.ADDRESSES];
    handle = Native.open(task.json(), columns.fieldNames());
  }

  @Override
  public boolean next() {
    int rows;
    try {
      rows = Native.next(handle, addresses);
      if (rows < 0) {
        for (String warning : Native.warnings(handle)) {
          LOG.warn(warning);
        }
        return false;
      }
    } catch (IOException error) {
      throw TaskFailure.of(error);
    }
    for (int i = 0; i < vectors.length; i++) {
      vectors[i].show(addresses, i * Native.ADDRESSES);
    }
    batch.setNumRows(rows);
    return true;
  }

  @Override
  public ColumnarBatch get() {
    return batch;
  }

  @Override
  public void close() {
    if (handle != 0) {
      Native.close(handle);
      handle = 0;
    }
  }

  /** Makes a reader of a task in an executor. */
  static final class Factory implements PartitionReaderFactory {
    private static final long serialVersionUID = 1;

    private final StructType columns;

    Factory(StructType columns) {
      this.columns = columns;
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
        return new RecordsReader((RecordsTask) task, columns);
      } catch (IOException error) {
        throw TaskFailure.of(error);
      }
    }
  }
}
