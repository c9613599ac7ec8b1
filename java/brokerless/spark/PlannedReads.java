package brokerless.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.util.Utils;

/**
 * What planned tasks will read: the bytes of their files, and the offsets that they cover. A log that was compacted has
 * fewer rows than offsets.
 */
record PlannedReads(OptionalLong sizeInBytes, OptionalLong numRows, Set<String> topics, int partitions)
    implements Statistics {
  /** What is known of tasks that are not planned yet. */
  static final PlannedReads UNKNOWN =
      new PlannedReads(OptionalLong.empty(), OptionalLong.empty(), Set.of(), 0);

  private record Partition(String topic, int number) {}

  static PlannedReads of(byte[][] tasks) {
    ObjectMapper mapper = new ObjectMapper();
    Map<String, TreeMap<Long, Long>> bytes = new HashMap<>();
    Map<String, long[]> offsets = new HashMap<>();
    Set<String> topics = new TreeSet<>();
    Set<Partition> partitions = new HashSet<>();
    try {
      for (byte[] task : tasks) {
        for (JsonNode split : mapper.readTree(task).get("splits")) {
          String path = split.get("path").asText();
          long position = split.get("position").asLong();
          long end = split.get("end_position").asLong();
          bytes.computeIfAbsent(path, unknown -> new TreeMap<>()).merge(position, end, Math::max);
          offsets.merge(path, offsets(split), PlannedReads::both);
          // A file outside a partition directory has no topic: its path stands for it.
          String topic = split.get("topic").isNull() ? path : split.get("topic").asText();
          topics.add(topic);
          partitions.add(new Partition(topic, split.get("partition").asInt()));
        }
      }
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
    OptionalLong size = OptionalLong.of(bytes.values().stream().mapToLong(PlannedReads::covered).sum());
    boolean isKnown = offsets.values().stream().allMatch(range -> range[1] != Long.MAX_VALUE);
    long rows = isKnown ? offsets.values().stream().mapToLong(range -> Math.max(0, range[1] - range[0])).sum() : 0;
    return new PlannedReads(size, isKnown ? OptionalLong.of(rows) : OptionalLong.empty(), topics, partitions.size());
  }

  String description() {
    return "Topics: "
        + Described.few(topics)
        + ", Partitions: "
        + partitions
        + ", Bytes: "
        + Utils.bytesToString(sizeInBytes.orElse(0));
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
}
