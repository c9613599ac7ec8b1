import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ExecutionException;
import java.util.function.Function;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ClassicGroupDescription;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.FeatureUpdate;
import org.apache.kafka.clients.admin.GroupListing;
import org.apache.kafka.clients.admin.ListTopicsOptions;
import org.apache.kafka.clients.admin.MemberDescription;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.clients.admin.ShareGroupDescription;
import org.apache.kafka.clients.admin.ShareMemberDescription;
import org.apache.kafka.clients.admin.StreamsGroupDescription;
import org.apache.kafka.clients.admin.StreamsGroupMemberDescription;
import org.apache.kafka.clients.admin.TransactionDescription;
import org.apache.kafka.clients.admin.TransactionListing;
import org.apache.kafka.clients.admin.UpdateFeaturesOptions;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.GroupType;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.errors.GroupIdNotFoundException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.message.JoinGroupRequestData;
import org.apache.kafka.common.message.JoinGroupResponseData;
import org.apache.kafka.common.message.OffsetCommitRequestData;
import org.apache.kafka.common.message.ProduceRequestData;
import org.apache.kafka.common.message.StreamsGroupHeartbeatRequestData;
import org.apache.kafka.common.message.StreamsGroupHeartbeatResponseData;
import org.apache.kafka.common.message.SyncGroupRequestData;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.SimpleRecord;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.AbstractResponse;
import org.apache.kafka.common.requests.JoinGroupRequest;
import org.apache.kafka.common.requests.OffsetCommitRequest;
import org.apache.kafka.common.requests.ProduceRequest;
import org.apache.kafka.common.requests.RequestHeader;
import org.apache.kafka.common.requests.StreamsGroupHeartbeatRequest;
import org.apache.kafka.common.requests.SyncGroupRequest;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.Exit;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.tools.consumer.group.ConsumerGroupCommand;

/** Commands of `Client` that give coordinators and leaders something to know, and ask them what they know. */
class State {
    static final Map<String, Member> MEMBERS = new HashMap<>();
    static final Map<String, KafkaProducer<byte[], byte[]>> PRODUCERS = new HashMap<>();

    static void call(JsonNode command) throws Exception {
        switch (command.get("do").asText()) {
            case "join" -> join(command);
            case "leave" -> MEMBERS.remove(command.get("member").asText()).leave();
            case "commitAs" -> MEMBERS.get(command.get("member").asText()).commit(offsets(command));
            case "dropAll" -> dropAll();
            case "joinRaw" -> joinRaw(command);
            case "joinStreams" -> joinStreams(command);
            case "commitRaw" -> commitRaw(command);
            case "alterOffsets" -> alterOffsets(command);
            case "deleteOffsets" -> deleteOffsets(command);
            case "deleteGroup" -> deleteGroup(command);
            case "feature" -> feature(command);
            case "transaction" -> transaction(command);
            case "produceRaw" -> produceRaw(command);
            case "groups" -> groups(command);
            case "groupOffsets" -> listOffsets(command);
            case "transactions" -> transactions(command);
            case "producers" -> producers(command);
            case "consumerGroupTool" -> consumerGroupTool(command);
            case "transactionsTool" -> transactionsTool(command);
            default -> throw new IllegalArgumentException(command.toString());
        }
    }

    /** A live member of a group: a thread that polls. */
    static class Member {
        final ConcurrentLinkedQueue<Runnable> tasks = new ConcurrentLinkedQueue<>();
        final AutoCloseable consumer;
        final Callable<?> poll;
        final Thread thread = new Thread(this::run);
        volatile Duration close;

        Member(AutoCloseable consumer, Callable<?> poll) {
            this.consumer = consumer;
            this.poll = poll;
            thread.setDaemon(true);
            thread.start();
        }

        void run() {
            while (close == null) {
                try {
                    for (Runnable task = tasks.poll(); task != null; task = tasks.poll()) {
                        task.run();
                    }
                    poll.call();
                } catch (Exception error) {
                    // It goes on, as an application would. What a broker says of it is what counts.
                    error.printStackTrace();
                }
            }
            if (consumer instanceof Consumer<?, ?> one) {
                one.close(CloseOptions.timeout(close));
            } else {
                ((KafkaShareConsumer<?, ?>) consumer).close(close);
            }
        }

        void leave() throws Exception {
            end(Duration.ofSeconds(30));
        }

        void end(Duration timeout) throws Exception {
            close = timeout;
            thread.join();
        }

