import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Kafka's own clients, driven by lines on stdin: a JSON object in, JSON lines out, the last one with "done" or "error".
 * Bytes are base64.
 */
public class Client {
    static final ObjectMapper JSON = new ObjectMapper();
    static final PrintStream OUT = new PrintStream(System.out, false, StandardCharsets.UTF_8);

    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            ObjectNode last = JSON.createObjectNode();
            try {
                JsonNode command = JSON.readTree(line);
                switch (command.get("do").asText()) {
                    case "create" -> create(command);
                    case "configs" -> describe(command);
                    case "configure" -> configure(command);
                    case "deleteRecords" -> deleteRecords(command);
                    case "dump" -> dump(command);
                    case "move" -> move(command);
                    case "offset" -> offset(command);
                    case "topics" -> topics(command);
                    case "produce" -> produce(command);
                    case "consume" -> consume(command);
                    case "commit" -> commit(command);
                    case "read" -> Reader.read(command);
                    case "offsets" -> Reader.offsets(command);
                    case "member" -> Reader.member(command);
                    case "changeMetadata" -> Metadata.change(command);
                    case "metadata" -> Metadata.ask(command);
                    case "changeToken" -> Tokens.change(command);
                    case "tokens" -> Tokens.ask(command);
                    case "tool" -> Tool.run(command);
                    case "remoteSegments" -> Remote.list(command);
                    case "remoteEvents" -> Remote.write(command);
                    default -> State.call(command);
                }
                last.put("done", true);
            } catch (Exception error) {
                last.put("error", error.toString());
            }
            print(last);
            OUT.flush();
        }
    }

    static void print(ObjectNode node) {
        OUT.print(node + "\n");
    }

    static Map<String, Object> at(JsonNode command) {
        Map<String, Object> properties = new HashMap<>();
        properties.put("bootstrap.servers", command.get("at").asText());
        if (command.has("client")) {
            command.get("client").properties().forEach(entry -> properties.put(entry.getKey(), entry.getValue().asText()));
        }
        return properties;
    }

    /**
     * topic, partitions, replicas (none: one, wherever), configs. It ends when each leader answers. One that does not
     * yet refuses the first batches of an idempotent producer and takes the next: it has no state of the producer, so
     * any sequence may be the first. The refused ones are then out of order for good.
     */
    static void create(JsonNode command) throws Exception {
        List<Integer> replicas = new ArrayList<>();
        command.get("replicas").forEach(node -> replicas.add(node.asInt()));
        String name = command.get("topic").asText();
        NewTopic topic = new NewTopic(name, command.get("partitions").asInt(), (short) 1);
        if (!replicas.isEmpty()) {
            Map<Integer, List<Integer>> assignment = new HashMap<>();
            for (int i = 0; i < command.get("partitions").asInt(); i++) {
                assignment.put(i, replicas);
            }
            topic = new NewTopic(name, assignment);
        }
        try (Admin admin = Admin.create(at(command))) {
            admin.createTopics(List.of(topic.configs(configs(command)))).all().get();
            Map<TopicPartition, OffsetSpec> ends = new HashMap<>();
            for (int i = 0; i < command.get("partitions").asInt(); i++) {
                ends.put(new TopicPartition(name, i), OffsetSpec.latest());
            }
            long deadline = System.nanoTime() + 60_000_000_000L;
            boolean isMade = false;
            while (!isMade) {
                try {
                    admin.listOffsets(ends).all().get();
                    isMade = true;
                } catch (ExecutionException error) {
                    if (!(error.getCause() instanceof RetriableException) || System.nanoTime() > deadline) {
                        throw error;
                    }
                    Thread.sleep(10);
                }
            }
        }
    }

    static Map<String, String> configs(JsonNode command) {
        Map<String, String> configs = new HashMap<>();
        command.get("configs").properties().forEach(entry -> configs.put(entry.getKey(), entry.getValue().asText()));
        return configs;
    }

    /** kind, name, configs. */
    static void configure(JsonNode command) throws Exception {
        ConfigResource resource = new ConfigResource(
            ConfigResource.Type.valueOf(command.get("kind").asText()), command.get("name").asText());
        List<AlterConfigOp> changes = new ArrayList<>();
        configs(command).forEach((name, value) ->
            changes.add(new AlterConfigOp(new ConfigEntry(name, value), AlterConfigOp.OpType.SET)));
        try (Admin admin = Admin.create(at(command))) {
            admin.incrementalAlterConfigs(Map.of(resource, changes)).all().get();
        }
    }

    /** kind, name. A line a config: its name, the value in force, and its source. */
    static void describe(JsonNode command) throws Exception {
        ConfigResource resource = new ConfigResource(
            ConfigResource.Type.valueOf(command.get("kind").asText()), command.get("name").asText());
        try (Admin admin = Admin.create(at(command))) {
            for (ConfigEntry entry : admin.describeConfigs(List.of(resource)).all().get().get(resource).entries()) {
                print(JSON.createObjectNode()
                    .put("name", entry.name()).put("value", entry.value()).put("source", entry.source().name()));
            }
        }
    }

    static TopicPartition partition(JsonNode command) {
        return new TopicPartition(command.get("topic").asText(), command.get("partition").asInt());
    }

    /** arguments, for the dump tool. A line: what it says. */
    static void dump(JsonNode command) {
        List<String> arguments = new ArrayList<>();
        command.get("arguments").forEach(argument -> arguments.add(argument.asText()));
        ByteArrayOutputStream said = new ByteArrayOutputStream();
        PrintStream stream = new PrintStream(said, true, StandardCharsets.UTF_8);
        PrintStream before = System.err;
        System.setErr(stream);
        try {
            scala.Console.withOut(stream, () -> {
                kafka.tools.DumpLogSegments.main(arguments.toArray(new String[0]));
                return null;
            });
        } finally {
            System.setErr(before);
        }
        print(JSON.createObjectNode().put("said", said.toString(StandardCharsets.UTF_8)));
    }

    /** topic, partition, offset. */
    static void deleteRecords(JsonNode command) throws Exception {
        RecordsToDelete before = RecordsToDelete.beforeOffset(command.get("offset").asLong());
        try (Admin admin = Admin.create(at(command))) {
            admin.deleteRecords(Map.of(partition(command), before)).all().get();
        }
    }

    /** topic, partition, node, directory. */
    static void move(JsonNode command) throws Exception {
        TopicPartitionReplica replica = new TopicPartitionReplica(
            command.get("topic").asText(), command.get("partition").asInt(), command.get("node").asInt());
        try (Admin admin = Admin.create(at(command))) {
            admin.alterReplicaLogDirs(Map.of(replica, command.get("directory").asText())).all().get();
        }
    }

    /** topic, partition, timestamp: ms, or what a request has for a special one. */
    static void offset(JsonNode command) throws Exception {
        long timestamp = command.get("timestamp").asLong();
        OffsetSpec spec = switch ((int) timestamp) {
            case -1 -> OffsetSpec.latest();
            case -2 -> OffsetSpec.earliest();
            case -3 -> OffsetSpec.maxTimestamp();
            case -4 -> OffsetSpec.earliestLocal();
            case -5 -> OffsetSpec.latestTiered();
            default -> OffsetSpec.forTimestamp(timestamp);
        };
        try (Admin admin = Admin.create(at(command))) {
            long offset = admin.listOffsets(Map.of(partition(command), spec)).partitionResult(partition(command)).get().offset();
            print(JSON.createObjectNode().put("offset", offset));
        }
    }

    /** A line a topic, internal ones too: its id, and the leader of each partition; the configs that were set on it. */
    static void topics(JsonNode command) throws Exception {
        try (Admin admin = Admin.create(at(command))) {
            var names = admin.listTopics(new org.apache.kafka.clients.admin.ListTopicsOptions().listInternal(true)).names().get();
            for (TopicDescription topic : admin.describeTopics(names).allTopicNames().get().values()) {
                ObjectNode node = JSON.createObjectNode();
                node.put("topic", topic.name()).put("id", topic.topicId().toString());
                ArrayNode leaders = node.putArray("leaders");
                ArrayNode isr = node.putArray("isr");
                for (TopicPartitionInfo partition : topic.partitions()) {
                    leaders.add(partition.leader() == null ? -1 : partition.leader().id());
                    ArrayNode nodes = isr.addArray();
                    partition.isr().forEach(replica -> nodes.add(replica.id()));
                }
                ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic.name());
                ObjectNode configs = node.putObject("configs");
                admin.describeConfigs(List.of(resource)).all().get().get(resource).entries().stream()
                    .filter(entry -> entry.source() == ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG)
                    .forEach(entry -> configs.put(entry.name(), entry.value()));
                print(node);
            }
        }
    }

    /**
     * topic, partition, count; mode: plain, idempotent, keyed (no null key), commit, abort; optional transactional.id and producer properties.
     * A line a record: the offset and timestamp that the broker gave it.
     */
    static void produce(JsonNode command) throws Exception {
        String mode = command.get("mode").asText();
        boolean transactional = mode.equals("commit") || mode.equals("abort");
        Map<String, Object> properties = at(command);
        properties.put("key.serializer", ByteArraySerializer.class);
        properties.put("value.serializer", ByteArraySerializer.class);
        properties.put("enable.idempotence", !mode.equals("plain"));
        properties.put("acks", "all");
        if (transactional) {
            properties.put("transactional.id", command.get("transactional.id").asText());
        }
        command.get("properties").properties().forEach(entry -> properties.put(entry.getKey(), entry.getValue().asText()));
        String topic = command.get("topic").asText();
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(properties)) {
            if (transactional) {
                producer.initTransactions();
                producer.beginTransaction();
            }
            for (int i = 0; i < command.get("count").asInt(); i++) {
                // nulls, empty ones and headers too: what is most easily lost
                byte[] key = i % 5 == 0 && !mode.equals("keyed") ? null : ("key-" + i % 7).getBytes();
                byte[] value = i % 11 == 10 ? null : i % 11 == 9 ? new byte[0] : (mode + "-value-" + i).getBytes();
                List<Header> headers = new ArrayList<>();
                if (i % 3 == 0 && !mode.equals("plain")) {
                    headers.add(new RecordHeader("h", ("" + i).getBytes()));
                    headers.add(new RecordHeader("h", (byte[]) null));
                }
                sent.add(producer.send(new ProducerRecord<>(topic, command.get("partition").asInt(), null, key, value, headers)));
            }
            producer.flush();
            if (mode.equals("commit")) {
                producer.commitTransaction();
            } else if (mode.equals("abort")) {
                producer.abortTransaction();
            }
            for (Future<RecordMetadata> record : sent) {
                RecordMetadata metadata = record.get();
                print(JSON.createObjectNode().put("offset", metadata.offset()).put("timestamp", metadata.timestamp()));
            }
        }
    }

    static Map<String, Object> consumer(JsonNode command) {
        Map<String, Object> properties = at(command);
        properties.put("key.deserializer", ByteArrayDeserializer.class);
        properties.put("value.deserializer", ByteArrayDeserializer.class);
        properties.put("enable.auto.commit", false);
        // At the end of a log a broker holds its answer for this long, and closing a consumer waits for the answer.
        properties.put("fetch.max.wait.ms", 10);
        if (command.hasNonNull("group")) {
            properties.put("group.id", command.get("group").asText());
            properties.put("auto.offset.reset", "none");
        }
        return properties;
    }

    /** group, topic, partition, offset: where the group goes on. */
    static void commit(JsonNode command) throws Exception {
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(consumer(command))) {
            consumer.assign(List.of(partition(command)));
            consumer.commitSync(Map.of(partition(command), new OffsetAndMetadata(command.get("offset").asLong())));
        }
    }

    /**
     * topic, isolation; optional group: from where it goes on, else from the beginning. A line a record, to the end of
     * each partition as it is now.
     */
    static void consume(JsonNode command) throws Exception {
        Map<String, Object> properties = consumer(command);
        properties.put("isolation.level", command.get("isolation").asText());
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(properties)) {
            List<TopicPartition> partitions = new ArrayList<>();
            consumer.partitionsFor(command.get("topic").asText())
                .forEach(info -> partitions.add(new TopicPartition(info.topic(), info.partition())));
            consumer.assign(partitions);
            if (!command.hasNonNull("group")) {
                consumer.seekToBeginning(partitions);
            }
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
            boolean mayStop = command.hasNonNull("patience");
            long patience = (mayStop ? command.get("patience").asLong() : 30) * 1_000_000_000L;
            long deadline = System.nanoTime() + patience;
            while (partitions.stream().anyMatch(partition -> consumer.position(partition) < ends.get(partition))) {
                if (System.nanoTime() > deadline) {
                    if (mayStop) {
                        return;
                    }
                    partitions.removeIf(partition -> consumer.position(partition) >= ends.get(partition));
                    throw new IllegalStateException("not at the end after 30 s: " + partitions + " of " + ends);
                }
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    print(row(record));
                    deadline = mayStop ? System.nanoTime() + patience : deadline;
                }
            }
        }
    }

    static ObjectNode row(ConsumerRecord<byte[], byte[]> record) {
        ObjectNode row = JSON.createObjectNode();
        row.put("partition", record.partition()).put("offset", record.offset()).put("timestamp", record.timestamp());
        row.put("timestampType", record.timestampType().id);
        if (record.leaderEpoch().isPresent()) {
            row.put("leaderEpoch", record.leaderEpoch().get());
        } else {
            row.putNull("leaderEpoch");
        }
        row.put("key", base64(record.key())).put("value", base64(record.value()));
        ArrayNode headers = row.putArray("headers");
        for (Header header : record.headers()) {
            headers.addArray().add(header.key()).add(base64(header.value()));
        }
        return row;
    }

    static String base64(byte[] bytes) {
        return bytes == null ? null : Base64.getEncoder().encodeToString(bytes);
    }
}
