package brokerless.spark;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.LongSummaryStatistics;
import java.util.Map;

/** How far a stream is behind the logs, by the names that Spark's Kafka source gives these metrics. */
final class OffsetsBehind {
  private OffsetsBehind() {}

  /** Compares offsets by partition, as JSON: those up to which the stream has read, and the ends of the logs. */
  static Map<String, String> metrics(String consumed, String latest) {
    LongSummaryStatistics behind = new LongSummaryStatistics();
    try {
      ObjectMapper mapper = new ObjectMapper();
      JsonNode read = mapper.readTree(consumed);
      for (Map.Entry<String, JsonNode> topic : mapper.readTree(latest).properties()) {
        for (Map.Entry<String, JsonNode> end : topic.getValue().properties()) {
          // A partition that the stream has not read yet is new.
          long offset = read.path(topic.getKey()).path(end.getKey()).asLong(0);
          behind.accept(Math.max(0, end.getValue().asLong() - offset));
        }
      }
    } catch (JsonProcessingException error) {
      // The offsets of a damaged checkpoint: the query itself reports them.
      return Map.of();
    }
    return behind.getCount() == 0
        ? Map.of()
        : Map.of(
            "minOffsetsBehindLatest", Long.toString(behind.getMin()),
            "maxOffsetsBehindLatest", Long.toString(behind.getMax()),
            "avgOffsetsBehindLatest", Double.toString(behind.getAverage()));
  }
}