        void commit(Map<TopicPartition, OffsetAndMetadata> offsets) throws Exception {
            CompletableFuture<Void> done = new CompletableFuture<>();
            tasks.add(() -> {
                try {
                    ((Consumer<?, ?>) consumer).commitSync(offsets);
                    done.complete(null);
                } catch (Exception error) {
                    done.completeExceptionally(error);
                }
            });
            done.get();
        }
    }

    /** member, kind (classic, consumer or share), group, topics or pattern, properties. It lives until `leave` or `dropAll`. */
    static void join(JsonNode command) {
        Map<String, Object> properties = Client.at(command);
        properties.put("key.deserializer", ByteArrayDeserializer.class);
        properties.put("value.deserializer", ByteArrayDeserializer.class);
        properties.put("group.id", command.get("group").asText());
        properties.put("client.id", command.get("member").asText());
        command.get("properties").properties().forEach(entry -> properties.put(entry.getKey(), entry.getValue().asText()));
        List<String> topics = new ArrayList<>();
        command.get("topics").forEach(topic -> topics.add(topic.asText()));
        String kind = command.get("kind").asText();
        Member member;
        if (kind.equals("share")) {
            KafkaShareConsumer<byte[], byte[]> consumer = new KafkaShareConsumer<>(properties);
            consumer.subscribe(topics);
            member = new Member(consumer, () -> consumer.poll(Duration.ofMillis(50)));
        } else {
            properties.put("group.protocol", kind);
            properties.put("enable.auto.commit", false);
            properties.put("auto.offset.reset", "earliest");
            if (kind.equals("classic")) {
                properties.put("session.timeout.ms", 120000);
                properties.put("heartbeat.interval.ms", 200);
            }
            KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(properties);
            if (command.hasNonNull("pattern")) {
                consumer.subscribe(new SubscriptionPattern(command.get("pattern").asText()));
            } else {
                consumer.subscribe(topics);
            }
            member = new Member(consumer, () -> consumer.poll(Duration.ofMillis(50)));
        }
        MEMBERS.put(command.get("member").asText(), member);
    }

    /** End all members and producers without a word to their broker, which is gone. */
    static void dropAll() throws Exception {
        for (Member member : MEMBERS.values()) {
            member.close = Duration.ZERO;
        }
        for (Member member : MEMBERS.values()) {
            member.end(Duration.ZERO);
        }
        MEMBERS.clear();
        PRODUCERS.values().forEach(producer -> producer.close(Duration.ZERO));
        PRODUCERS.clear();
    }

    /** Send a request that no client here sends, again for as long as a coordinator is not ready for it. */
    static AbstractResponse send(JsonNode command, AbstractRequest request) throws Exception {
        String[] at = command.get("at").asText().split(":");
        RequestHeader header = new RequestHeader(request.apiKey(), request.version(), "raw", 1);
        long deadline = System.nanoTime() + 30_000_000_000L;
        try (Socket socket = new Socket(at[0], Integer.parseInt(at[1]))) {
            DataOutputStream out = new DataOutputStream(socket.getOutputStream());
            DataInputStream in = new DataInputStream(socket.getInputStream());
            while (true) {
                ByteBuffer bytes = request.serializeWithHeader(header);
                out.writeInt(bytes.remaining());
                out.write(bytes.array(), bytes.arrayOffset() + bytes.position(), bytes.remaining());
                out.flush();
                byte[] answer = new byte[in.readInt()];
                in.readFully(answer);
                AbstractResponse response = AbstractResponse.parseResponse(ByteBuffer.wrap(answer), header);
                var errors = new ArrayList<>(response.errorCounts().keySet());
                errors.remove(Errors.NONE);
                if (errors.isEmpty()) {
                    return response;
                }
                if (!(errors.get(0).exception() instanceof RetriableException) || System.nanoTime() > deadline) {
                    throw new IllegalStateException(response.toString());
                }
                Thread.sleep(50);
            }
        }
    }

