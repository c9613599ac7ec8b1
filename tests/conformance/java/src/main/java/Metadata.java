import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ListTopicsOptions;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.QuorumInfo;
import org.apache.kafka.clients.admin.ScramCredentialInfo;
import org.apache.kafka.clients.admin.ScramMechanism;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.admin.UserScramCredentialAlteration;
import org.apache.kafka.clients.admin.UserScramCredentialDeletion;
import org.apache.kafka.clients.admin.UserScramCredentialsDescription;
import org.apache.kafka.clients.admin.UserScramCredentialUpsertion;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;

/** Commands of `Client` that change the metadata of a cluster, and ask the controllers what they know. */
class Metadata {
    static void change(JsonNode command) throws Exception {
        try (Admin admin = Admin.create(Client.at(command))) {
            if (command.has("acls")) {
                List<AclBinding> acls = new ArrayList<>();
                command.get("acls").forEach(acl -> acls.add(binding(acl)));
                admin.createAcls(acls).all().get();
            }
            if (command.has("removedAcls")) {
                List<AclBindingFilter> filters = new ArrayList<>();
                command.get("removedAcls").forEach(acl -> filters.add(binding(acl).toFilter()));
                admin.deleteAcls(filters).all().get();
            }
            if (command.has("quotas")) {
                List<ClientQuotaAlteration> quotas = new ArrayList<>();
                for (JsonNode quota : command.get("quotas")) {
                    Map<String, String> entity = new HashMap<>();
                    quota.get("entity").fields().forEachRemaining(part -> entity.put(part.getKey(), text(part.getValue())));
                    Double value = quota.get("value").isNull() ? null : quota.get("value").asDouble();
                    quotas.add(
                            new ClientQuotaAlteration(
                                    new ClientQuotaEntity(entity),
                                    List.of(new ClientQuotaAlteration.Op(quota.get("name").asText(), value))));
                }
                admin.alterClientQuotas(quotas).all().get();
            }
            if (command.has("users")) {
                List<UserScramCredentialAlteration> users = new ArrayList<>();
                for (JsonNode user : command.get("users")) {
                    ScramMechanism mechanism = ScramMechanism.fromMechanismName(user.get("mechanism").asText());
                    users.add(
                            user.has("iterations")
                                    ? new UserScramCredentialUpsertion(
                                            user.get("user").asText(),
                                            new ScramCredentialInfo(mechanism, user.get("iterations").asInt()),
                                            "password")
                                    : new UserScramCredentialDeletion(user.get("user").asText(), mechanism));
                }
                admin.alterUserScramCredentials(users).all().get();
            }
            if (command.has("configs")) {
                Map<ConfigResource, Collection<AlterConfigOp>> configs = new HashMap<>();
                for (JsonNode config : command.get("configs")) {
                    ConfigResource.Type type = ConfigResource.Type.valueOf(config.get("type").asText());
                    boolean isRemoved = config.get("value").isNull();
                    configs.computeIfAbsent(
                                    new ConfigResource(type, config.get("resource").asText()), of -> new ArrayList<>())
                            .add(
                                    new AlterConfigOp(
                                            new ConfigEntry(config.get("name").asText(), text(config.get("value"))),
                                            isRemoved ? AlterConfigOp.OpType.DELETE : AlterConfigOp.OpType.SET));
                }
                admin.incrementalAlterConfigs(configs).all().get();
            }
            if (command.has("partitions")) {
                Map<String, NewPartitions> partitions = new HashMap<>();
                command.get("partitions")
                        .fields()
                        .forEachRemaining(
                                topic -> partitions.put(topic.getKey(), NewPartitions.increaseTo(topic.getValue().asInt())));
                admin.createPartitions(partitions).all().get();
            }
            if (command.has("deletedTopics")) {
                List<String> topics = new ArrayList<>();
                command.get("deletedTopics").forEach(topic -> topics.add(topic.asText()));
                admin.deleteTopics(topics).all().get();
            }
        }
    }

    static AclBinding binding(JsonNode acl) {
        return new AclBinding(
                new ResourcePattern(
                        ResourceType.fromString(acl.get("resource_type").asText()),
                        acl.get("resource").asText(),
                        PatternType.fromString(acl.get("pattern_type").asText())),
                new AccessControlEntry(
                        acl.get("principal").asText(),
                        acl.get("host").asText(),
                        AclOperation.fromString(acl.get("operation").asText()),
                        AclPermissionType.fromString(acl.get("permission").asText())));
    }

