package brokerless.spark;

import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A scan that runs in Python workers, with a description: Spark's own says only {@code (Python)}. */
record PythonScan(Scan python, CaseInsensitiveStringMap options) implements Scan {
  @Override
  public StructType readSchema() {
    return python.readSchema();
  }

  @Override
  public String description() {
    return "Path: " + Described.paths(options) + ", View: " + options.getOrDefault("view", "records") + " (Python)";
  }

  @Override
  public Batch toBatch() {
    return python.toBatch();
  }

  @Override
  public MicroBatchStream toMicroBatchStream(String checkpointLocation) {
    return RecordsStream.of(python.toMicroBatchStream(checkpointLocation), null, options);
  }

  @Override
  public ColumnarSupportMode columnarSupportMode() {
    return python.columnarSupportMode();
  }

  @Override
  public CustomMetric[] supportedCustomMetrics() {
    return python.supportedCustomMetrics();
  }

  @Override
  public CustomTaskMetric[] reportDriverMetrics() {
    return python.reportDriverMetrics();
  }

  /** Two scans are never equal: Spark must not take one for the other, since the logs may change between them. */
  @Override
  public boolean equals(Object other) {
    return this == other;
  }

  @Override
  public int hashCode() {
    return System.identityHashCode(this);
  }
}
