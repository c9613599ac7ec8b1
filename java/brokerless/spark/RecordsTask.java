package brokerless.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.HashMap;
import java.util.Map;
import java.util.OptionalLong;
import java.util.TreeMap;
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
   * Estimates what tasks read: the bytes of their files, and the offsets that they cover. A log that was compacted has
   * fewer rows than offsets.
   */
  static Statistics statistics(byte[][] tasks) {
    ObjectMapper mapper = new ObjectMapper();
    Map<String, TreeMap<Long, Long>> bytes = new HashMap<>();
    Map<String, long[]> offsets = new HashMap<>();
    try {
      for (byte[] task : tasks) {
        for (JsonNode split : mapper.readTree(task).get("splits")) {
          String path = split.get("path").asText();
          long position = split.get("position").asLong();
          long end = split.get("end_position").asLong();
          bytes.computeIfAbsent(path, unknown -> new TreeMap<>()).merge(position, end, Math::max);
          offsets.merge(path, offsets(split), RecordsTask::both);
        }
      }
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
    long size = bytes.values().stream().mapToLong(RecordsTask::covered).sum();
    long rows = 0;
    for (long[] range : offsets.values()) {
      if (range[1] == Long.MAX_VALUE) {
        return new Estimate(OptionalLong.of(size), OptionalLong.empty());
      }
      rows += Math.max(0, range[1] - range[0]);
    }
    return new Estimate(OptionalLong.of(size), OptionalLong.of(rows));
  }

  /** The bytes that ranges of a file cover: pieces that are cut by offset read the same ones. */
  private static long covered(TreeMap<Long, Long> ranges) {
    long size = 0;
    long end = 0;
    for (Map.Entry<Long, Long> range : ranges.entrySet()) {
      size += Math.max(0, range.getValue() - Math.max(end, range.getKey()));
      end = Math.max(end, range.getValue());
    }
    return size;
  }

  /** The range of offsets of its segment that a split covers; its end is the greatest number if nobody knows it. */
  private static long[] offsets(JsonNode split) {
    long end = split.get("end_offset").asLong();
    JsonNode following = split.get("following_offset");
    if (!following.isNull()) {
      end = Math.min(end, following.asLong());
    }
    return new long[] {Math.max(split.get("start_offset").asLong(), split.get("base_offset").asLong()), end};
  }

  /** The least range with both in it: the splits of a segment follow each other. */
  private static long[] both(long[] one, long[] other) {
    return new long[] {Math.min(one[0], other[0]), Math.max(one[1], other[1])};
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