    /** group, protocolType, protocol, bytes: a member whose program is no consumer, and that is never heard of again. */
    static void joinRaw(JsonNode command) throws Exception {
        byte[] bytes = command.get("bytes").asText().getBytes(StandardCharsets.UTF_8);
        String group = command.get("group").asText();
        JoinGroupRequestData.JoinGroupRequestProtocolCollection protocols = new JoinGroupRequestData.JoinGroupRequestProtocolCollection();
        protocols.add(new JoinGroupRequestData.JoinGroupRequestProtocol()
            .setName(command.get("protocol").asText()).setMetadata(bytes));
        JoinGroupRequestData join = new JoinGroupRequestData().setGroupId(group).setMemberId("")
            .setSessionTimeoutMs(1_000_000).setRebalanceTimeoutMs(1_000_000)
            .setProtocolType(command.get("protocolType").asText()).setProtocols(protocols);
        JoinGroupResponseData data = (JoinGroupResponseData) send(command, new JoinGroupRequest(join, (short) 3)).data();
        SyncGroupRequestData sync = new SyncGroupRequestData().setGroupId(group)
            .setMemberId(data.memberId()).setGenerationId(data.generationId())
            .setAssignments(List.of(new SyncGroupRequestData.SyncGroupRequestAssignment()
                .setMemberId(data.memberId()).setAssignment(bytes)));
        send(command, new SyncGroupRequest(sync, (short) 2));
    }

    /**
     * group, topic: a member of a streams group of one subtopology, until it owns its tasks, or if it cannot get any
     * (isReady), after its first heartbeat. It is never heard of again.
     */
    static void joinStreams(JsonNode command) throws Exception {
        StreamsGroupHeartbeatRequestData data = new StreamsGroupHeartbeatRequestData()
            .setGroupId(command.get("group").asText()).setMemberId(Uuid.randomUuid().toString()).setMemberEpoch(0)
            .setProcessId("process").setRebalanceTimeoutMs(1_000_000).setClientTags(List.of())
            .setTopology(new StreamsGroupHeartbeatRequestData.Topology().setEpoch(0).setSubtopologies(List.of(
                new StreamsGroupHeartbeatRequestData.Subtopology()
                    .setSubtopologyId("sub").setSourceTopics(List.of(command.get("topic").asText())))))
            .setActiveTasks(List.of()).setStandbyTasks(List.of()).setWarmupTasks(List.of());
        for (int owned = command.get("isReady").asBoolean() ? 0 : 1; owned < 2; ) {
            StreamsGroupHeartbeatResponseData answer =
                (StreamsGroupHeartbeatResponseData) send(command, new StreamsGroupHeartbeatRequest(data, (short) 0)).data();
            data.setMemberEpoch(answer.memberEpoch()).setTopology(null).setRebalanceTimeoutMs(-1).setProcessId(null).setClientTags(null);
            data.setActiveTasks(null).setStandbyTasks(null).setWarmupTasks(null);
            if (owned == 1 || (answer.activeTasks() != null && !answer.activeTasks().isEmpty())) {
                owned++;
            }
            if (answer.activeTasks() != null) {
                data.setStandbyTasks(List.of()).setWarmupTasks(List.of()).setActiveTasks(answer.activeTasks().stream().map(
                    task -> new StreamsGroupHeartbeatRequestData.TaskIds()
                        .setSubtopologyId(task.subtopologyId()).setPartitions(task.partitions())).toList());
            }
            Thread.sleep(50);
        }
    }

    /** group, topic, partition, offset, retention: a commit with its own retention time, as old clients send it. */
    static void commitRaw(JsonNode command) throws Exception {
        OffsetCommitRequestData data = new OffsetCommitRequestData().setGroupId(command.get("group").asText())
            .setRetentionTimeMs(command.get("retention").asLong())
            .setTopics(List.of(new OffsetCommitRequestData.OffsetCommitRequestTopic().setName(command.get("topic").asText())
                .setPartitions(List.of(new OffsetCommitRequestData.OffsetCommitRequestPartition()
                    .setPartitionIndex(command.get("partition").asInt())
                    .setCommittedOffset(command.get("offset").asLong()).setCommittedMetadata("old")))));
        send(command, new OffsetCommitRequest(data, (short) 2));
    }

    /** offsets: a list of topic, partition, offset; optional leaderEpoch and metadata. */
    static Map<TopicPartition, OffsetAndMetadata> offsets(JsonNode command) {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (JsonNode one : command.get("offsets")) {
            Optional<Integer> epoch = one.hasNonNull("leaderEpoch") ? Optional.of(one.get("leaderEpoch").asInt()) : Optional.empty();
            String metadata = one.hasNonNull("metadata") ? one.get("metadata").asText() : "";
            offsets.put(Client.partition(one), new OffsetAndMetadata(one.get("offset").asLong(), epoch, metadata));
        }
        return offsets;
    }

    static void alterOffsets(JsonNode command) throws Exception {
        try (Admin admin = Admin.create(Client.at(command))) {
            admin.alterConsumerGroupOffsets(command.get("group").asText(), offsets(command)).all().get();
        }
    }

