package brokerless.spark;

import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomSumMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;

/** What a scan counts: Spark shows the sums over all tasks in its UI. */
enum Metric {
  BATCHES("batches", "number of Kafka batches", new Batches()),
  RECORDS("records", "number of records", new Records()),
  BATCH_BYTES("batchBytes", "bytes of Kafka batches", new BatchBytes()),
  READ_NANOS("readNanos", "time of reading and decoding, in ns", new ReadNanos()),
  LOST_OFFSETS("lostOffsets", "offsets lost to damage", new LostOffsets());

  private final String id;
  private final String text;
  private final CustomMetric sum;

  Metric(String id, String text, CustomMetric sum) {
    this.id = id;
    this.text = text;
    this.sum = sum;
  }

  CustomMetric sum() {
    return sum;
  }

  CustomTaskMetric ofTask(long value) {
    return new CustomTaskMetric() {
      @Override
      public String name() {
        return id;
      }

      @Override
      public long value() {
        return value;
      }
    };
  }

  // Spark makes an instance of the class by its name, so each metric has one.

  /** The sum of {@link #BATCHES}. */
  public static final class Batches extends Sum {
    @Override
    Metric metric() {
      return BATCHES;
    }
  }

  /** The sum of {@link #RECORDS}. */
  public static final class Records extends Sum {
    @Override
    Metric metric() {
      return RECORDS;
    }
  }

  /** The sum of {@link #BATCH_BYTES}. */
  public static final class BatchBytes extends Sum {
    @Override
    Metric metric() {
      return BATCH_BYTES;
    }
  }

  /** The sum of {@link #READ_NANOS}. */
  public static final class ReadNanos extends Sum {
    @Override
    Metric metric() {
      return READ_NANOS;
    }
  }

  /** The sum of {@link #LOST_OFFSETS}. */
  public static final class LostOffsets extends Sum {
    @Override
    Metric metric() {
      return LOST_OFFSETS;
    }
  }

  /** A sum over tasks. */
  abstract static class Sum extends CustomSumMetric {
    abstract Metric metric();

    @Override
    public String name() {
      return metric().id;
    }

    @Override
    public String description() {
      return metric().text;
    }
  }
}
