package brokerless.spark;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.reflect.Constructor;
import org.apache.spark.QueryContext;
import org.apache.spark.api.python.PythonException;

/** The error of a task, as users know it from the Python source: PySpark shows it as one message. */
final class TaskFailure {
  private TaskFailure() {}

  static RuntimeException of(IOException error) {
    for (Constructor<?> constructor : PythonException.class.getConstructors()) {
      Class<?>[] types = constructor.getParameterTypes();
      try {
        if (types.length == 2 && types[1] == Throwable.class) { // Spark 4.1
          return (PythonException) constructor.newInstance(error.getMessage(), null);
        }
        if (types.length == 5 && types[1] == Throwable.class) { // from Spark 4.2 on
          return (PythonException)
              constructor.newInstance(
                  error.getMessage(),
                  null,
                  scala.Option.empty(),
                  scala.collection.immutable.Map$.MODULE$.empty(),
                  new QueryContext[0]);
        }
      } catch (ReflectiveOperationException | IllegalArgumentException another) {
        // Another release: the error below says the same.
      }
    }
    return new UncheckedIOException(error);
  }
}