    static void ask(JsonNode command) throws Exception {
        try (Admin admin = Admin.create(Client.at(command))) {
            for (AclBinding acl : admin.describeAcls(AclBindingFilter.ANY).values().get()) {
                row("acls")
                        .put("resource_type", acl.pattern().resourceType().name())
                        .put("resource", acl.pattern().name())
                        .put("pattern_type", acl.pattern().patternType().name())
                        .put("principal", acl.entry().principal())
                        .put("host", acl.entry().host())
                        .put("operation", acl.entry().operation().name())
                        .put("permission", acl.entry().permissionType().name());
                print();
            }
            admin.describeClientQuotas(ClientQuotaFilter.all())
                    .entities()
                    .get()
                    .forEach(
                            (entity, quotas) ->
                                    quotas.forEach(
                                            (name, value) -> {
                                                ObjectNode parts = row("quotas").putObject("entity");
                                                entity.entries().forEach(parts::put);
                                                row.put("name", name).put("value", value);
                                                print();
                                            }));
            for (UserScramCredentialsDescription user : admin.describeUserScramCredentials().all().get().values()) {
                for (ScramCredentialInfo info : user.credentialInfos()) {
                    row("users")
                            .put("user", user.name())
                            .put("mechanism", info.mechanism().mechanismName())
                            .put("iterations", info.iterations());
                    print();
                }
            }
            admin.describeFeatures()
                    .featureMetadata()
                    .get()
                    .finalizedFeatures()
                    .forEach(
                            (name, levels) -> {
                                row("features").put("feature", name).put("level", levels.maxVersionLevel());
                                print();
                            });
            Collection<String> names = admin.listTopics(new ListTopicsOptions().listInternal(true)).names().get();
            for (TopicDescription topic : admin.describeTopics(names).allTopicNames().get().values()) {
                row("topics").put("topic", topic.name()).put("topic_id", topic.topicId().toString());
                row.put("partitions", topic.partitions().size());
                print();
                for (TopicPartitionInfo partition : topic.partitions()) {
                    row("partitions").put("topic", topic.name()).put("partition", partition.partition());
                    row.put("leader", partition.leader() == null ? -1 : partition.leader().id());
                    ids(row.putArray("replicas"), partition.replicas());
                    ids(row.putArray("isr"), partition.isr());
                    ids(row.putArray("elr"), partition.elr() == null ? List.of() : partition.elr());
                    ids(row.putArray("last_known_elr"), partition.lastKnownElr() == null ? List.of() : partition.lastKnownElr());
                    print();
                }
            }
            List<ConfigResource> resources = new ArrayList<>();
            names.forEach(name -> resources.add(new ConfigResource(ConfigResource.Type.TOPIC, name)));
            resources.add(new ConfigResource(ConfigResource.Type.BROKER, "1"));
            resources.add(new ConfigResource(ConfigResource.Type.BROKER, ""));
            admin.describeConfigs(resources)
                    .all()
                    .get()
                    .forEach((resource, config) -> config.entries().forEach(entry -> dynamic(resource, entry)));
            QuorumInfo quorum = admin.describeMetadataQuorum().quorumInfo().get();
            for (QuorumInfo.ReplicaState voter : quorum.voters()) {
                row("voters").put("voter_id", voter.replicaId());
                row.put("is_leader", voter.replicaId() == quorum.leaderId());
                print();
            }
            for (Node node : admin.describeCluster().nodes().get()) {
                row("brokers").put("broker_id", node.id()).put("host", node.host()).put("port", node.port());
                print();
            }
        }
    }

    /** A setting that the metadata have: of this resource, not of one that it falls back to. */
    static void dynamic(ConfigResource resource, ConfigEntry entry) {
        boolean isOfTopic = resource.type() == ConfigResource.Type.TOPIC;
        Optional<ConfigEntry.ConfigSource> source =
                switch (entry.source()) {
                    case DYNAMIC_TOPIC_CONFIG -> Optional.of(entry.source()).filter(of -> isOfTopic);
                    case DYNAMIC_BROKER_CONFIG ->
                            Optional.of(entry.source()).filter(of -> !isOfTopic && !resource.name().isEmpty());
                    case DYNAMIC_DEFAULT_BROKER_CONFIG ->
                            Optional.of(entry.source()).filter(of -> !isOfTopic && resource.name().isEmpty());
                    default -> Optional.empty();
                };
        if (source.isPresent()) {
            row("configs").put("resource_type", isOfTopic ? "topic" : "broker").put("resource", resource.name());
            row.put("name", entry.name()).put("value", entry.value()).put("is_sensitive", entry.isSensitive());
            print();
        }
    }

    static ObjectNode row;

    static ObjectNode row(String subject) {
        row = Client.JSON.createObjectNode().put("subject", subject);
        return row;
    }

    static void print() {
        Client.print(row);
    }

    static void ids(ArrayNode array, Collection<Node> nodes) {
        nodes.forEach(node -> array.add(node.id()));
    }

    static String text(JsonNode node) {
        return node.isNull() ? null : node.asText();
    }
}
