package brokerless.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.HashMap;
import java.util.Map;
import java.util.OptionalLong;
import net.razorvine.pickle.Unpickler;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.Statistics;
import scala.Product;

/** A task of the Python planner: JSON, which the native library reads. */
record RecordsTask(byte[] json) implements InputPartition {
  static {
    // A task is pickled as a call of this function, whose argument is the JSON.
    Unpickler.registerConstructor(
        "brokerless.spark.source.tasks", "records_task", arguments -> arguments[0]);
  }

  /** What is known of tasks that are not planned yet. */
  static final Statistics UNKNOWN = new Estimate(OptionalLong.empty(), OptionalLong.empty());

  /**
   * Estimates what tasks read: the bytes of their files, and the offsets of their segments. Fewer rows than offsets are
   * there if a log was compacted, or if a segment is not read whole.
   */
  static Statistics statistics(byte[][] tasks) {
    ObjectMapper mapper = new ObjectMapper();
    long bytes = 0;
    Map<String, OptionalLong> offsets = new HashMap<>();
    try {
      for (byte[] task : tasks) {
        for (JsonNode split : mapper.readTree(task).get("splits")) {
          bytes += split.get("end_position").asLong() - split.get("position").asLong();
          offsets.put(split.get("path").asText(), offsets(split));
        }
      }
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
    boolean isKnown = offsets.values().stream().allMatch(OptionalLong::isPresent);
    long rows = offsets.values().stream().mapToLong(count -> count.orElse(0)).sum();
    return new Estimate(
        OptionalLong.of(bytes), isKnown ? OptionalLong.of(rows) : OptionalLong.empty());
  }

  /** How many offsets of its segment a split covers. Several splits of a segment have the same. */
  private static OptionalLong offsets(JsonNode split) {
    long end = split.get("end_offset").asLong();
    JsonNode following = split.get("following_offset");
    if (!following.isNull()) {
      end = Math.min(end, following.asLong());
    }
    long start = Math.max(split.get("start_offset").asLong(), split.get("base_offset").asLong());
    return end == Long.MAX_VALUE ? OptionalLong.empty() : OptionalLong.of(Math.max(0, end - start));
  }

  private record Estimate(OptionalLong sizeInBytes, OptionalLong numRows) implements Statistics {}

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