    static void deleteOffsets(JsonNode command) throws Exception {
        try (Admin admin = Admin.create(Client.at(command))) {
            admin.deleteConsumerGroupOffsets(command.get("group").asText(), Set.of(Client.partition(command))).all().get();
        }
    }

    static void deleteGroup(JsonNode command) throws Exception {
        try (Admin admin = Admin.create(Client.at(command))) {
            admin.deleteConsumerGroups(List.of(command.get("group").asText())).all().get();
        }
    }

    /** feature, level. */
    static void feature(JsonNode command) throws Exception {
        FeatureUpdate update = new FeatureUpdate((short) command.get("level").asInt(), FeatureUpdate.UpgradeType.UPGRADE);
        try (Admin admin = Admin.create(Client.at(command))) {
            admin.updateFeatures(Map.of(command.get("feature").asText(), update), new UpdateFeaturesOptions()).all().get();
        }
    }

    /**
     * id, records (a list of topic, partition, count), group (or null) and its offsets; end: commit, abort, open, or
     * init for no transaction at all; properties. The producer of an open one is kept, and "id" goes on with it if its
     * "end" comes in another command, without records. A line: the last offset of each partition.
     */
    static void transaction(JsonNode command) throws Exception {
        String id = command.get("id").asText();
        KafkaProducer<byte[], byte[]> producer = PRODUCERS.remove(id);
        String end = command.get("end").asText();
        if (producer == null || command.get("anew").asBoolean()) {
            if (producer != null) {
                PRODUCERS.put(id + " before", producer);
            }
            Map<String, Object> properties = Client.at(command);
            properties.put("key.serializer", ByteArraySerializer.class);
            properties.put("value.serializer", ByteArraySerializer.class);
            properties.put("transactional.id", id);
            command.get("properties").properties().forEach(entry -> properties.put(entry.getKey(), entry.getValue().asText()));
            producer = new KafkaProducer<>(properties);
            producer.initTransactions();
            if (!end.equals("init")) {
                producer.beginTransaction();
            }
        }
        ObjectNode last = Client.JSON.createObjectNode();
        for (JsonNode one : command.get("records")) {
            for (int i = 0; i < one.get("count").asInt(); i++) {
                long offset = producer.send(new ProducerRecord<>(
                    one.get("topic").asText(), one.get("partition").asInt(), null, null, new byte[10])).get().offset();
                last.put(Client.partition(one).toString(), offset);
            }
        }
        if (command.hasNonNull("group")) {
            producer.sendOffsetsToTransaction(offsets(command), new ConsumerGroupMetadata(command.get("group").asText()));
        }
        switch (end) {
            case "commit" -> producer.commitTransaction();
            case "abort" -> producer.abortTransaction();
            default -> { }
        }
        if (end.equals("open")) {
            PRODUCERS.put(id, producer);
        } else {
            producer.close();
        }
        Client.print(last);
    }

    /** topic, partition, id, producerId, epoch, sequence, count: a transactional batch that no coordinator knows of. */
    static void produceRaw(JsonNode command) throws Exception {
        SimpleRecord[] records = new SimpleRecord[command.get("count").asInt()];
        for (int i = 0; i < records.length; i++) {
            records[i] = new SimpleRecord(System.currentTimeMillis(), null, new byte[10]);
        }
        MemoryRecords batch = MemoryRecords.withTransactionalRecords(Compression.NONE, command.get("producerId").asLong(),
            (short) command.get("epoch").asInt(), command.get("sequence").asInt(), records);
        ProduceRequestData.TopicProduceDataCollection topics = new ProduceRequestData.TopicProduceDataCollection();
        topics.add(new ProduceRequestData.TopicProduceData().setName(command.get("topic").asText())
            .setPartitionData(List.of(new ProduceRequestData.PartitionProduceData()
                .setIndex(command.get("partition").asInt()).setRecords(batch))));
        ProduceRequestData data = new ProduceRequestData().setTransactionalId(command.get("id").asText())
            .setAcks((short) -1).setTimeoutMs(30_000).setTopicData(topics);
        send(command, new ProduceRequest(data, (short) 8));
    }

    /** A line a group of any type. */
    static void groups(JsonNode command) throws Exception {
        try (Admin admin = Admin.create(Client.at(command))) {
            for (int attempt = 1;; attempt++) {
                try {
                    describeGroups(admin).forEach(Client::print);
                    return;
                } catch (ExecutionException error) {
                    // A group that became one of another type, or was deleted, after the list was made.
                    if (!(error.getCause() instanceof GroupIdNotFoundException) || attempt == 20) {
                        throw error;
                    }
                    Thread.sleep(100);
                }
            }
        }
    }

