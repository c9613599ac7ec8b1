package brokerless.spark;

import java.util.Map;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * {@code format("brokerless")}: the Python source of that name, whose tasks that read or write records run in the JVM.
 *
 * <p>Python checks the options, plans the tasks, commits what they wrote, and does everything else itself.
 */
public final class BrokerlessSource implements TableProvider, DataSourceRegister {
  static final String NAME = "brokerless";

  private final PythonDataSourceV2 python = new PythonDataSourceV2();

  public BrokerlessSource() {
    python.setShortName(NAME);
  }

  @Override
  public String shortName() {
    return NAME;
  }

  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    return python.inferSchema(options);
  }

  @Override
  public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> options) {
    return new BrokerlessTable(python.getTable(schema, partitioning, options), python);
  }

  @Override
  public boolean supportsExternalMetadata() {
    return true;
  }
}
