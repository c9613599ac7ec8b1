package brokerless.spark;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.reflect.Constructor;
import org.apache.spark.QueryContext;
import org.apache.spark.api.python.PythonException;
import scala.collection.immutable.Map;

/** The error of a task, as users know it from the Python source: PySpark shows it as one message. */
final class TaskFailure {
  private TaskFailure() {}

  static RuntimeException of(IOException error) {
    String message = error.getMessage();
    for (Constructor<?> constructor : PythonException.class.getConstructors()) {
      Class<?>[] types = constructor.getParameterTypes();
      try {
        if (types.length == 5 && types[1] == Map.class) { // from Spark 4.2 on
          Map<String, String> words =
              new Map.Map2<>(
                  "msg", "A task of brokerless failed in the JVM", "traceback", message);
          return (PythonException)
              constructor.newInstance("PYTHON_EXCEPTION", words, null, new QueryContext[0], "");
        }
        if (types.length == 2 && types[1] == Throwable.class) { // Spark 4.1
          return (PythonException) constructor.newInstance(message, null);
        }
      } catch (ReflectiveOperationException | IllegalArgumentException another) {
        // Another release: the error below says the same.
      }
    }
    return new UncheckedIOException(error);
  }
}
