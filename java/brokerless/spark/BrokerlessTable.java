package brokerless.spark;

import java.util.EnumSet;
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
  private final Writes writes;

  /** How Spark writes to a table. */
  enum Writes {
    /** Spark writes rows itself. */
    DIRECT,
    /** Spark hands rows to the source, with their save mode. */
    SAVED,
    /** Spark refuses writes. */
    NONE
  }

  BrokerlessTable(
      Table python, PythonDataSourceV2 source, Map<String, String> options, Writes writes) {
    this.python = python;
    this.source = source;
    this.options = options;
    this.writes = writes;
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
    Set<TableCapability> capabilities = EnumSet.copyOf(python.capabilities());
    switch (writes) {
      case DIRECT -> {}
      case SAVED -> {
        capabilities.remove(TableCapability.BATCH_WRITE);
        capabilities.add(TableCapability.V1_BATCH_WRITE);
      }
      case NONE ->
          capabilities.retainAll(Set.of(TableCapability.BATCH_READ, TableCapability.MICRO_BATCH_READ));
    }
    return capabilities;
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap ofQuery) {
    CaseInsensitiveStringMap all = withOptionsOfTable(ofQuery);
    CaseInsensitiveStringMap forPython =
        new CaseInsensitiveStringMap(Decoded.forPython(all.asCaseSensitiveMap()));
    ScanBuilder scan = ((SupportsRead) python).newScanBuilder(forPython);
    // Python planned for the options of the table.
    CaseInsensitiveStringMap ofTable = new CaseInsensitiveStringMap(options);
    boolean isPlanned = !Decoded.isChosen(all) || Decoded.isChosen(ofTable) && RecordsScan.handles(ofTable);
    return isPlanned && RecordsScan.handles(all)
        ? new RecordsScan.Builder(scan, schema(), all)
        : () -> new PythonScan(scan.build(), all);
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
    if (Native.isAvailable()) {
      write = new RecordsWrite.Builder(write, source, info);
    }
    return writes == Writes.DIRECT ? write : new SavedWrite.Builder(write, info);
  }
}
