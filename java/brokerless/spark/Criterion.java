package brokerless.spark;

import com.fasterxml.jackson.annotation.JsonProperty;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.connector.expressions.Cast;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Literal;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * What a key or a value must hold. Spark applies the filter again.
 *
 * <p>Spark hands a source no condition on the elements of an array ({@code V2ExpressionBuilder}), so none on headers.
 *
 * @param part key or value
 * @param texts texts in base64, of which one suffices; null: the part is null
 * @param isWhole whether a text is the whole part, not some of it
 */
record Criterion(
    @JsonProperty("part") String part,
    @JsonProperty("texts") List<String> texts,
    @JsonProperty("is_whole") boolean isWhole) {

  private static final byte[] NONE = {};

  /** Criteria as JSON, which {@code rust/jvm/src/criteria.rs} reads; empty if there are none. */
  static byte[] json(List<Criterion> criteria) {
    try {
      return criteria.isEmpty() ? NONE : new ObjectMapper().writeValueAsBytes(criteria);
    } catch (JsonProcessingException error) {
      throw new IllegalStateException(error);
    }
  }

  /**
   * Returns what a filter says; null if it says nothing of a key or a value.
   *
   * @param stored the columns that have the bytes of the record
   * @param texts the columns that have these bytes as text, and null if they are no text
   */
  static Criterion of(Predicate filter, Set<String> stored, Set<String> texts) {
    Expression[] children = filter.children();
    if (filter.name().equals("OR")) {
      Criterion left = of((Predicate) children[0], stored, texts);
      Criterion right = left == null ? null : of((Predicate) children[1], stored, texts);
      return right == null ? null : left.or(right);
    }
    if (children.length == 0) {
      return null;
    }
    String part = column(children[0]);
    if (filter.name().equals("IS_NULL")) {
      return stored.contains(part) ? new Criterion(part, null, false) : null;
    }
    if (children.length < 2 || !stored.contains(part) && !texts.contains(part)) {
      return null;
    }
    return switch (filter.name()) {
      case "=", "IN" -> of(part, children, true);
      case "STARTS_WITH", "ENDS_WITH", "CONTAINS" -> of(part, children, false);
      default -> null;
    };
  }

  private static Criterion of(String part, Expression[] children, boolean isWhole) {
    List<String> texts = new ArrayList<>();
    for (int i = 1; i < children.length; i++) {
      if (!(children[i] instanceof Literal<?> literal)
          || !areBytes(literal.dataType())
          || literal.value() == null) {
        return null;
      }
      // Text of Spark may have bytes that are not UTF-8.
      byte[] text =
          literal.value() instanceof UTF8String string
              ? string.getBytes()
              : (byte[]) literal.value();
      texts.add(Base64.getEncoder().encodeToString(text));
    }
    return new Criterion(part, texts, isWhole);
  }

  /** The name of a column, also in a cast between bytes and text, which changes no byte; otherwise empty. */
  private static String column(Expression expression) {
    Expression of =
        expression instanceof Cast cast && areBytes(cast.dataType()) ? cast.expression() : expression;
    return of instanceof NamedReference column && column.fieldNames().length == 1
        ? column.fieldNames()[0]
        : "";
  }

  /** Whether values of a type are equal if their bytes are. Text may have another collation. */
  private static boolean areBytes(DataType type) {
    return type.equals(DataTypes.BinaryType) || type.equals(DataTypes.StringType);
  }

  /** Returns what a part must hold that meets one of two criteria; null if one criterion cannot say. */
  private Criterion or(Criterion other) {
    if (!part.equals(other.part) || texts == null || other.texts == null) {
      return null;
    }
    List<String> both = new ArrayList<>(texts);
    both.addAll(other.texts);
    return new Criterion(part, both, isWhole && other.isWhole);
  }
}
