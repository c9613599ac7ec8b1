package brokerless.spark;

import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SaveMode;

/**
 * The source to which rows are saved.
 *
 * <p>Spark does not tell a {@code TableProvider} the save mode, and refuses the modes that depend on what exists. So
 * the source itself says that Spark cannot write to its tables. Spark then hands it the rows with the mode, and they
 * are appended or overwritten here.
 */
public final class BatchSink extends BrokerlessSource {
  /** How Python refuses a topic that exists: {@code AtomicWrite} in brokerless/staging/atomic_write.py. */
  private static final String EXISTS = "FileExistsError: ";

  private static final String IF_EXISTS = "ifexists";

  @Override
  BrokerlessTable.Writes writes() {
    return BrokerlessTable.Writes.DIRECT;
  }

  /** Saves rows in a mode. */
  static void save(Dataset<Row> rows, Map<String, String> given, SaveMode mode) {
    Map<String, String> options = new HashMap<>();
    given.forEach((name, value) -> options.put(name.toLowerCase(Locale.ROOT), value));
    if (options.containsKey("__partition_columns") || options.containsKey("clusteringcolumns")) {
      throw new IllegalArgumentException(
          "partitionBy and clusterBy do not apply to logs: the key, or a column partition, decides the partition of a row");
    }
    boolean creates = mode == SaveMode.ErrorIfExists || mode == SaveMode.Ignore;
    if (creates) {
      options.put(IF_EXISTS, "error");
    }
    SaveMode written = mode == SaveMode.Overwrite ? SaveMode.Overwrite : SaveMode.Append;
    try {
      rows.write().format(BatchSink.class.getName()).options(options).mode(written).save();
    } catch (Exception error) { // also those that Java does not know to be thrown
      if (mode != SaveMode.Ignore || !String.valueOf(error.getMessage()).contains(EXISTS)) {
        throw error;
      }
    }
  }
}
