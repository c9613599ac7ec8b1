import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.errors.ReplicaNotAvailableException;
import org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentId;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata.CustomMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadataUpdate;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentState;
import org.apache.kafka.server.log.remote.storage.RemotePartitionDeleteMetadata;
import org.apache.kafka.server.log.remote.storage.RemotePartitionDeleteState;
import org.apache.kafka.server.log.remote.storage.RemoteResourceNotFoundException;

/** Commands of `Client` for the segments in remote storage, by the class that brokers keep and read them with. */
class Remote {
    static TopicIdPartition place(JsonNode one) {
        return new TopicIdPartition(Uuid.fromString(one.get("topicId").asText()), Client.partition(one));
    }

    /** partitions: a list of topic, topicId and partition; metadataPartitions; directory, for nothing. */
    static TopicBasedRemoteLogMetadataManager manager(JsonNode command) throws Exception {
        Map<String, Object> configs = new HashMap<>();
        configs.put("broker.id", 7);
        configs.put("log.dir", command.get("directory").asText());
        configs.put("remote.log.metadata.common.client.bootstrap.servers", command.get("at").asText());
        configs.put("remote.log.metadata.topic.num.partitions", command.get("metadataPartitions").asInt());
        configs.put("remote.log.metadata.topic.replication.factor", (short) 1);
        TopicBasedRemoteLogMetadataManager manager = new TopicBasedRemoteLogMetadataManager();
        manager.configure(configs);
        TopicIdPartition nothing = new TopicIdPartition(Uuid.ONE_UUID, new TopicPartition("nothing", 0));
        for (boolean isInitialized = false; !isInitialized; ) {
            try {
                manager.listRemoteLogSegments(nothing);
            } catch (RemoteResourceNotFoundException error) {
                isInitialized = true;
            } catch (IllegalStateException error) {
                Thread.sleep(20);
            }
        }
        Set<TopicIdPartition> followed = new HashSet<>();
        command.get("partitions").forEach(one -> followed.add(place(one)));
        manager.onPartitionLeadershipChanges(Set.of(), followed);
        return manager;
    }

    /** As `manager`. A line a segment of these partitions. A manager does not start on one that was deleted. */
    static void list(JsonNode command) throws Exception {
        try (TopicBasedRemoteLogMetadataManager manager = manager(command)) {
            list(manager, command);
        }
    }

    static void list(TopicBasedRemoteLogMetadataManager manager, JsonNode command) throws Exception {
        for (JsonNode one : command.get("partitions")) {
            Iterator<RemoteLogSegmentMetadata> found = segments(manager, place(one));
            while (found.hasNext()) {
                print(found.next());
            }
        }
    }

    static Iterator<RemoteLogSegmentMetadata> segments(TopicBasedRemoteLogMetadataManager manager, TopicIdPartition place)
            throws Exception {
        long deadline = System.nanoTime() + 60_000_000_000L;
        while (true) {
            try {
                return manager.listRemoteLogSegments(place);
            } catch (RemoteResourceNotFoundException error) {
                // The partition was deleted while the manager followed it.
                return Collections.emptyIterator();
            } catch (ReplicaNotAvailableException error) {
                // Not all of the topic is read yet.
                if (System.nanoTime() > deadline) {
                    throw error;
                }
                Thread.sleep(20);
            }
        }
    }

    static void print(RemoteLogSegmentMetadata one) {
        ObjectNode row = Client.JSON.createObjectNode();
        row.put("topic", one.topicIdPartition().topic()).put("topic_id", one.topicIdPartition().topicId().toString());
        row.put("partition", one.topicIdPartition().partition());
        row.put("segment_id", one.remoteLogSegmentId().id().toString());
        row.put("start_offset", one.startOffset()).put("end_offset", one.endOffset());
        row.put("bytes", one.segmentSizeInBytes()).put("max_time", one.maxTimestampMs());
        ArrayNode epochs = row.putArray("leader_epochs");
        one.segmentLeaderEpochs().forEach((epoch, offset) -> epochs.addArray().add(epoch).add(offset));
        row.put("is_index_empty", one.isTxnIdxEmpty()).put("state", one.state().name());
        row.put("broker_id", one.brokerId()).put("updated", one.eventTimestampMs());
        row.put("custom_metadata", one.customMetadata().map(custom -> Client.base64(custom.value())).orElse(null));
        Client.print(row);
    }

    /**
     * As `manager`, and events: a list of topic, topicId and partition, and either deleteState, or segment, state and
     * custom (base64 or null), and for a new segment start, end, bytes, maxTime, epochs (an object), isIndexEmpty.
     * A line a segment that the manager knows then.
     */
    static void write(JsonNode command) throws Exception {
        try (TopicBasedRemoteLogMetadataManager manager = manager(command)) {
            for (JsonNode event : command.get("events")) {
                TopicIdPartition place = place(event);
                long now = System.currentTimeMillis();
                if (event.has("deleteState")) {
                    manager.putRemotePartitionDeleteMetadata(new RemotePartitionDeleteMetadata(
                        place, RemotePartitionDeleteState.valueOf(event.get("deleteState").asText()), now, 7)).get();
                    continue;
                }
                RemoteLogSegmentId id = new RemoteLogSegmentId(place, Uuid.fromString(event.get("segment").asText()));
                if (event.has("start")) {
                    Map<Integer, Long> epochs = new TreeMap<>();
                    event.get("epochs").properties().forEach(
                        entry -> epochs.put(Integer.parseInt(entry.getKey()), entry.getValue().asLong()));
                    manager.addRemoteLogSegmentMetadata(new RemoteLogSegmentMetadata(
                        id, event.get("start").asLong(), event.get("end").asLong(), event.get("maxTime").asLong(), 7, now,
                        event.get("bytes").asInt(), epochs, event.get("isIndexEmpty").asBoolean())).get();
                } else {
                    Optional<CustomMetadata> custom = event.hasNonNull("custom")
                        ? Optional.of(new CustomMetadata(event.get("custom").binaryValue())) : Optional.empty();
                    manager.updateRemoteLogSegmentMetadata(new RemoteLogSegmentMetadataUpdate(
                        id, now, custom, RemoteLogSegmentState.valueOf(event.get("state").asText()), 8)).get();
                }
            }
            list(manager, command);
        }
    }
}
