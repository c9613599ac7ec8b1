package brokerless.spark;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.TableInfo;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Tables by path: {@code brokerless.`/data`}, and {@code brokerless.`/data`.orders} for one topic.
 *
 * <p>Spark itself reads only file formats by path in SQL. A session gets the catalog by {@code
 * spark.sql.catalog.brokerless=brokerless.spark.PathCatalog}. Settings below this name are options of each read.
 */
public final class PathCatalog implements TableCatalog {
  private String name;
  private CaseInsensitiveStringMap settings = CaseInsensitiveStringMap.empty();

  @Override
  public void initialize(String name, CaseInsensitiveStringMap settings) {
    this.name = name;
    this.settings = settings;
  }

  @Override
  public String name() {
    return name;
  }

  @Override
  public Table loadTable(Identifier identifier) throws NoSuchTableException {
    List<String> parts = new ArrayList<>(List.of(identifier.namespace()));
    parts.add(identifier.name());
    if (parts.size() > 2) {
      throw new NoSuchTableException(identifier);
    }
    Map<String, String> options = new HashMap<>(settings.asCaseSensitiveMap());
    options.put("path", parts.get(0));
    if (parts.size() == 2) {
      options.put("subscribe", parts.get(1));
    }
    BrokerlessSource source = new BrokerlessSource();
    CaseInsensitiveStringMap all = new CaseInsensitiveStringMap(options);
    return source.table(source.inferSchema(all), options, BrokerlessTable.Writes.NONE);
  }

  @Override
  public Identifier[] listTables(String[] namespace) {
    throw unsupported("list tables");
  }

  @Override
  public Table createTable(Identifier identifier, TableInfo info) {
    throw unsupported("create tables");
  }

  @Override
  public Table alterTable(Identifier identifier, TableChange... changes) {
    throw unsupported("change tables");
  }

  @Override
  public boolean dropTable(Identifier identifier) {
    throw unsupported("drop tables");
  }

  @Override
  public void renameTable(Identifier from, Identifier to) {
    throw unsupported("rename tables");
  }

  private UnsupportedOperationException unsupported(String what) {
    return new UnsupportedOperationException(
        "catalog " + name + " cannot " + what + ": it only reads directories, as " + name + ".`/data`.topic");
  }
}
