package brokerless.spark;

import java.io.IOException;
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
    // A task is pickled as a call of one of these functions, whose arguments are the JSON, and that of the decoding.
    Unpickler.registerConstructor(
        "brokerless.spark.source.tasks", "records_task", arguments -> new Planned((byte[]) arguments[0], NOT_DECODED));
    Unpickler.registerConstructor(
        "brokerless.spark.source.tasks",
        "decoded_task",
        arguments -> new Planned((byte[]) arguments[0], (byte[]) arguments[1]));
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
      return (Planned) new Unpickler().loads(pickled);
    } catch (IOException | ClassCastException error) {
      throw new IllegalStateException("a task of another version of brokerless", error);
    }
  }
}
