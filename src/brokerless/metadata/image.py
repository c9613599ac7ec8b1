"""`MetadataImage`: the metadata of a cluster after a replay of its records, like Kafka's class of the same name.

Each subject (topics, configs, ...) replays the records that concern it, and becomes a table.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from brokerless.layout.setting_layers import dynamic_layers, layered
from brokerless.metadata.records import BROKER_RESOURCE, TOPIC_RESOURCE
from brokerless.metadata.schema import schema, structs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from brokerless.layout.topic_config import TopicConfig

_INTEGERS, _TEXTS = pa.list_(pa.int32()), pa.list_(pa.string())
_ENDPOINTS = structs(name=pa.string(), host=pa.string(), port=pa.int32(), security_protocol=pa.string())
SCHEMAS = {
    "brokers": schema(
        broker_id=pa.int32(),
        epoch=pa.int64(),
        incarnation_id=pa.string(),
        is_fenced=pa.bool_(),
        in_controlled_shutdown=pa.bool_(),
        rack=pa.string(),
        endpoints=_ENDPOINTS,
        log_dirs=_TEXTS,
    ),
    "controllers": schema(controller_id=pa.int32(), incarnation_id=pa.string(), endpoints=_ENDPOINTS),
    "topics": schema(topic=pa.string(), topic_id=pa.string(), partitions=pa.int32(), replication_factor=pa.int32()),
    "partitions": schema(
        topic=pa.string(),
        partition=pa.int32(),
        leader=pa.int32(),
        leader_epoch=pa.int32(),
        partition_epoch=pa.int32(),
        replicas=_INTEGERS,
        isr=_INTEGERS,
        elr=_INTEGERS,
        last_known_elr=_INTEGERS,
        adding_replicas=_INTEGERS,
        removing_replicas=_INTEGERS,
        directories=_TEXTS,
    ),
    "configs": schema(
        resource_type=pa.string(), resource=pa.string(), name=pa.string(), value=pa.string(), is_sensitive=pa.bool_()
    ),
    "acls": schema(
        id=pa.string(),
        resource_type=pa.string(),
        resource=pa.string(),
        pattern_type=pa.string(),
        principal=pa.string(),
        host=pa.string(),
        operation=pa.string(),
        permission=pa.string(),
    ),
    "quotas": schema(entity=structs(type=pa.string(), name=pa.string()), name=pa.string(), value=pa.float64()),
    "users": schema(
        user=pa.string(),
        mechanism=pa.string(),
        iterations=pa.int32(),
        salt=pa.string(),
        stored_key=pa.string(),
        server_key=pa.string(),
    ),
    "features": schema(feature=pa.string(), level=pa.int16()),
    "tokens": schema(
        token_id=pa.string(),
        owner=pa.string(),
        requester=pa.string(),
        renewers=_TEXTS,
        issued=pa.timestamp("ms", tz="UTC"),
        expires=pa.timestamp("ms", tz="UTC"),
        max_time=pa.timestamp("ms", tz="UTC"),
    ),
    "voters": schema(voter_id=pa.int32(), directory_id=pa.string(), is_leader=pa.bool_(), endpoints=_ENDPOINTS),
}
"""The tables, by subject."""

_CONFIG_RESOURCES = {2: "topic", 4: "broker", 8: "broker-logger", 16: "client-metrics", 32: "group"}
_ACL_RESOURCES = {2: "TOPIC", 3: "GROUP", 4: "CLUSTER", 5: "TRANSACTIONAL_ID", 6: "DELEGATION_TOKEN", 7: "USER"}
_PATTERNS = {1: "ANY", 2: "MATCH", 3: "LITERAL", 4: "PREFIXED"}
_OPERATIONS = dict(
    enumerate(
        (
            *("UNKNOWN", "ANY", "ALL", "READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "CLUSTER_ACTION"),
            *("DESCRIBE_CONFIGS", "ALTER_CONFIGS", "IDEMPOTENT_WRITE", "CREATE_TOKENS", "DESCRIBE_TOKENS"),
            "TWO_PHASE_COMMIT",
        )
    )
)
_PERMISSIONS = {2: "DENY", 3: "ALLOW"}
_MECHANISMS = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
_SECURITY_PROTOCOLS = {0: "PLAINTEXT", 1: "SSL", 2: "SASL_PLAINTEXT", 3: "SASL_SSL"}
SECRETS = ("salt", "stored_key", "server_key")
"""The columns of users that are shown only on request."""
_SENSITIVE = re.compile(
    r"password|secret|passphrase|credential|token|private|access\.key|jaas|(keystore|truststore)\.(key|cert)",
    re.IGNORECASE,
)
# As in Kafka, an unknown broker setting counts as sensitive, because plug-ins have their own settings.
_OF_BROKERS = re.compile(
    r"(listener\.name\.[^.]+\.)?(advertised|background|compression|connections?|controlled|controller|default|delete"
    r"|follower|group|leader|listeners?|log|max|message|metric|min|num|offsets|principal|producer|queued|quota|remote"
    r"|replica|sasl|share|socket|ssl|transaction|transactional|unclean)\b.*|auto\..*|broker\..*|request\..*"
)
# ConfigResource.Type: topics, client metrics, groups. Controllers refuse unknown settings of these.
_CHECKED = (2, 16, 32)
_NO_LEADER_CHANGE = -2
_NO_CHANGE = 0


class _RefusedError(Exception):
    """A controller would refuse a record, because it contradicts earlier records."""


class MetadataImage:
    """The metadata of a cluster. Each record changes it, in the order of the log.

    Args:
        secrets: whether tables show the salts and keys of SCRAM users, and the values of sensitive settings.

    Attributes:
        secrets: as given.
        offset: the offset after the last record; None if it is not known.
        time: the time of the last record in ms; None if it is not known.
        next_producer_id: the first producer id that the cluster has not allocated to a broker yet.
        is_whole: False if the last records are missing, or if a record is not understood. The metadata may then be
            outdated.
        left_out: by type, the number of ignored records. They have other fields than the type has now, as in the
            previews of KRaft (Kafka 2.8 to 3.2).
        unknown: by reason, the number of records that are not understood, such as those of later releases.
        refusal: the reason why a controller refuses a record, and so does not start; None if it accepts all records. If
            it refuses several records, this is the reason for the first.
    """

    def __init__(self, *, secrets: bool = False) -> None:
        self.secrets = secrets
        self.offset: int | None = None
        self.time: int | None = None
        self.next_producer_id = 0
        self.is_whole = True
        self.left_out: Counter[str] = Counter()
        self.unknown: Counter[str] = Counter()
        self.refusal: str | None = None
        self._brokers: dict[int, dict[str, Any]] = {}
        self._controllers: dict[int, dict[str, Any]] = {}
        # The topic names by id, and the ids by name.
        self._names: dict[str, str] = {}
        self._ids: dict[str, str] = {}
        self._partitions: dict[str, dict[int, dict[str, Any]]] = {}
        # By type and name of the resource.
        self._configs: dict[tuple[int, str], dict[str, str]] = {}
        self._acls: dict[str, dict[str, Any]] = {}
        self._quotas: dict[tuple[tuple[tuple[str, str | None], ...], str], float] = {}
        self._users: dict[tuple[str, int], dict[str, Any]] = {}
        self._features: dict[str, int] = {}
        self._tokens: dict[str, dict[str, Any]] = {}
        self._voters: dict[int, dict[str, Any]] = {}
        self._leader: int | None = None
        # The records of an open metadata transaction (KIP-868), which are applied when it ends.
        self._waiting: list[tuple[str, dict[str, Any], bytes]] | None = None

    def replay(self, name: str, value: dict[str, Any], record: bytes = b"") -> None:
        """Apply a record, given the name of its type and its fields as Kafka's JSON has them.

        Records of other types change nothing.

        Args:
            name: the name of the record's type.
            value: the record's fields.
            record: the record's bytes, for a subclass that keeps them (`replayed`).
        """
        if name == "BeginTransactionRecord":
            if self._waiting is not None:
                self._refuse(f"{name}: the transaction before it has no end")
            self._waiting = []
        elif name in ("AbortTransactionRecord", "EndTransactionRecord"):
            if self._waiting is None:
                self._refuse(f"{name}: no transaction is open")
            waiting, self._waiting = self._waiting or [], None
            for waited in waiting if name == "EndTransactionRecord" else ():
                self._apply(*waited)
        elif self._waiting is not None:
            self._waiting.append((name, value, record))
        else:
            self._apply(name, value, record)

    def replay_control(self, control_type: str, value: dict[str, Any]) -> None:
        """Apply a control record of the Raft layer, whose type has the name that dumps show."""
        if control_type == "KRAFT_VOTERS":
            self._voters = {
                voter["voterId"]: {
                    "voter_id": voter["voterId"],
                    "directory_id": voter["voterDirectoryId"],
                    "endpoints": _endpoints(voter["endpoints"]),
                }
                for voter in value["voters"]
            }
        elif control_type == "KRAFT_VERSION":
            self._features["kraft.version"] = value["kRaftVersion"]
        elif control_type == "LEADER_CHANGE":
            self._leader = value["leaderId"]
            if not any("endpoints" in voter for voter in self._voters.values()):
                self._voters = {voter["voterId"]: {"voter_id": voter["voterId"]} for voter in value["voters"]}

    @property
    def topic_ids(self) -> Mapping[str, str]:
        """The topic ids by name."""
        return MappingProxyType(self._ids)

    @property
    def topic_names(self) -> Mapping[str, str]:
        """The topic names by id."""
        return MappingProxyType(self._names)

    @property
    def registered(self) -> set[int]:
        """The nodes of all registered brokers."""
        return set(self._brokers)

    def broker(self, node_id: int) -> dict[str, Any] | None:
        """Return a registered broker as a row of the table `brokers`; None if it is not registered."""
        return self._brokers.get(node_id)

    @property
    def broker_configs(self) -> dict[str, dict[str, str]]:
        """The dynamic settings of brokers by id; those of "" apply to all brokers."""
        return {name: dict(configs) for (kind, name), configs in self._configs.items() if kind == BROKER_RESOURCE}

    def configs_of(self, topic: str) -> dict[str, str]:
        """Return the topic-level settings of a topic."""
        return dict(self._configs.get((TOPIC_RESOURCE, topic), {}))

    def settings_of(self, topic: str, node_id: int | None) -> TopicConfig:
        """Return the settings of a topic on a broker, each with its source: the topic, the broker or Kafka's default.

        Args:
            topic: the topic.
            node_id: the broker; None if not known, so that only the cluster-wide defaults apply.

        Raises:
            ValueError: a value is invalid.
        """
        config = layered(self.configs_of(topic), dynamic_layers(self.broker_configs, node_id))
        # If the end of the metadata is missing, the log's own files show whether the log is tiered.
        return config if self.is_whole else replace(config, remote_storage_enable=None)

    def partitions_of(self, topic: str) -> dict[int, dict[str, Any]]:
        """Return the partitions of a topic: `replicas`, `isr`, `leader`, `leader_epoch` and others, by number."""
        return self._partitions.get(self._ids.get(topic, ""), {})

    def table(self, subject: str, *, secrets: bool | None = None) -> pa.Table:
        """Return one of the tables of `SCHEMAS`. `secrets` overrides the attribute of the image.

        Raises:
            KeyError: there is no such subject.
        """
        return pa.Table.from_pylist(self.rows(subject, secrets=secrets), SCHEMAS[subject])

    def rows(self, subject: str, *, secrets: bool | None = None) -> list[dict[str, Any]]:
        """Return the rows of `table` as dicts, which may lack null columns."""
        shows = self.secrets if secrets is None else secrets
        rows = list(self._TABLES[subject](self))
        return rows if shows else list(map(_without_secrets, rows))

    def not_understood(self, why: str, record: bytes, *, is_of_new_type: bool, is_malformed: bool) -> None:  # noqa: ARG002 - an image that keeps records does
        """Handle a record of an unknown type or version.

        Args:
            why: what is unknown about the record, as text.
            record: the record's bytes.
            is_of_new_type: True if the record's type is not known. No known record depends on such a record, so
                `is_whole` stays.
            is_malformed: True if no release can have written the record.
        """
        if is_malformed:
            self._refuse(why)
        self.unknown[why] += 1
        self.is_whole &= is_of_new_type

    def replayed(self, name: str, value: dict[str, Any], record: bytes) -> None:
        """Handle an applied record, given as name, value and bytes. Subclasses override this method."""

    def _apply(self, name: str, value: dict[str, Any], record: bytes) -> None:
        self.replayed(name, value, record)
        replay = self._REPLAYS.get(name)
        if replay is not None:
            try:
                replay(self, value)
            except KeyError:
                self.left_out[name] += 1
            except _RefusedError as error:
                self._refuse(f"{name}: {error}")

    def _refuse(self, why: str) -> None:
        # The record may depend on records that are not understood.
        if self.refusal is None and not self.unknown and not self.left_out:
            self.refusal = why

    def _register_broker(self, value: dict[str, Any]) -> None:
        self._brokers[value["brokerId"]] = {
            "broker_id": value["brokerId"],
            "epoch": value["brokerEpoch"],
            "incarnation_id": value["incarnationId"],
            "is_fenced": value.get("fenced", True),
            "in_controlled_shutdown": value.get("inControlledShutdown", False),
            "rack": value["rack"],
            "endpoints": _endpoints(value["endPoints"]),
            "log_dirs": value.get("logDirs", []),
        }

    def _registered(self, broker_id: int, epoch: int) -> dict[str, Any]:
        """Return a broker, which must be registered with this broker epoch (`ClusterControlManager.replay`)."""
        broker = self._brokers.get(broker_id)
        if broker is None:
            raise _RefusedError(f"broker {broker_id} is not registered")
        if broker["epoch"] != epoch:
            raise _RefusedError(
                f"it has epoch {epoch} of broker {broker_id}, which registered with epoch {broker['epoch']}"
            )
        return broker

    def _unregister_broker(self, value: dict[str, Any]) -> None:
        self._registered(value["brokerId"], value["brokerEpoch"])
        del self._brokers[value["brokerId"]]

    def _change_broker(self, value: dict[str, Any]) -> None:
        broker = self._registered(value["brokerId"], value["brokerEpoch"])
        if value.get("fenced", _NO_CHANGE) != _NO_CHANGE:
            broker["is_fenced"] = value["fenced"] > 0
        if value.get("inControlledShutdown", _NO_CHANGE) != _NO_CHANGE:
            broker["in_controlled_shutdown"] = value["inControlledShutdown"] > 0
        if value.get("logDirs"):
            broker["log_dirs"] = value["logDirs"]

    def _fence_broker(self, value: dict[str, Any]) -> None:
        self._registered(value["id"], value["epoch"])["is_fenced"] = True

    def _unfence_broker(self, value: dict[str, Any]) -> None:
        self._registered(value["id"], value["epoch"])["is_fenced"] = False

    def _register_controller(self, value: dict[str, Any]) -> None:
        self._controllers[value["controllerId"]] = {
            "controller_id": value["controllerId"],
            "incarnation_id": value["incarnationId"],
            "endpoints": _endpoints(value["endPoints"]),
        }

    def _unregister_controller(self, value: dict[str, Any]) -> None:
        self._controllers.pop(value["controllerId"], None)

    def _create_topic(self, value: dict[str, Any]) -> None:
        if value["name"] in self._ids:
            raise _RefusedError(f"there is a topic {value['name']} already, with the id {self._ids[value['name']]}")
        self._names[value["topicId"]] = value["name"]
        self._ids[value["name"]] = value["topicId"]
        self._partitions.setdefault(value["topicId"], {})

    def _remove_topic(self, value: dict[str, Any]) -> None:
        name = self._name_of(value)
        del self._names[value["topicId"]], self._ids[name], self._partitions[value["topicId"]]
        # A new topic of the same name starts without settings (ConfigurationsDelta).
        self._configs.pop((TOPIC_RESOURCE, name), None)

    def _name_of(self, value: dict[str, Any]) -> str:
        """Return the name of a record's topic. Unknown ids are refused (`ReplicationControlManager.replay`)."""
        if value["topicId"] not in self._names:
            raise _RefusedError(f"there is no topic with the id {value['topicId']}")
        return self._names[value["topicId"]]

    def _create_partition(self, value: dict[str, Any]) -> None:
        self._name_of(value)
        self._partitions[value["topicId"]][value["partitionId"]] = {
            "leader": value["leader"],
            "leader_epoch": value["leaderEpoch"],
            "partition_epoch": value["partitionEpoch"],
            "replicas": value["replicas"],
            "isr": value["isr"],
            "elr": value.get("eligibleLeaderReplicas") or [],
            "last_known_elr": value.get("lastKnownElr") or [],
            "adding_replicas": value["addingReplicas"] or [],
            "removing_replicas": value["removingReplicas"] or [],
            "directories": value.get("directories") or [],
        }

    def _change_partition(self, value: dict[str, Any]) -> None:
        name = self._name_of(value)
        partition = self._partitions[value["topicId"]].get(value["partitionId"])
        if partition is None:
            raise _RefusedError(f"there is no partition {name}-{value['partitionId']}")
        for field, column in _CHANGES.items():
            if value.get(field) is not None:
                partition[column] = value[field]
        if value.get("leader", _NO_LEADER_CHANGE) != _NO_LEADER_CHANGE:
            partition["leader"] = value["leader"]
            partition["leader_epoch"] = _next(partition["leader_epoch"])
        partition["partition_epoch"] = _next(partition["partition_epoch"])

    def _clear_elr(self, value: dict[str, Any]) -> None:
        name = value["topicName"]
        # Without a name, the record applies to all topics.
        topics = [self._ids[name]] if name in self._ids else [] if name else self._partitions
        for topic_id in topics:
            for partition in self._partitions[topic_id].values():
                partition.update(elr=[], last_known_elr=[])

    def _configure(self, value: dict[str, Any]) -> None:
        configs = self._configs.setdefault((value["resourceType"], value["resourceName"]), {})
        if value["value"] is None:
            configs.pop(value["name"], None)
        else:
            configs[value["name"]] = value["value"]

    def _add_acl(self, value: dict[str, Any]) -> None:
        self._acls[value["id"]] = {
            "id": value["id"],
            "resource_type": _name(_ACL_RESOURCES, value["resourceType"]),
            "resource": value["resourceName"],
            "pattern_type": _name(_PATTERNS, value["patternType"]),
            "principal": value["principal"],
            "host": value["host"],
            "operation": _name(_OPERATIONS, value["operation"]),
            "permission": _name(_PERMISSIONS, value["permissionType"]),
        }

    def _remove_acl(self, value: dict[str, Any]) -> None:
        if self._acls.pop(value["id"], None) is None:
            raise _RefusedError(f"there is no access right with the id {value['id']}")

    def _set_quota(self, value: dict[str, Any]) -> None:
        entity = entity_of(value)
        if value["remove"]:
            self._quotas.pop((entity, value["key"]), None)
        else:
            # JSON has no number for infinity, so it is text there.
            self._quotas[entity, value["key"]] = float(value["value"])

    def _set_credential(self, value: dict[str, Any]) -> None:
        self._users[value["name"], value["mechanism"]] = value

    def _remove_credential(self, value: dict[str, Any]) -> None:
        if self._users.pop((value["name"], value["mechanism"]), None) is None:
            raise _RefusedError(f"user {value['name']} has no credential of this mechanism")

    def _set_feature(self, value: dict[str, Any]) -> None:
        if value["featureLevel"] == 0:
            self._features.pop(value["name"], None)
        else:
            self._features[value["name"]] = value["featureLevel"]

    def _add_token(self, value: dict[str, Any]) -> None:
        self._tokens[value["tokenId"]] = value

    def _remove_token(self, value: dict[str, Any]) -> None:
        self._tokens.pop(value["tokenId"], None)

    def _hand_out_producer_ids(self, value: dict[str, Any]) -> None:
        # The first block may begin at 0.
        if 0 < self.next_producer_id >= value["nextProducerId"]:
            raise _RefusedError(
                f"the next producer id is {value['nextProducerId']}, and was {self.next_producer_id} before"
            )
        self.next_producer_id = value["nextProducerId"]

    def _topic_rows(self) -> Iterable[dict[str, Any]]:
        for name, topic_id in sorted((name, topic_id) for topic_id, name in self._names.items()):
            partitions = self._partitions[topic_id]
            factors = {len(partition["replicas"]) for partition in partitions.values()}
            yield {
                "topic": name,
                "topic_id": topic_id,
                "partitions": len(partitions),
                "replication_factor": max(factors, default=0),
            }

    def _partition_rows(self) -> Iterable[dict[str, Any]]:
        for name, topic_id in sorted((name, topic_id) for topic_id, name in self._names.items()):
            for number, partition in sorted(self._partitions[topic_id].items()):
                yield {"topic": name, "partition": number, **partition}

    def _config_rows(self) -> Iterable[dict[str, Any]]:
        of_all = (
            (kind, resource, name, value)
            for (kind, resource), configs in self._configs.items()
            for name, value in configs.items()
        )
        for kind, resource, name, value in sorted(of_all):
            yield config_row(kind, resource, name, value)

    def _quota_rows(self) -> Iterable[dict[str, Any]]:
        def key(item: tuple[tuple[tuple[tuple[str, str | None], ...], str], float]) -> tuple[Any, ...]:
            return tuple((kind, name or "") for kind, name in item[0][0]), item[0][1]

        for (entity, name), value in sorted(self._quotas.items(), key=key):
            yield quota_row(entity, name, value)

    def _user_rows(self) -> Iterable[dict[str, Any]]:
        return [user_row(value) for _, value in sorted(self._users.items())]

    def _token_rows(self) -> Iterable[dict[str, Any]]:
        for token_id, value in sorted(self._tokens.items()):
            yield {
                "token_id": token_id,
                "owner": value["owner"],
                "requester": value.get("requester"),
                "renewers": value["renewers"],
                "issued": value["issueTimestamp"],
                "expires": value["expirationTimestamp"],
                "max_time": value["maxTimestamp"],
            }

    def _voter_rows(self) -> Iterable[dict[str, Any]]:
        for voter_id, voter in sorted(self._voters.items()):
            yield {**voter, "is_leader": None if self._leader is None else voter_id == self._leader}

    def _broker_rows(self) -> Iterable[dict[str, Any]]:
        return [row for _, row in sorted(self._brokers.items())]

    def _controller_rows(self) -> Iterable[dict[str, Any]]:
        return [row for _, row in sorted(self._controllers.items())]

    def _acl_rows(self) -> Iterable[dict[str, Any]]:
        return sorted(self._acls.values(), key=lambda acl: [str(acl[column]) for column in SCHEMAS["acls"].names[1:]])

    def _feature_rows(self) -> Iterable[dict[str, Any]]:
        return [{"feature": name, "level": level} for name, level in sorted(self._features.items())]

    _REPLAYS: ClassVar[dict[str, Callable[[MetadataImage, dict[str, Any]], None]]] = {
        "RegisterBrokerRecord": _register_broker,
        "UnregisterBrokerRecord": _unregister_broker,
        "BrokerRegistrationChangeRecord": _change_broker,
        "FenceBrokerRecord": _fence_broker,
        "UnfenceBrokerRecord": _unfence_broker,
        "RegisterControllerRecord": _register_controller,
        "UnregisterControllerRecord": _unregister_controller,
        "TopicRecord": _create_topic,
        "RemoveTopicRecord": _remove_topic,
        "PartitionRecord": _create_partition,
        "PartitionChangeRecord": _change_partition,
        "ClearElrRecord": _clear_elr,
        "ConfigRecord": _configure,
        "AccessControlEntryRecord": _add_acl,
        "RemoveAccessControlEntryRecord": _remove_acl,
        "ClientQuotaRecord": _set_quota,
        "UserScramCredentialRecord": _set_credential,
        "RemoveUserScramCredentialRecord": _remove_credential,
        "FeatureLevelRecord": _set_feature,
        "DelegationTokenRecord": _add_token,
        "RemoveDelegationTokenRecord": _remove_token,
        "ProducerIdsRecord": _hand_out_producer_ids,
    }
    _TABLES: ClassVar[dict[str, Callable[[MetadataImage], Iterable[dict[str, Any]]]]] = {
        "brokers": _broker_rows,
        "controllers": _controller_rows,
        "topics": _topic_rows,
        "partitions": _partition_rows,
        "configs": _config_rows,
        "acls": _acl_rows,
        "quotas": _quota_rows,
        "users": _user_rows,
        "features": _feature_rows,
        "tokens": _token_rows,
        "voters": _voter_rows,
    }