    private static List<ObjectNode> describeGroups(Admin admin) throws Exception {
        List<ObjectNode> nodes = new ArrayList<>();
        for (GroupListing listing : admin.listGroups().all().get()) {
            String group = listing.groupId();
            ObjectNode node = Client.JSON.createObjectNode().put("group", group);
            node.put("type", listing.type().map(Object::toString).orElse(null));
            node.put("protocolType", listing.protocol());
            node.put("listedState", listing.groupState().map(Object::toString).orElse(null));
            ArrayNode members = node.putArray("members");
            GroupType type = listing.type().orElse(GroupType.CLASSIC);
            if (type == GroupType.SHARE) {
                ShareGroupDescription one = admin.describeShareGroups(List.of(group)).all().get().get(group);
                node.put("state", one.groupState().toString());
                node.put("epoch", one.groupEpoch()).put("assignmentEpoch", one.targetAssignmentEpoch());
                for (ShareMemberDescription member : one.members()) {
                    ObjectNode row = members.addObject();
                    row.put("id", member.consumerId()).put("clientId", member.clientId()).put("host", member.host());
                    row.put("epoch", member.memberEpoch());
                    assignment(row, member.assignment().topicPartitions());
                }
            } else if (type == GroupType.STREAMS) {
                StreamsGroupDescription one = admin.describeStreamsGroups(List.of(group)).all().get().get(group);
                node.put("state", one.groupState().toString());
                node.put("epoch", one.groupEpoch()).put("assignmentEpoch", one.targetAssignmentEpoch());
                for (StreamsGroupMemberDescription member : one.members()) {
                    ObjectNode row = members.addObject();
                    row.put("id", member.memberId()).put("instance", member.instanceId().orElse(null));
                    row.put("clientId", member.clientId()).put("host", member.clientHost());
                    row.put("epoch", member.memberEpoch());
                    ArrayNode tasks = row.putArray("assignment");
                    member.assignment().activeTasks().forEach(task -> task.partitions().forEach(
                        partition -> tasks.addArray().add("active " + task.subtopologyId()).add(partition)));
                }
            } else if (type == GroupType.CONSUMER) {
                ConsumerGroupDescription one = admin.describeConsumerGroups(List.of(group)).all().get().get(group);
                node.put("state", one.groupState().toString()).put("protocol", one.partitionAssignor());
                node.put("epoch", one.groupEpoch().orElse(null));
                node.put("assignmentEpoch", one.targetAssignmentEpoch().orElse(null));
                one.members().forEach(member -> member(members, member));
            } else {
                ClassicGroupDescription one = admin.describeClassicGroups(List.of(group)).all().get().get(group);
                node.put("state", one.state().toString()).put("protocol", one.protocolData());
                one.members().forEach(member -> member(members, member));
            }
            nodes.add(node);
        }
        return nodes;
    }

    static void member(ArrayNode members, MemberDescription member) {
        ObjectNode row = members.addObject();
        row.put("id", member.consumerId()).put("instance", member.groupInstanceId().orElse(null));
        row.put("clientId", member.clientId()).put("host", member.host());
        row.put("epoch", member.memberEpoch().orElse(null));
        assignment(row, member.assignment().topicPartitions());
    }

    static void assignment(ObjectNode row, Collection<TopicPartition> partitions) {
        ArrayNode list = row.putArray("assignment");
        partitions.forEach(one -> list.addArray().add(one.topic()).add(one.partition()));
    }

    /** groups. A line an offset that one of them committed: with the end of the log, as describe --offsets has it. */
    static void listOffsets(JsonNode command) throws Exception {
        Map<String, Object> properties = Client.at(command);
        // An old broker is asked for a coordinator after the other.
        properties.put("retry.backoff.ms", 1);
        try (Admin admin = Admin.create(properties)) {
            Map<String, Map<TopicPartition, OffsetAndMetadata>> found = new HashMap<>();
            for (JsonNode group : command.get("groups")) {
                found.put(group.asText(), admin.listConsumerGroupOffsets(group.asText()).partitionsToOffsetAndMetadata().get());
            }
            Map<TopicPartition, OffsetSpec> partitions = new HashMap<>();
            found.values().forEach(of -> of.keySet().forEach(partition -> partitions.put(partition, OffsetSpec.latest())));
            var ends = admin.listOffsets(partitions).all().get();
            found.forEach((group, of) -> of.forEach((partition, offset) -> {
                if (offset != null) {
                    Client.print(Client.JSON.createObjectNode().put("group", group)
                        .put("topic", partition.topic()).put("partition", partition.partition()).put("offset", offset.offset())
                        .put("leaderEpoch", offset.leaderEpoch().orElse(null)).put("metadata", offset.metadata())
                        .put("lag", ends.get(partition).offset() - offset.offset()));
                }
            }));
        }
    }

