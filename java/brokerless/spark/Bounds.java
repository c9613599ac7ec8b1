package brokerless.spark;

import com.fasterxml.jackson.annotation.JsonProperty;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.function.Function;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Literal;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * What the filters and the limit of a query say of its rows. Spark applies both again: these bounds may be wider, never
 * narrower. Their JSON is read by {@code rust/jvm/src/narrow.rs}.
 */
final class Bounds {
  @JsonProperty Set<String> topics;
  @JsonProperty Set<Integer> partitions;

  @JsonProperty("start_offset")
  Long startOffset;

  /** Exclusive. */
  @JsonProperty("end_offset")
  Long endOffset;

  /** Milliseconds. */
  @JsonProperty("min_timestamp")
  Long minTimestamp;

  /** The rows of each task that are enough. */
  @JsonProperty Integer limit;

  /** What keys and values must hold. It is for the readers of tasks: it does not narrow them. */
  final List<Criterion> criteria = new ArrayList<>();

  private final List<Predicate> used = new ArrayList<>();
  private final Set<String> stored;
  private final Set<String> texts;

  /** Bounds of a read with these options, which decide what the columns of keys and values hold. */
  Bounds(CaseInsensitiveStringMap options) {
    stored = Decoded.stored(options);
    texts = Decoded.texts(options);
  }

  /** Takes filters that all have to hold. */
  void take(Predicate[] filters) {
    for (Predicate filter : filters) {
      if (takes(filter)) {
        used.add(filter);
      }
    }
  }

  /** Whether the tasks may be narrowed. */
  boolean isNarrow() {
    return !used.isEmpty() || limit != null;
  }

  /** The filters that narrow the tasks. */
  Predicate[] used() {
    return used.toArray(Predicate[]::new);
  }

  byte[] json() {
    try {
      return new ObjectMapper().writeValueAsBytes(this);
    } catch (JsonProcessingException error) {
      throw new IllegalStateException(error);
    }
  }

  private boolean takes(Predicate filter) {
    Expression[] children = filter.children();
    if (filter.name().equals("AND")) {
      boolean left = takes((Predicate) children[0]);
      return takes((Predicate) children[1]) || left;
    }
    Criterion criterion = Criterion.of(filter, stored, texts);
    if (criterion != null) {
      criteria.add(criterion);
      return true;
    }
    if (children.length < 2
        || !(children[0] instanceof NamedReference column)
        || column.fieldNames().length != 1) {
      return false;
    }
    List<Object> values = new ArrayList<>();
    for (int i = 1; i < children.length; i++) {
      if (!(children[i] instanceof Literal<?> literal) || literal.value() == null) {
        return false;
      }
      values.add(literal.value());
    }
    String name = filter.name();
    boolean isChoice = name.equals("=") || name.equals("IN");
    switch (column.fieldNames()[0]) {
      case "topic":
        topics = isChoice ? both(topics, values, Object::toString) : topics;
        return isChoice;
      case "partition":
        partitions = isChoice ? both(partitions, values, value -> ((Number) value).intValue()) : partitions;
        return isChoice;
      case "offset":
        return takesOffset(name, values);
      case "timestamp":
        return takesTimestamp(name, values);
      default:
        return false;
    }
  }

  private static <T> Set<T> both(Set<T> known, List<Object> values, Function<Object, T> value) {
    Set<T> chosen = new LinkedHashSet<>();
    for (Object one : values) {
      chosen.add(value.apply(one));
    }
    if (known != null) {
      chosen.retainAll(known);
    }
    return chosen;
  }

  private boolean takesOffset(String name, List<Object> values) {
    long least = least(values);
    long greatest = values.stream().mapToLong(value -> ((Number) value).longValue()).max().getAsLong();
    // There is no offset 2^63 - 1: it stands for no end.
    long after = greatest == Long.MAX_VALUE ? greatest : greatest + 1;
    switch (name) {
      case "=", "IN" -> {
        start(least);
        end(after);
      }
      case ">" -> start(after);
      case ">=" -> start(least);
      case "<" -> end(greatest);
      case "<=" -> end(after);
      default -> {
        return false;
      }
    }
    return true;
  }

  private boolean takesTimestamp(String name, List<Object> values) {
    if (!List.of("=", "IN", ">", ">=").contains(name)) {
      return false;
    }
    // Spark's are microseconds.
    long millis = Math.floorDiv(least(values), 1000L);
    minTimestamp = minTimestamp == null ? millis : Math.max(minTimestamp, millis);
    return true;
  }

  private static long least(List<Object> values) {
    return values.stream().mapToLong(value -> ((Number) value).longValue()).min().getAsLong();
  }

  private void start(long offset) {
    startOffset = startOffset == null ? offset : Math.max(startOffset, offset);
  }

  private void end(long offset) {
    endOffset = endOffset == null ? offset : Math.min(endOffset, offset);
  }
}