def _endpoints(endpoints: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {
            "name": one["name"],
            "host": one["host"],
            "port": one["port"],
            "security_protocol": (
                _name(_SECURITY_PROTOCOLS, one["securityProtocol"]) if "securityProtocol" in one else None
            ),
        }
        for one in endpoints
    ]


def config_row(kind: int, resource: str, name: str, value: str) -> dict[str, Any]:
    """Return a setting as a row of the table `configs`."""
    is_sensitive = bool(_SENSITIVE.search(name)) or (kind not in _CHECKED and not _OF_BROKERS.fullmatch(name))
    return {
        "resource_type": _name(_CONFIG_RESOURCES, kind),
        "resource": resource,
        "name": name,
        "value": value,
        "is_sensitive": is_sensitive,
    }


def user_row(value: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a UserScramCredentialRecord as a row of the table `users`."""
    return {
        "user": value["name"],
        "mechanism": _name(_MECHANISMS, value["mechanism"]),
        "iterations": value["iterations"],
        "salt": value["salt"],
        "stored_key": value["storedKey"],
        "server_key": value["serverKey"],
    }


def entity_of(value: dict[str, Any]) -> tuple[tuple[str, str | None], ...]:
    """Return the types and names of the entity of a ClientQuotaRecord."""
    parts = {one["entityType"]: one["entityName"] for one in value["entity"]}
    return tuple(sorted(parts.items(), key=lambda part: part[0]))


def quota_row(entity: Iterable[tuple[str, str | None]], name: str, value: float) -> dict[str, Any]:
    """Return a quota as a row of the table `quotas`."""
    return {"entity": [{"type": kind, "name": who} for kind, who in entity], "name": name, "value": value}


def _without_secrets(row: dict[str, Any]) -> dict[str, Any]:
    hidden = (*SECRETS, "value") if row.get("is_sensitive") else SECRETS
    return {column: None if column in hidden else value for column, value in row.items()}


def _next(epoch: int) -> int:
    """Return the next int32. As in Java, the lowest int32 follows the highest."""
    return epoch + 1 if epoch < (1 << 31) - 1 else -(1 << 31)


def _name(names: dict[int, str], number: int) -> str:
    return names.get(number, str(number))


# The fields of a PartitionChangeRecord that replace a column if they are not null.
_CHANGES = {
    "isr": "isr",
    "replicas": "replicas",
    "removingReplicas": "removing_replicas",
    "addingReplicas": "adding_replicas",
    "eligibleLeaderReplicas": "elr",
    "lastKnownElr": "last_known_elr",
    "directories": "directories",
}
