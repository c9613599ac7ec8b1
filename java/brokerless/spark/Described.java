package brokerless.spark;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** What plans, Spark's UI and the progress of streams show of a read. */
final class Described {
  /** The names that a description lists. */
  private static final int FEW = 5;

  private static final List<String> SELECTION = List.of("subscribe", "subscribePattern", "assign");

  private Described() {}

  /** The paths of a read, as the option gives them. */
  static String paths(CaseInsensitiveStringMap options) {
    return printable(options.getOrDefault("paths", options.getOrDefault("path", "")));
  }

  /** The source of a stream: {@code brokerless[/data, subscribe=orders]}. */
  static String stream(CaseInsensitiveStringMap options) {
    List<String> parts = new ArrayList<>(List.of(paths(options)));
    for (String option : SELECTION) {
      if (options.containsKey(option)) {
        parts.add(option + "=" + printable(options.get(option)));
      }
    }
    return BrokerlessSource.NAME + "[" + String.join(", ", parts) + "]";
  }

  /** A few names, and the number of the others. */
  static String few(Collection<String> names) {
    List<String> shown = new ArrayList<>(names.stream().limit(FEW).map(Described::printable).toList());
    if (names.size() > FEW) {
      shown.add("and " + (names.size() - FEW) + " more");
    }
    return "[" + String.join(", ", shown) + "]";
  }

  /** Text on one line: names are foreign, and a control character would change the terminal or forge a line of a log. */
  private static String printable(String text) {
    StringBuilder shown = new StringBuilder();
    text.codePoints()
        .forEach(
            point -> {
              switch (Character.getType(point)) {
                case Character.CONTROL,
                    Character.FORMAT,
                    Character.SURROGATE,
                    Character.LINE_SEPARATOR,
                    Character.PARAGRAPH_SEPARATOR ->
                    shown.append(String.format("\\u%04x", point));
                default -> shown.appendCodePoint(point);
              }
            });
    return shown.toString();
  }
}
