import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.message.FetchResponseData;
import org.apache.kafka.common.message.RequestHeaderData;
import org.apache.kafka.common.message.ResponseHeaderData;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

/**
 * Requests as bytes, and answers, by Kafka's own messages and converters: no client is between. Each line has "at" (host
 * and port), "api", "version" and "body", whose missing fields have their defaults; optional "connection", a name, and
 * "sentVersion", "answerVersion" for a version that nobody knows. The answer: "body", or "closed".
 */
public final class Wire {
  private static final ObjectMapper MAPPER = new ObjectMapper();
  private static final Map<String, Socket> CONNECTIONS = new HashMap<>();
  private static final int PATIENCE_MS = 60_000;

  public static void main(String[] args) throws Exception {
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      ObjectNode answer = MAPPER.createObjectNode();
      try {
        answer = exchange(MAPPER.readTree(line));
      } catch (Exception | LinkageError error) {
        answer.put("error", error.toString());
      }
      System.out.println(MAPPER.writeValueAsString(answer));
    }
  }

  private static ObjectNode exchange(JsonNode asked) throws Exception {
    String name = asked.get("api").asText();
    short version = (short) asked.get("version").asInt();
    ApiMessageType type = null;
    for (ApiMessageType one : ApiMessageType.values()) {
      type = one.name.equals(name) ? one : type;
    }
    if (type == null) {
      throw new IllegalArgumentException("no API " + name);
    }
    short sentVersion = asked.has("sentVersion") ? (short) asked.get("sentVersion").asInt() : version;
    short answerVersion = asked.has("answerVersion") ? (short) asked.get("answerVersion").asInt() : version;
    ApiMessage request = type.newRequest();
    ObjectNode body = (ObjectNode) written(request, version);
    body.setAll((ObjectNode) Messages.typed(asked.get("body")));
    request = (ApiMessage) converter(request).getMethod("read", JsonNode.class, short.class).invoke(null, body, version);
    RequestHeaderData header = new RequestHeaderData()
        .setRequestApiKey(type.apiKey())
        .setRequestApiVersion(sentVersion)
        .setCorrelationId(7)
        .setClientId("wire");
    short headerVersion = type.requestHeaderVersion(version);
    byte[] sent = concatenated(bytes(header, headerVersion), bytes(request, version));

    String at = asked.get("at").asText();
    String key = at + " " + (asked.has("connection") ? asked.get("connection").asText() : "");
    byte[] frame;
    try {
      frame = sentAndReceived(key, at, sent);
    } catch (IOException closed) {
      Socket socket = CONNECTIONS.remove(key);
      if (socket != null) {
        socket.close();
      }
      return MAPPER.createObjectNode().put("closed", true);
    }
    ByteBufferAccessor reader = new ByteBufferAccessor(ByteBuffer.wrap(frame));
    ResponseHeaderData head = new ResponseHeaderData(reader, type.responseHeaderVersion(answerVersion));
    ApiMessage response = type.newResponse();
    response.read(reader, answerVersion);
    ObjectNode answer = MAPPER.createObjectNode();
    answer.put("correlationId", head.correlationId());
    answer.put("left", reader.remaining());
    answer.set("body", written(response, answerVersion));
    if (response instanceof FetchResponseData fetched) {
      addRecords(fetched, (ObjectNode) answer.get("body"));
    }
    if (answer.get("body").has("apiKeys")) {
      for (JsonNode one : answer.get("body").get("apiKeys")) {
        ((ObjectNode) one).put("name", ApiMessageType.fromApiKey((short) one.get("apiKey").asInt()).name);
      }
    }
    return answer;
  }

  private static byte[] sentAndReceived(String key, String at, byte[] sent) throws IOException {
    Socket socket = CONNECTIONS.get(key);
    if (socket == null) {
      int colon = at.lastIndexOf(':');
      socket = new Socket(at.substring(0, colon), Integer.parseInt(at.substring(colon + 1)));
      socket.setSoTimeout(PATIENCE_MS);
      socket.setTcpNoDelay(true);
      CONNECTIONS.put(key, socket);
    }
    DataOutputStream out = new DataOutputStream(socket.getOutputStream());
    byte[] length = ByteBuffer.allocate(4).putInt(sent.length).array();
    out.write(concatenated(length, sent));
    out.flush();
    DataInputStream in = new DataInputStream(socket.getInputStream());
    byte[] frame = new byte[in.readInt()];
    in.readFully(frame);
    return frame;
  }

  /** The converters leave the records out: size, digest, and the base offset of the first batch and the end of the last. */
  private static void addRecords(FetchResponseData fetched, ObjectNode body) throws Exception {
    for (int i = 0; i < fetched.responses().size(); i++) {
      var partitions = fetched.responses().get(i).partitions();
      for (int j = 0; j < partitions.size(); j++) {
        // By name: the classes of records are in another package since 4.2.
        Object records = FetchResponseData.PartitionData.class.getMethod("records").invoke(partitions.get(j));
        ObjectNode node = (ObjectNode) ((ArrayNode) body.get("responses")).get(i).get("partitions").get(j);
        node.remove("recordsSizeInBytes");
        if (records == null) {
          node.putNull("records");
          continue;
        }
        ByteBuffer buffer = ((ByteBuffer) records.getClass().getMethod("buffer").invoke(records)).duplicate();
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        String digest = HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(bytes)).substring(0, 16);
        String start = bytes.length < 8 ? "" : " from " + ByteBuffer.wrap(bytes).getLong();
        node.put("records", bytes.length + " bytes" + start + ": " + digest);
      }
    }
  }

  private static byte[] bytes(Message message, short version) {
    ObjectSerializationCache cache = new ObjectSerializationCache();
    ByteBuffer bytes = ByteBuffer.allocate(message.size(cache, version));
    message.write(new ByteBufferAccessor(bytes), cache, version);
    return bytes.array();
  }

  private static byte[] concatenated(byte[] first, byte[] second) {
    return ByteBuffer.allocate(first.length + second.length).put(first).put(second).array();
  }

  private static Class<?> converter(Object message) throws ClassNotFoundException {
    return Class.forName(message.getClass().getName() + "JsonConverter");
  }

  private static JsonNode written(Message message, short version) throws Exception {
    return (JsonNode) converter(message).getMethod("write", message.getClass(), short.class).invoke(null, message, version);
  }
}
