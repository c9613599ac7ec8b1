package brokerless.spark;

import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
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

  private static final Set<String> OF_CATALOGS =
      Set.of(
          TableCatalog.PROP_LOCATION,
          TableCatalog.PROP_IS_MANAGED_LOCATION,
          TableCatalog.PROP_EXTERNAL,
          TableCatalog.PROP_COMMENT,
          TableCatalog.PROP_PROVIDER,
          TableCatalog.PROP_OWNER);

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
    return python.inferSchema(new CaseInsensitiveStringMap(ofUser(options.asCaseSensitiveMap())));
  }

  @Override
  public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> options) {
    Map<String, String> ofUser = ofUser(options);
    return new BrokerlessTable(python.getTable(schema, partitioning, ofUser), python, ofUser);
  }

  /** The options that the user gave: a catalog adds properties of the table, and the options again with a prefix. */
  private static Map<String, String> ofUser(Map<String, String> options) {
    Map<String, String> ofUser = new HashMap<>(options);
    ofUser
        .keySet()
        .removeIf(name -> OF_CATALOGS.contains(name) || name.startsWith(TableCatalog.OPTION_PREFIX));
    return ofUser;
  }

  @Override
  public boolean supportsExternalMetadata() {
    return true;
  }
}
