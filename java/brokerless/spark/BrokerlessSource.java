package brokerless.spark;

import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.sources.BaseRelation;
import org.apache.spark.sql.sources.CreatableRelationProvider;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.jdk.javaapi.CollectionConverters;

/**
 * {@code format("brokerless")}: the Python source of that name, whose tasks that read or write records run in the JVM.
 *
 * <p>Python checks the options, plans the tasks, commits what they wrote, and does everything else itself.
 */
public class BrokerlessSource implements TableProvider, DataSourceRegister, CreatableRelationProvider {
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
    Map<String, String> ofUser = ofUser(options.asCaseSensitiveMap());
    return python.inferSchema(new CaseInsensitiveStringMap(Decoded.forPython(ofUser)));
  }

  @Override
  public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> options) {
    Map<String, String> ofUser = ofUser(options);
    boolean isOfCatalog = !ofUser.keySet().equals(options.keySet());
    return table(schema, ofUser, isOfCatalog ? BrokerlessTable.Writes.DIRECT : writes());
  }

  final Table table(StructType schema, Map<String, String> options, BrokerlessTable.Writes writes) {
    Table table = python.getTable(schema, new Transform[0], Decoded.forPython(options));
    return new BrokerlessTable(table, python, options, writes);
  }

  /** How Spark writes to a table that is no catalog's. */
  BrokerlessTable.Writes writes() {
    return BrokerlessTable.Writes.SAVED;
  }

  /** Saves rows in any mode: Spark refuses some modes for a table to which it writes itself. */
  @Override
  public BaseRelation createRelation(
      SQLContext context,
      SaveMode mode,
      scala.collection.immutable.Map<String, String> options,
      Dataset<Row> rows) {
    BatchSink.save(rows, CollectionConverters.asJava(options), mode);
    return new Saved(context, rows.schema());
  }

  /** Python checks the types of columns, and words the error. */
  @Override
  public boolean supportsDataType(DataType type) {
    return true;
  }

  /** What Spark wants to know of saved rows. */
  private static final class Saved extends BaseRelation {
    private final SQLContext context;
    private final StructType schema;

    private Saved(SQLContext context, StructType schema) {
      this.context = context;
      this.schema = schema;
    }

    @Override
    public SQLContext sqlContext() {
      return context;
    }

    @Override
    public StructType schema() {
      return schema;
    }
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
