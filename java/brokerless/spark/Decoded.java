package brokerless.spark;

import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** The columns of decoded keys and values, in a read with the option {@code decode}. */
final class Decoded {
  /** Tells the Python planner that the tasks of a decoded read will run in the JVM. */
  private static final String IN_JVM = "decodesInJvm";

  private static final List<String> PARTS = List.of("key", "value");

  private static final List<String> ENDINGS =
      List.of("", "Bytes", "DecodeError", "Framing", "SchemaId", "Subject", "Version");

  private Decoded() {}

  /** Whether rows with these options are decoded. */
  static boolean isChosen(CaseInsensitiveStringMap options) {
    return options.containsKey("decode");
  }

  /** Whether tasks in the JVM can decode with these options: they leave out no rows, and never run in Python. */
  static boolean isInJvm(CaseInsensitiveStringMap options) {
    return !options.getOrDefault("onDecodeError", "null").trim().equalsIgnoreCase("skip")
        && RecordsScan.failsOnLoss(options);
  }

  /** The options for Python, which plans for tasks in the JVM or in Python. */
  static Map<String, String> forPython(Map<String, String> options) {
    CaseInsensitiveStringMap all = new CaseInsensitiveStringMap(options);
    if (!isChosen(all) || !RecordsScan.handles(all)) {
      return options;
    }
    Map<String, String> forPython = new HashMap<>(options);
    forPython.put(IN_JVM, "true");
    return forPython;
  }

  /** Those of key and value whose column has the bytes of the record. */
  static Set<String> stored(CaseInsensitiveStringMap options) {
    Set<String> stored = new HashSet<>(PARTS);
    stored.removeAll(columns(options));
    return stored;
  }

  /** Those of key and value whose column has these bytes as text, and null if they are no text. */
  static Set<String> texts(CaseInsensitiveStringMap options) {
    Set<String> texts = new HashSet<>();
    for (String choice : choices(options)) {
      String[] words = choice.split("=", 2);
      if (words.length == 2 && words[1].trim().equals("utf8")) {
        texts.add(words[0].trim());
      }
    }
    texts.retainAll(PARTS);
    return texts;
  }

  private static String[] choices(CaseInsensitiveStringMap options) {
    return options.getOrDefault("decode", "").split(",");
  }

  /** The names of the columns that are decoded. */
  static Set<String> columns(CaseInsensitiveStringMap options) {
    Set<String> columns = new HashSet<>();
    for (String choice : choices(options)) {
      String part = choice.split("=", 2)[0].trim();
      if (part.isEmpty()) {
        continue;
      }
      for (String ending : ENDINGS) {
        columns.add(part + ending);
      }
      if (part.equals("value")) {
        columns.add("decodeError");
      }
    }
    return columns;
  }
}
