package brokerless.spark;

import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** The table of the Python source, whose scans and writes may run in the JVM. */
final class BrokerlessTable implements SupportsRead, SupportsWrite {
  private final Table python;
  private final PythonDataSourceV2 source;
  private final Map<String, String> options;

  BrokerlessTable(Table python, PythonDataSourceV2 source, Map<String, String> options) {
    this.python = python;
    this.source = source;
    this.options = options;
  }

  @Override
  public String name() {
    return python.name();
  }

  @Override
  @SuppressWarnings("deprecation") // Spark's Python table answers it, and Spark calls it.
  public StructType schema() {
    return python.schema();
  }

  @Override
  public Column[] columns() {
    return python.columns();
  }

  @Override
  public Transform[] partitioning() {
    return python.partitioning();
  }

  @Override
  public Map<String, String> properties() {
    return python.properties();
  }

  @Override
  public Set<TableCapability> capabilities() {
    return python.capabilities();
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap ofQuery) {
    CaseInsensitiveStringMap all = withOptionsOfTable(ofQuery);
    ScanBuilder scan = ((SupportsRead) python).newScanBuilder(all);
    return RecordsScan.handles(all) ? new RecordsScan.Builder(scan, schema(), all) : scan;
  }

  /** The options of a query, and the table's own: for a table of a catalog, Spark gives only the first to a query. */
  private CaseInsensitiveStringMap withOptionsOfTable(CaseInsensitiveStringMap ofQuery) {
    Map<String, String> all = new HashMap<>();
    options.forEach(
        (name, value) -> {
          if (!ofQuery.containsKey(name)) {
            all.put(name, value);
          }
        });
    all.putAll(ofQuery.asCaseSensitiveMap());
    return new CaseInsensitiveStringMap(all);
  }

  @Override
  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    WriteBuilder write = ((SupportsWrite) python).newWriteBuilder(info);
    return Native.isAvailable() ? new RecordsWrite.Builder(write, source, info) : write;
  }
}
