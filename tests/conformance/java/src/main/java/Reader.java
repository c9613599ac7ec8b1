import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.ListOffsetsResult;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** The jobs of `clients.py`. Runs with the clients of each release from 2.8 on. */
class Reader {
    static TopicPartition partition(String name) {
        int dash = name.lastIndexOf('-');
        return new TopicPartition(name.substring(0, dash), Integer.parseInt(name.substring(dash + 1)));
    }

    static Map<TopicPartition, JsonNode> partitions(JsonNode command) {
        Map<TopicPartition, JsonNode> found = new HashMap<>();
        for (Iterator<String> names = command.get("partitions").fieldNames(); names.hasNext(); ) {
            String name = names.next();
            found.put(partition(name), command.get("partitions").get(name));
        }
        return found;
    }

    static KafkaConsumer<byte[], byte[]> consumer(JsonNode command, Map<String, Object> more) {
        Map<String, Object> properties = new HashMap<>(more);
        properties.put("bootstrap.servers", command.get("at").asText());
        properties.put("isolation.level", command.get("isolation").asText());
        properties.put("key.deserializer", ByteArrayDeserializer.class);
        properties.put("value.deserializer", ByteArrayDeserializer.class);
        properties.put("enable.auto.commit", false);
        properties.put("auto.offset.reset", "none");
        // Closing a consumer waits for the answer to its last fetch.
        properties.put("fetch.max.wait.ms", 10);
        if (command.hasNonNull("group")) {
            properties.put("group.id", command.get("group").asText());
        }
        return new KafkaConsumer<>(properties);
    }

    static void read(JsonNode command) throws Exception {
        Map<TopicPartition, JsonNode> partitions = partitions(command);
        String start = command.get("start").asText();
        if (start.equals("group")) {
            try (KafkaConsumer<byte[], byte[]> consumer = consumer(command, Map.of())) {
                Map<TopicPartition, OffsetAndMetadata> commits = new HashMap<>();
                partitions.forEach((partition, offset) -> commits.put(partition, new OffsetAndMetadata(offset.asLong())));
                consumer.assign(partitions.keySet());
                consumer.commitSync(commits);
            }
        }
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(command, Map.of())) {
            consumer.assign(partitions.keySet());
            if (start.equals("beginning")) {
                consumer.seekToBeginning(partitions.keySet());
            } else if (start.equals("time")) {
                Map<TopicPartition, Long> times = new HashMap<>();
                partitions.forEach((partition, time) -> times.put(partition, time.asLong()));
                Map<TopicPartition, OffsetAndTimestamp> found = consumer.offsetsForTimes(times);
                found.forEach((partition, at) -> consumer.seek(partition, at.offset()));
            }
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions.keySet());
            long deadline = System.nanoTime() + 30_000_000_000L;
            while (partitions.keySet().stream().anyMatch(partition -> consumer.position(partition) < ends.get(partition))) {
                if (System.nanoTime() > deadline) {
                    throw new IllegalStateException("not at the end after 30 s");
                }
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    Client.print(Client.row(record).put("topic", record.topic()));
                }
            }
        }
    }

    /** By the admin client. A question that the release does not know has no answer. */
    static void offsets(JsonNode command) throws Exception {
        IsolationLevel level = IsolationLevel.valueOf(command.get("isolation").asText().toUpperCase());
        Map<TopicPartition, JsonNode> partitions = partitions(command);
        int longest = partitions.values().stream().mapToInt(JsonNode::size).max().orElse(0);
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", (Object) command.get("at").asText()))) {
            for (int i = 0; i < longest; i++) {
                Map<TopicPartition, OffsetSpec> asked = new HashMap<>();
                for (Map.Entry<TopicPartition, JsonNode> one : partitions.entrySet()) {
                    OffsetSpec spec = i < one.getValue().size() ? spec(one.getValue().get(i).asLong()) : null;
                    if (spec != null) {
                        asked.put(one.getKey(), spec);
                    }
                }
                ListOffsetsResult found = admin.listOffsets(asked, new ListOffsetsOptions(level));
                for (TopicPartition partition : asked.keySet()) {
                    ListOffsetsResult.ListOffsetsResultInfo info = found.partitionResult(partition).get();
                    ObjectNode row = Client.JSON.createObjectNode();
                    row.put("topic", partition.topic()).put("partition", partition.partition());
                    row.put("query", partitions.get(partition).get(i).asLong());
                    row.put("offset", info.offset()).put("timestamp", info.timestamp());
                    Client.print(row.put("leaderEpoch", info.leaderEpoch().orElse(null)));
                }
            }
        }
    }

    static OffsetSpec spec(long timestamp) {
        try {
            return timestamp == -1 ? OffsetSpec.latest()
                : timestamp == -2 ? OffsetSpec.earliest()
                : timestamp == -3 ? OffsetSpec.maxTimestamp()
                : timestamp == -4 ? OffsetSpec.earliestLocal()
                : timestamp == -5 ? OffsetSpec.latestTiered()
                : OffsetSpec.forTimestamp(timestamp);
        } catch (NoSuchMethodError olderRelease) {
            return null;
        }
    }

    static void member(JsonNode command) throws Exception {
        Map<String, Object> properties = new HashMap<>();
        properties.put("auto.offset.reset", "earliest");
        properties.put("max.poll.records", 10);
        properties.put("session.timeout.ms", 6000);
        properties.put("heartbeat.interval.ms", 300);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(command, properties)) {
            List<String> topics = new ArrayList<>();
            command.get("topics").forEach(topic -> topics.add(topic.asText()));
            consumer.subscribe(topics);
            Set<TopicPartition> assigned = Set.of();
            while (true) {
                Iterable<ConsumerRecord<byte[], byte[]>> records = consumer.poll(Duration.ofMillis(100));
                if (!consumer.assignment().equals(assigned)) {
                    assigned = Set.copyOf(consumer.assignment());
                    Client.print(Client.JSON.createObjectNode().put("assigned", assigned.size()));
                }
                for (ConsumerRecord<byte[], byte[]> record : records) {
                    Client.print(Client.row(record));
                }
                Client.OUT.flush();
                try {
                    consumer.commitSync();
                } catch (org.apache.kafka.clients.consumer.CommitFailedException
                    | org.apache.kafka.common.errors.RebalanceInProgressException rebalanced) {
                    // The partitions have another member; the next poll joins again.
                    continue;
                }
                Thread.sleep(command.get("pause").asLong());
            }
        }
    }
}
