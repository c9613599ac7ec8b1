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

  /** The names of the columns that are decoded. */
  static Set<String> columns(CaseInsensitiveStringMap options) {
    Set<String> columns = new HashSet<>();
    for (String choice : options.getOrDefault("decode", "").split(",")) {
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
