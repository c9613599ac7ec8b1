package brokerless.spark;

import java.io.IOException;
import java.util.List;
import net.razorvine.pickle.Unpickler;
import org.apache.spark.SparkContext;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.sql.connector.read.InputPartition;
import scala.Product;
import scala.reflect.ClassTag;

/**
 * A task of the Python planner: JSON, which the native library reads.
 *
 * @param decoding how keys and values are decoded, with the schemas, for all tasks; null: they are not
 */
record RecordsTask(byte[] json, Broadcast<byte[]> decoding) implements InputPartition {
  private static final byte[] NOT_DECODED = {};

  static {
    // A task is pickled as a call of one of these functions, whose arguments are the JSON, and that of the decoding. The
    // classes of all loaders share these constructors, so what they return is of no class of this jar.
    for (String function : List.of("records_task", "decoded_task")) {
      Unpickler.registerConstructor("brokerless.spark.source.tasks", function, arguments -> arguments);
    }
  }

  private record Planned(byte[] json, byte[] decoding) {}

  /** The tasks that Python planned for a batch job or a stream. The first one has the decoding of all. */
  static RecordsTask[] of(InputPartition[] planned) {
    Broadcast<byte[]> decoding = null;
    RecordsTask[] tasks = new RecordsTask[planned.length];
    for (int i = 0; i < planned.length; i++) {
      Planned task = planned(planned[i]);
      if (task.decoding.length > 0) {
        decoding = SparkContext.getOrCreate().broadcast(task.decoding, ClassTag.apply(byte[].class));
      }
      tasks[i] = new RecordsTask(task.json, decoding);
    }
    return tasks;
  }

  /** The JSON of the decoding; empty if keys and values are not decoded. */
  byte[] decodingJson() {
    return decoding == null ? NOT_DECODED : decoding.value();
  }

  private static Planned planned(InputPartition planned) {
    try {
      // By place: releases spell the accessor's name differently.
      byte[] pickled = (byte[]) ((Product) planned).productElement(1);
      Object[] parts = (Object[]) new Unpickler().loads(pickled);
      return new Planned((byte[]) parts[0], parts.length > 1 ? (byte[]) parts[1] : NOT_DECODED);
    } catch (IOException | ClassCastException error) {
      throw new IllegalStateException("a task of another version of brokerless", error);
    }
  }
}
