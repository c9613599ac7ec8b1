package brokerless.spark;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.execution.datasources.v2.python.PythonInputPartition;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A scan of records: planned by Python, read in the JVM. Its stream is Python's. */
final class RecordsScan implements Scan, Batch {
  private final Scan python;
  private final StructType columns;
  private boolean isStream;

  private RecordsScan(Scan python, StructType columns) {
    this.python = python;
    this.columns = columns;
  }

  /** Whether reads with these options run in the JVM: records of local paths. */
  static boolean handles(CaseInsensitiveStringMap options) {
    String paths = options.getOrDefault("path", "") + options.getOrDefault("paths", "");
    return options.getOrDefault("view", "records").equals("records")
        && !paths.contains("://")
        && Native.isAvailable();
  }

  @Override
  public StructType readSchema() {
    return columns;
  }

  @Override
  public String description() {
    return BrokerlessSource.NAME + " " + columns.catalogString();
  }

  @Override
  public Batch toBatch() {
    return this;
  }

  @Override
  public MicroBatchStream toMicroBatchStream(String checkpointLocation) {
    isStream = true;
    return python.toMicroBatchStream(checkpointLocation);
  }

  @Override
  public ColumnarSupportMode columnarSupportMode() {
    return isStream ? ColumnarSupportMode.UNSUPPORTED : ColumnarSupportMode.SUPPORTED;
  }

  @Override
  public InputPartition[] planInputPartitions() {
    List<InputPartition> tasks = new ArrayList<>();
    for (InputPartition planned : python.toBatch().planInputPartitions()) {
      tasks.add(RecordsTask.of((PythonInputPartition) planned));
    }
    return tasks.toArray(InputPartition[]::new);
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    return new RecordsReader.Factory(columns);
  }

  /** Prunes columns. */
  static final class Builder implements ScanBuilder, SupportsPushDownRequiredColumns {
    private final ScanBuilder python;
    private StructType columns;

    Builder(ScanBuilder python, StructType columns) {
      this.python = python;
      this.columns = columns;
    }

    @Override
    public void pruneColumns(StructType required) {
      columns = required;
    }

    @Override
    public Scan build() {
      return new RecordsScan(python.build(), columns);
    }
  }
}