    /** A line a transactional id. */
    static void transactions(JsonNode command) throws Exception {
        try (Admin admin = Admin.create(Client.at(command))) {
            for (TransactionListing listing : admin.listTransactions().all().get()) {
                String id = listing.transactionalId();
                TransactionDescription one = admin.describeTransactions(List.of(id)).description(id).get();
                ObjectNode row = Client.JSON.createObjectNode().put("id", id).put("listedState", listing.state().toString());
                row.put("listedProducerId", listing.producerId()).put("producerId", one.producerId());
                row.put("epoch", one.producerEpoch()).put("state", one.state().toString());
                row.put("timeout", one.transactionTimeoutMs());
                row.put("started", one.transactionStartTimeMs().isPresent() ? (Long) one.transactionStartTimeMs().getAsLong() : null);
                assignment(row, one.topicPartitions());
                Client.print(row);
            }
        }
    }

    /** A line a producer of each partition of each topic, internal ones too. */
    static void producers(JsonNode command) throws Exception {
        try (Admin admin = Admin.create(Client.at(command))) {
            var names = admin.listTopics(new ListTopicsOptions().listInternal(true)).names().get();
            List<TopicPartition> partitions = new ArrayList<>();
            admin.describeTopics(names).allTopicNames().get().values().forEach(topic ->
                topic.partitions().forEach(one -> partitions.add(new TopicPartition(topic.name(), one.partition()))));
            for (var found : admin.describeProducers(partitions).all().get().entrySet()) {
                for (ProducerState one : found.getValue().activeProducers()) {
                    ObjectNode row = Client.JSON.createObjectNode();
                    row.put("topic", found.getKey().topic()).put("partition", found.getKey().partition());
                    row.put("producerId", one.producerId()).put("epoch", one.producerEpoch());
                    row.put("sequence", one.lastSequence()).put("timestamp", one.lastTimestamp());
                    row.put("coordinatorEpoch", one.coordinatorEpoch().isPresent() ? (Integer) one.coordinatorEpoch().getAsInt() : null);
                    row.put("start", one.currentTransactionStartOffset().isPresent()
                        ? (Long) one.currentTransactionStartOffset().getAsLong() : null);
                    Client.print(row);
                }
            }
        }
    }

    /** arguments, for kafka-consumer-groups.sh. A line: what it says. */
    static void consumerGroupTool(JsonNode command) {
        ByteArrayOutputStream said = new ByteArrayOutputStream();
        PrintStream before = System.out;
        System.setOut(new PrintStream(said, true, StandardCharsets.UTF_8));
        try {
            ConsumerGroupCommand.main(Tool.arguments(command));
        } finally {
            System.setOut(before);
        }
        Client.print(Client.JSON.createObjectNode().put("said", said.toString(StandardCharsets.UTF_8)));
    }

    /** arguments, for kafka-transactions.sh. A line: what it says. */
    static void transactionsTool(JsonNode command) throws Exception {
        ByteArrayOutputStream said = new ByteArrayOutputStream();
        // What `main` calls; `main` ends the process.
        Method execute = Class.forName("org.apache.kafka.tools.TransactionsCommand").getDeclaredMethod(
            "execute", String[].class, Function.class, PrintStream.class, Time.class);
        execute.setAccessible(true);
        Function<Object, Admin> admin = namespace -> Admin.create(Client.at(command));
        Exit.setExitProcedure((status, message) -> {
            if (status != 0) {
                throw new IllegalStateException(message);
            }
        });
        try {
            execute.invoke(null, Tool.arguments(command), admin, new PrintStream(said, true, StandardCharsets.UTF_8), Time.SYSTEM);
        } catch (InvocationTargetException error) {
            throw new IllegalStateException(error.getCause());
        } finally {
            Exit.resetExitProcedure();
        }
        Client.print(Client.JSON.createObjectNode().put("said", said.toString(StandardCharsets.UTF_8)));
    }
}
