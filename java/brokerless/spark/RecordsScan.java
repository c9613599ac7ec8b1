package brokerless.spark;

import java.io.IOException;
import java.util.Arrays;
import java.util.Objects;
import java.util.regex.Pattern;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsPushDownLimit;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.SupportsPushDownV2Filters;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A scan of records: planned by Python, read in the JVM. */
final class RecordsScan implements Scan, Batch, SupportsReportStatistics {
  /** A byte that is not UTF-8, as Python writes it in a JSON list of paths: half of a surrogate pair. */
  private static final Pattern BYTE =
      Pattern.compile("(?<!\\\\ud[89ab][0-9a-f]{2})\\\\udc[89a-f][0-9a-f]", Pattern.CASE_INSENSITIVE);

  private final Scan python;
  private final CaseInsensitiveStringMap options;
  private final StructType columns;
  private final Bounds bounds;
  private final boolean readsStreams;
  private boolean isStream;
  private boolean canBePlanned = true;
  private RecordsTask[] tasks;
  private PlannedReads planned;

  private RecordsScan(
      Scan python,
      CaseInsensitiveStringMap options,
      StructType columns,
      Bounds bounds,
      boolean readsStreams) {
    this.python = python;
    this.options = options;
    this.columns = columns;
    this.bounds = bounds;
    this.readsStreams = readsStreams;
  }

  /** Whether reads with these options run in the JVM: records of local paths that are UTF-8. */
  static boolean handles(CaseInsensitiveStringMap options) {
    String paths = options.getOrDefault("path", "") + options.getOrDefault("paths", "");
    return options.getOrDefault("view", "records").trim().equalsIgnoreCase("records")
        && (!Decoded.isChosen(options) || Decoded.isInJvm(options))
        && !paths.contains("://")
        && !BYTE.matcher(paths).find()
        && Native.isAvailable();
  }

  /** Whether lost data end a read. A task of a stream that goes on without logs that are gone looks for them in Python. */
  static boolean failsOnLoss(CaseInsensitiveStringMap options) {
    return !options.getOrDefault("failOnDataLoss", "true").trim().equalsIgnoreCase("false");
  }

  @Override
  public StructType readSchema() {
    return columns;
  }

  @Override
  public String description() {
    return "Path: "
        + Described.paths(options)
        + ofTasks()
        + ", PushedFilters: "
        + Arrays.toString(bounds.used())
        + (bounds.limit == null ? "" : ", PushedLimit: " + bounds.limit);
  }

  @Override
  public Batch toBatch() {
    return this;
  }

  @Override
  public MicroBatchStream toMicroBatchStream(String checkpointLocation) {
    isStream = true;
    MicroBatchStream stream = python.toMicroBatchStream(checkpointLocation);
    return RecordsStream.of(stream, readsStreams ? createReaderFactory() : null, options);
  }

  @Override
  public ColumnarSupportMode columnarSupportMode() {
    return isStream && !readsStreams ? ColumnarSupportMode.UNSUPPORTED : ColumnarSupportMode.SUPPORTED;
  }

  @Override
  public CustomMetric[] supportedCustomMetrics() {
    return Arrays.stream(Metric.values()).map(Metric::sum).toArray(CustomMetric[]::new);
  }

  @Override
  public Statistics estimateStatistics() {
    // A stream's batches are planned by its own offsets.
    return isStream ? PlannedReads.UNKNOWN : planned();
  }

  /** The part of the description that needs the tasks: Spark shows a scan before it has planned them. */
  private String ofTasks() {
    if (isStream || !canBePlanned) {
      return "";
    }
    try {
      return ", " + planned().description();
    } catch (Exception error) { // Spark's own, which Java does not know to be thrown, too
      // The query will report it.
      canBePlanned = false;
      return "";
    }
  }

  private PlannedReads planned() {
    if (planned == null) {
      planned = PlannedReads.of(json(tasks()));
    }
    return planned;
  }

  @Override
  public InputPartition[] planInputPartitions() {
    return tasks();
  }

  /** The tasks, planned once. */
  private RecordsTask[] tasks() {
    if (tasks == null) {
      tasks = plan();
    }
    return tasks;
  }

  private RecordsTask[] plan() {
    RecordsTask[] planned = RecordsTask.of(python.toBatch().planInputPartitions());
    if (planned.length == 0 || !bounds.isNarrow()) {
      return planned;
    }
    try {
      return Arrays.stream(Native.narrow(json(planned), bounds.json()))
          .map(task -> new RecordsTask(task, planned[0].decoding()))
          .toArray(RecordsTask[]::new);
    } catch (IOException error) {
      throw TaskFailure.of(error);
    }
  }

  private static byte[][] json(RecordsTask[] tasks) {
    return Arrays.stream(tasks).map(RecordsTask::json).toArray(byte[][]::new);
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    return new RecordsReader.Factory(columns, Decoded.columns(options), Criterion.json(bounds.criteria));
  }

  /** Two reads of the same rows in one query are equal, so that Spark may shuffle them once. */
  @Override
  public boolean equals(Object other) {
    return other instanceof RecordsScan scan
        && options.equals(scan.options)
        && columns.equals(scan.columns)
        && Arrays.equals(bounds.json(), scan.bounds.json())
        && bounds.criteria.equals(scan.bounds.criteria);
  }

  @Override
  public int hashCode() {
    return Objects.hash(options, columns);
  }

  /** Prunes columns, and takes what filters and a limit say of the rows. */
  static final class Builder
      implements ScanBuilder,
          SupportsPushDownRequiredColumns,
          SupportsPushDownV2Filters,
          SupportsPushDownLimit {
    private final ScanBuilder python;
    private final Bounds bounds;
    private final CaseInsensitiveStringMap options;
    private final StructType all;
    private StructType columns;

    Builder(ScanBuilder python, StructType all, CaseInsensitiveStringMap options) {
      this.python = python;
      this.options = options;
      this.bounds = new Bounds(options);
      this.all = all;
      this.columns = all;
    }

    @Override
    public void pruneColumns(StructType required) {
      // Spark also prunes the fields of headers. They are decoded together, and Spark takes the fields that it wants.
      columns = new StructType();
      for (String name : required.fieldNames()) {
        columns = columns.add(all.apply(name));
      }
    }

    @Override
    public Predicate[] pushPredicates(Predicate[] filters) {
      bounds.take(filters);
      return filters;
    }

    @Override
    public Predicate[] pushedPredicates() {
      return bounds.used();
    }

    @Override
    public boolean pushLimit(int limit) {
      // The rows of a task are counted before Spark filters them.
      if (bounds.used().length > 0) {
        return false;
      }
      bounds.limit = limit;
      return true;
    }

    /** Each task keeps the limit; Spark keeps it over all of them. */
    @Override
    public boolean isPartiallyPushed() {
      return true;
    }

    @Override
    public Scan build() {
      return new RecordsScan(python.build(), options, columns, bounds, failsOnLoss(options));
    }
  }
}
