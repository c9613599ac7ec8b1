import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.BinaryNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

/** Kafka's own serializers: each line {"name", "version", "json"} becomes {"hex", "json"}, by Kafka's converters. */
public final class Messages {
  private static final List<String> PACKAGES =
      List.of(
          "org.apache.kafka.common.message",
          "org.apache.kafka.common.metadata",
          "org.apache.kafka.coordinator.group.generated",
          "org.apache.kafka.coordinator.share.generated",
          "org.apache.kafka.coordinator.transaction.generated",
          "org.apache.kafka.server.log.remote.metadata.storage.generated",
          "kafka.internals.generated");

  public static void main(String[] args) throws Exception {
    ObjectMapper mapper = new ObjectMapper();
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      JsonNode asked = mapper.readTree(line);
      short version = (short) asked.get("version").asInt();
      Class<?> converter = converter(asked.get("name").asText());
      Message message =
          (Message) converter.getMethod("read", JsonNode.class, short.class).invoke(null, typed(asked.get("json")), version);
      ObjectSerializationCache cache = new ObjectSerializationCache();
      ByteBuffer bytes = ByteBuffer.allocate(message.size(cache, version));
      message.write(new ByteBufferAccessor(bytes), cache, version);
      // As a reader sees it.
      Message read = (Message) message.getClass().getConstructor().newInstance();
      read.read(new ByteBufferAccessor(ByteBuffer.wrap(bytes.array())), version);
      Method write = converter.getMethod("write", read.getClass(), short.class);
      ObjectNode answer = mapper.createObjectNode();
      answer.put("hex", HexFormat.of().formatHex(bytes.array()));
      answer.set("json", (JsonNode) write.invoke(null, read, version));
      System.out.println(mapper.writeValueAsString(answer));
    }
  }

  /** With bytes in place of {"base64": text}: the converters take no text for them. */
  static JsonNode typed(JsonNode node) throws IOException {
    if (node.isArray()) {
      ArrayNode array = JsonNodeFactory.instance.arrayNode();
      for (JsonNode element : node) {
        array.add(typed(element));
      }
      return array;
    }
    if (!node.isObject()) {
      return node;
    }
    if (node.has("base64")) {
      return BinaryNode.valueOf(node.get("base64").binaryValue());
    }
    ObjectNode object = JsonNodeFactory.instance.objectNode();
    for (Iterator<Map.Entry<String, JsonNode>> fields = node.fields(); fields.hasNext(); ) {
      Map.Entry<String, JsonNode> field = fields.next();
      object.set(field.getKey(), typed(field.getValue()));
    }
    return object;
  }

  private static Class<?> converter(String name) throws ClassNotFoundException {
    for (String of : PACKAGES) {
      try {
        return Class.forName(of + "." + name + "JsonConverter");
      } catch (ClassNotFoundException absent) {
        // in another package
      }
    }
    throw new ClassNotFoundException(name + "JsonConverter");
  }
}
