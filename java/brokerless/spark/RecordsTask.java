package brokerless.spark;

import java.io.IOException;
import net.razorvine.pickle.Unpickler;
import org.apache.spark.sql.connector.read.InputPartition;
import scala.Product;

/** A task of the Python planner: JSON, which the native library reads. */
record RecordsTask(byte[] json) implements InputPartition {
  static {
    // A task is pickled as a call of this function, whose argument is the JSON.
    Unpickler.registerConstructor(
        "brokerless.spark.source.tasks", "records_task", arguments -> arguments[0]);
  }

  /** The JSON of a task that Python planned for a batch job or a stream. */
  static byte[] jsonOf(InputPartition planned) {
    try {
      // By place: releases spell the accessor's name differently.
      byte[] pickled = (byte[]) ((Product) planned).productElement(1);
      return (byte[]) new Unpickler().loads(pickled);
    } catch (IOException | ClassCastException error) {
      throw new IllegalStateException("a task of another version of brokerless", error);
    }
  }
}
