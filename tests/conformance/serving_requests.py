"""Requests for a broker and for our server on its directory: chains of them, for each API and each version.

A chain is a name and steps. A step may use the answers to the steps before it: a session's id, a member's id.
"""

import itertools
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

NIL = "AAAAAAAAAAAAAAAAAAAAAA"
UNKNOWN_ID = "AAAAAAAAAAAAAAAAAAAAaw"
LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, PENDING_UPLOAD = -1, -2, -3, -4, -5, -6
UNCOMMITTED, COMMITTED = 0, 1
TOPIC, BROKER, GROUP = 2, 4, 32
MANY = 1 << 20
# "CAE=" and so on: what a client writes for the assignors "range" and "roundrobin" is bytes for a broker.
WISHES = {"base64": "AAEAAAABAAVwbGFpbgAAAAA="}


class Step(NamedTuple):
    """A request, and the version of the API in which it is sent.

    Attributes:
        body: its fields, or what makes them of the answers to the steps before.
        connection: its name; a new name is a new connection.
        more: further arguments of the wire.
        of: what it asks for, where answers to the same API differ in other ways.
    """

    api: str
    version: int
    body: dict[str, Any] | Callable[[list[dict[str, Any]]], dict[str, Any]]
    connection: str = ""
    more: Mapping[str, Any] = MappingProxyType({})
    of: str = ""

    def made_of(self, earlier):
        """Return the body, for a server that answered this to the steps before."""
        return self.body(earlier) if callable(self.body) else self.body

    @property
    def answer(self):
        """What docs/serving.md calls the answer."""
        return f"{self.api} {self.of}".strip()


class Facts(NamedTuple):
    """What is known of the topics before.

    Attributes:
        ids: by name.
        epochs: the leader epoch, by topic and partition.
        starts, ends, stable_ends: offsets, by topic and partition.
        versions: of each API that both servers have: the first and the last version.
        times: the timestamp of the first and of the last record, by topic and partition.
    """

    ids: dict[str, str]
    epochs: dict[tuple[str, int], int]
    starts: dict[tuple[str, int], int]
    ends: dict[tuple[str, int], int]
    stable_ends: dict[tuple[str, int], int]
    versions: dict[str, tuple[int, int]]
    times: dict[tuple[str, int], tuple[int, int]]

    def of(self, api, since=0, until=99):
        """Return the versions of an API that both servers have, from one to another."""
        first, last = self.versions[api]
        return range(max(first, since), min(last, until) + 1)


def chains(facts):
    """Yield all chains: a name and steps."""
    for make in (api_versions, metadata, cluster, topic_partitions, configs, offsets, epochs, fetches, sessions):
        yield from make(facts)
    for make in (coordinators, committed, groups, members, beats, syncs, leaves, commits, sasl):
        yield from make(facts)


def single(name, api, versions, body, of=""):
    """Yield a chain of one request for each version; `body` may take the version."""
    for version in versions:
        made = body(version) if callable(body) else body
        yield f"{name}, {api} {version}", [Step(api, version, made, of=of)]


def api_versions(facts):
    software = {"clientSoftwareName": "wire", "clientSoftwareVersion": "1.0"}
    yield from single("all", "ApiVersions", facts.of("ApiVersions"), software)
    yield from single("a bad name", "ApiVersions", facts.of("ApiVersions", 3), {"clientSoftwareName": "-"})
    meant = Step("DescribeCluster", 0, {})
    for version in facts.of("ApiVersions", 5):
        for name, of_meant in {
            "this broker": lambda cluster: (cluster["clusterId"], cluster["controllerId"]),
            "another node": lambda cluster: (cluster["clusterId"], 77),
            "another cluster": lambda cluster: ("another", cluster["controllerId"]),
            "no cluster": lambda cluster: (None, cluster["controllerId"]),
            "no node": lambda cluster: (cluster["clusterId"], -1),
            "any broker": lambda cluster: (None, -1),
        }.items():

            def body(got, of_meant=of_meant):
                cluster_id, node_id = of_meant(got[0])
                return software | {"clusterId": cluster_id, "nodeId": node_id}

            yield f"a client of {name}, ApiVersions {version}", [meant, Step("ApiVersions", version, body)]
    unknown = Step("ApiVersions", 3, software, more={"sentVersion": 99, "answerVersion": 0})
    yield "a version of the future", [unknown]


def metadata(facts):
    def named(*names, **more):
        return {"topics": [{"name": name, "topicId": NIL} for name in names], **more}

    def by_id(*ids):
        return {"topics": [{"name": None, "topicId": one} for one in ids], "allowAutoTopicCreation": False}

    api, plain = "Metadata", facts.ids["plain"]
    yield from single("all topics", api, facts.of(api), lambda version: {"topics": None if version else []})
    yield from single("no topics", api, facts.of(api, 1), named())
    yield from single("two topics", api, facts.of(api), named("transactions", "plain"))

    def without_creation(name):
        return lambda version: named(name, **({"allowAutoTopicCreation": False} if version >= 4 else {}))

    yield from single("a topic that is not there", api, facts.of(api), without_creation("missing"))
    yield from single("a bad name", api, facts.of(api), without_creation("a/b"))
    yield from single("an internal topic", api, facts.of(api), named("__consumer_offsets"))
    yield from single("the same topic twice", api, facts.of(api, 4), named("plain", "plain"))
    yield from single("topics by id", api, facts.of(api, 12), by_id(plain, UNKNOWN_ID))
    yield from single("a name and an id", api, facts.of(api, 12), {"topics": [{"name": "plain", "topicId": plain}]})
    operations = {"includeTopicAuthorizedOperations": True, "includeClusterAuthorizedOperations": True}
    yield from single("authorized operations", api, facts.of(api, 8, 10), named("plain", **operations))


def cluster(facts):
    api = "DescribeCluster"
    yield from single("the cluster", api, facts.of(api), {})
    yield from single("the cluster's operations", api, facts.of(api), {"includeClusterAuthorizedOperations": True})
    yield from single("the controllers", api, facts.of(api, 1), {"endpointType": 2})
    yield from single("a bad type", api, facts.of(api, 1), {"endpointType": 9})
    yield from single("fenced brokers", api, facts.of(api, 2), {"includeFencedBrokers": True})


def topic_partitions(facts):
    def asked(*names, limit=2000, cursor=None):
        cursor = cursor and {"topicName": cursor[0], "partitionIndex": cursor[1]}
        return {"topics": [{"name": name} for name in names], "responsePartitionLimit": limit, "cursor": cursor}

    cases = {
        "all": asked(),
        "some": asked("transactions", "plain", "missing"),
        "twice": asked("plain", "plain"),
        "with a limit": asked(limit=2),
        "with a limit in a topic": asked("configured", "plain", "transactions", limit=3),
        "with a limit of 0": asked("plain", limit=0),
        "with a negative limit": asked("plain", limit=-1),
        "from a partition": asked("configured", "plain", "transactions", cursor=("plain", 1)),
        "from a topic": asked(cursor=("plain", 0)),
        "from a partition that is not there": asked("plain", cursor=("plain", 7)),
        "from a negative partition": asked("plain", cursor=("plain", -1)),
        "from a topic that is not there": asked("plain", "zoo", cursor=("missing", 0)),
        "from a topic behind all": asked("plain", cursor=("zzz", 0)),
    }
    for name, body in cases.items():
        yield from single(name, "DescribeTopicPartitions", facts.of("DescribeTopicPartitions"), body)


def configs(facts):
    def resource(kind, name, keys=None):
        return {"resourceType": kind, "resourceName": name, "configurationKeys": keys}

    keys = ["retention.ms", "cleanup.policy", "message.timestamp.type", "no.such.key"]
    cases = {
        "a topic": [resource(TOPIC, "configured")],
        "a topic without settings": [resource(TOPIC, "plain")],
        "some keys": [resource(TOPIC, "configured", keys)],
        "no keys": [resource(TOPIC, "configured", [])],
        "topics": [resource(TOPIC, "configured", keys), resource(TOPIC, "missing"), resource(TOPIC, "compacted", keys)],
        "a bad name": [resource(TOPIC, "a/b")],
        "an empty name": [resource(TOPIC, "")],
        "an internal topic": [resource(TOPIC, "__consumer_offsets", ["cleanup.policy", "segment.bytes"])],
        "a broker": [resource(BROKER, "1", ["log.retention.hours", "broker.id"])],
        "all brokers": [resource(BROKER, "")],
        "another broker": [resource(BROKER, "77")],
        "a broker that is no number": [resource(BROKER, "x")],
        "a bad type": [resource(1, "x")],
        "a group": [resource(GROUP, "g")],
    }
    api = "DescribeConfigs"
    for name, resources in cases.items():
        of = "of a broker" if name.endswith(("broker", "brokers")) else ""
        of = "of a group" if resources[0]["resourceType"] == GROUP else of
        yield from single(f"configs of {name}", api, facts.of(api), {"resources": resources}, of)
    wanted = {"resources": cases["some keys"]}
    yield from single("synonyms", api, facts.of(api), wanted | {"includeSynonyms": True})
    yield from single("documentation", api, facts.of(api, 3), wanted | {"includeDocumentation": True})


def offsets(facts):
    def asked(topic, partition, *timestamps, epoch=-1, level=UNCOMMITTED):
        return {
            "replicaId": -1,
            **({"isolationLevel": level} if level else {}),
            "topics": [
                {
                    "name": topic,
                    "partitions": [{"partitionIndex": partition, "currentLeaderEpoch": epoch, "timestamp": timestamp}],
                }
                for timestamp in timestamps
            ],
        }

    api = "ListOffsets"
    special = {
        "latest": (LATEST, 1),
        "earliest": (EARLIEST, 1),
        "max timestamp": (MAX_TIMESTAMP, 7),
        "earliest local": (EARLIEST_LOCAL, 8),
        "latest tiered": (LATEST_TIERED, 9),
        "pending upload": (PENDING_UPLOAD, 11),
        "max timestamp, too early": (MAX_TIMESTAMP, 1),
        "earliest local, too early": (EARLIEST_LOCAL, 1),
        "no such time": (-7, 1),
    }
    partitions = [("plain", 0), ("transactions", 0), ("compacted", 0), ("deleted", 0), ("empty", 0)]
    for (name, (timestamp, since)), (topic, number) in itertools.product(special.items(), partitions):
        versions = facts.of(api, since) if topic in ("plain", "transactions") else facts.of(api, since)[-1:]
        for level in (UNCOMMITTED, COMMITTED):
            body = asked(topic, number, timestamp, level=level)
            of_level = [version for version in versions if version >= 2 * level]
            yield from single(f"{name} of {topic} at level {level}", api, of_level, body)
    for topic, number in partitions[:-1]:
        first, last = facts.times[topic, number]
        times = {
            "long before": 1,
            "at the first": first,
            "within": (first + last) // 2,
            "at the last": last,
            "behind": last + 1,
        }
        for name, timestamp in times.items():
            versions = facts.of(api) if topic == "plain" else facts.of(api)[-1:]
            for level in (UNCOMMITTED, COMMITTED):
                body = asked(topic, number, timestamp, level=level)
                of_level = [version for version in versions if version >= 2 * level]
                yield from single(f"a time {name} of {topic} at level {level}", api, of_level, body)
    yield from single("no such partition", api, facts.of(api), asked("plain", 99, LATEST))
    yield from single("no such topic", api, facts.of(api), asked("missing", 0, LATEST))
    yield from single("a negative partition", api, facts.of(api), asked("plain", -1, LATEST))
    yield from single("an old leader", api, facts.of(api, 4), asked("plain", 0, LATEST, epoch=0))
    now = facts.epochs["plain", 0]
    yield from single("the leader", api, facts.of(api, 4), asked("plain", 0, LATEST, epoch=now))
    yield from single("a future leader", api, facts.of(api, 4), asked("plain", 0, LATEST, epoch=now + 1))
    yield from single("the same partition twice", api, facts.of(api), asked("plain", 0, LATEST, EARLIEST))


def epochs(facts):
    def asked(topic, partition, epoch, current=-1, replica=-1):
        one = {"partition": partition, "currentLeaderEpoch": current, "leaderEpoch": epoch}
        return {"replicaId": replica, "topics": [{"topic": topic, "partitions": [one]}]}

    api = "OffsetForLeaderEpoch"
    for topic in ("plain", "transactions", "compacted", "empty", "deleted"):
        now = facts.epochs[topic, 0]
        for epoch in (-1, *range(now + 2)):
            yield from single(f"the end of epoch {epoch} of {topic}", api, facts.of(api), asked(topic, 0, epoch))
        yield from single(f"an old leader of {topic}", api, facts.of(api), asked(topic, 0, now, max(0, now - 1)))
        yield from single(f"the leader of {topic}", api, facts.of(api), asked(topic, 0, now, now))
        yield from single(f"a future leader of {topic}", api, facts.of(api), asked(topic, 0, now, now + 1))
    yield from single("no such partition", api, facts.of(api), asked("plain", 99, 0))
    yield from single("no such topic", api, facts.of(api), asked("missing", 0, 0))


def fetch(facts, *wanted, version=18, level=UNCOMMITTED, session=(0, -1), forgotten=(), **more):
    """Return the body of a Fetch. Each of `wanted` is a topic (or an id), a partition, an offset and more fields."""
    topics = []
    for topic, group in itertools.groupby(wanted, lambda one: one[0]):
        found = {"topic": topic, "topicId": facts.ids.get(topic, UNKNOWN_ID), "partitions": []}
        for _, partition, offset, *fields in group:
            one = {
                "partition": partition,
                "currentLeaderEpoch": -1,
                "fetchOffset": offset,
                "lastFetchedEpoch": -1,
                "logStartOffset": -1,
                "partitionMaxBytes": MANY,
            }
            one |= fields[0] if fields else {}
            found["partitions"].append(one)
        topics.append(found)
    body = {
        "maxWaitMs": 0,
        "minBytes": 0,
        "maxBytes": MANY,
        "isolationLevel": level,
        "sessionId": session[0],
        "sessionEpoch": session[1],
        "topics": topics,
        "forgottenTopicsData": [
            {"topic": topic, "topicId": facts.ids[topic], "partitions": [partition]} for topic, partition in forgotten
        ],
        "rackId": "",
    }
    return body | ({"replicaId": -1} if version < 15 else {}) | more


def fetches(facts):
    api, now = "Fetch", facts.epochs["plain", 0]
    end = facts.ends["plain", 0]
    middle = (facts.starts["plain", 0] + end) // 2
    small = {"partitionMaxBytes": 1}

    def case(name, *wanted, since=4, **more):
        def body(version):
            return fetch(facts, *wanted, version=version, **more)

        return single(name, api, facts.of(api, since), body)

    yield from case("from the start", ("plain", 0, facts.starts["plain", 0]))
    yield from case("from the middle", ("plain", 0, middle))
    yield from case("from the last record", ("plain", 0, end - 1))
    yield from case("from the end", ("plain", 0, end))
    yield from case("behind the end", ("plain", 0, end + 1))
    yield from case("before the start", ("deleted", 0, 0))
    yield from case("a negative offset", ("plain", 0, -1))
    yield from case("a start within a batch", ("deleted", 0, facts.starts["deleted", 0]))
    yield from case("of one byte", ("plain", 0, middle), maxBytes=1)
    yield from case("of no bytes", ("plain", 0, middle), maxBytes=0)
    yield from case("of one byte of a partition", ("plain", 0, middle, small))
    yield from case("of three partitions", *(("plain", number, 0) for number in range(3)))
    yield from case("of one byte of each", *(("plain", number, 0, small) for number in range(3)))
    yield from case("of one byte of all", *(("plain", number, 0) for number in range(3)), maxBytes=1)
    yield from case("of a few batches", *(("plain", number, 0) for number in range(3)), maxBytes=1000)
    yield from case("of two topics", ("plain", 0, middle), ("transactions", 0, 0), ("plain", 1, 0))
    yield from case("of a compacted topic", ("compacted", 0, 0))
    yield from case("of a compacted topic's end", ("compacted", 0, facts.ends["compacted", 0] - 2))
    yield from case("of nothing", ("empty", 0, 0))
    yield from case("of an internal topic", ("__consumer_offsets", 0, 0))
    yield from case("with a wait", ("plain", 0, end), maxWaitMs=50, minBytes=1)
    yield from case("with a wait for much", ("plain", 0, middle), maxWaitMs=50, minBytes=MANY)
    yield from case("with an error and a wait", ("plain", 99, 0), ("plain", 0, end), maxWaitMs=200, minBytes=1)
    yield from case("no such partition", ("plain", 99, 0), ("plain", 0, middle))
    yield from case("no such topic", ("missing", 0, 0), ("plain", 0, middle))
    yield from case("the same partition twice", ("plain", 0, 0), ("plain", 0, middle))
    for level in (UNCOMMITTED, COMMITTED):
        stable = facts.stable_ends["transactions", 0]
        for offset in (*range(0, stable, 7), stable, facts.ends["transactions", 0]):
            since = 4 if offset in (0, stable) else 18
            name = f"transactions at level {level} from {offset}"
            yield from case(name, ("transactions", 0, offset), since=since, level=level)
            yield from case(f"one byte of {name}", ("transactions", 0, offset), since=18, level=level, maxBytes=1)
    leaders = {"an old leader": 0, "the leader": now, "a future leader": now + 1}
    for name, epoch in leaders.items():
        yield from case(name, ("plain", 0, middle, {"currentLeaderEpoch": epoch}), since=9)
    for epoch in (-1, *range(now + 2)):
        for offset in (middle, end, end + 5):
            wanted = ("plain", 0, offset, {"lastFetchedEpoch": epoch})
            yield from case(f"after epoch {epoch} at {offset}", wanted, since=12)
    yield from case("a wrong cluster", ("plain", 0, 0), since=12, clusterId="another")


def sessions(facts):
    end = facts.ends["plain", 0]
    both = ("plain", 0, end), ("transactions", 0, facts.ends["transactions", 0])

    for version in facts.of("Fetch", 7):

        def step(*wanted, connection="", made_of=0, epoch=0, session=None, version=version, **more):
            def body(answers):
                number = answers[made_of]["sessionId"] if session is None and answers else session or 0
                return fetch(facts, *wanted, version=version, session=(number, epoch), **more)

            return Step("Fetch", version, body, connection)

        yield (
            f"a session, Fetch {version}",
            [
                step(*both),
                step(epoch=1),
                step(("plain", 0, end - 1), epoch=2),
                step(epoch=3),
                step(("plain", 0, end), ("plain", 1, 0), epoch=4, maxBytes=300),
                step(epoch=5, maxBytes=300),
                step(("plain", 2, 0), epoch=6, maxBytes=300),
                step(epoch=7, maxBytes=300),
                step(("plain", 99, 0), epoch=8),
                step(epoch=9),
                step(epoch=10, forgotten=[("plain", 1), ("plain", 2), ("plain", 99)]),
                step(epoch=10),
                step(epoch=12),
                step(*both, epoch=-1),
                step(epoch=11),
            ],
        )
        yield f"no such session, Fetch {version}", [step(session=12345, epoch=1)]
        yield f"a session's end that is not there, Fetch {version}", [step(*both, session=12345, epoch=-1)]
        yield f"a session of nothing, Fetch {version}", [step()]
        yield f"a session anew, Fetch {version}", [step(*both), step(*both, epoch=0), step(epoch=1)]
    if 13 in facts.of("Fetch"):
        steps = [
            Step("Fetch", 12, fetch(facts, *both, version=12, session=(0, 0))),
            Step("Fetch", 13, lambda got: fetch(facts, version=13, session=(got[0]["sessionId"], 1))),
        ]
        yield "a session by name that goes on by id", steps
        steps = [
            Step("Fetch", 13, fetch(facts, *both, version=13, session=(0, 0))),
            Step("Fetch", 12, lambda got: fetch(facts, version=12, session=(got[0]["sessionId"], 1))),
        ]
        yield "a session by id that goes on by name", steps
    for version in facts.of("Fetch", 13):
        body = fetch(facts, ("missing", 0, 0), *both, version=version, session=(0, 0))
        follow = Step(
            "Fetch",
            version,
            lambda got, version=version: fetch(facts, version=version, session=(got[0]["sessionId"], 1)),
        )
        yield f"a session with an unknown id, Fetch {version}", [Step("Fetch", version, body), follow]


def coordinators(facts):
    api = "FindCoordinator"

    def asked(version, kind, *keys):
        found = {"keyType": kind} if version else {}
        return found | ({"key": keys[0]} if version < 4 else {"coordinatorKeys": list(keys)})

    for name, kind, keys in (
        ("a group", 0, ("g", "other")),
        ("a group without a name", 0, ("",)),
        ("a transaction", 1, ("t", "u")),
        ("a bad type", 9, ("x",)),
        ("no keys", 0, ("",)),
    ):
        for version in facts.of(api, 1 if kind else 0):
            body = asked(version, kind, *keys)
            if name == "no keys":
                body |= {"coordinatorKeys": []}
            of = "for transactions" if kind == 1 else ""
            yield f"the coordinator of {name}, {api} {version}", [Step(api, version, body, of=of)]


def committed(facts):
    api = "OffsetFetch"

    def asked(version, group, topics, **more):
        topics = topics and [{"name": name, "partitionIndexes": numbers} for name, numbers in topics]
        topics = topics and named(facts, version, topics)
        of_group = {"groupId": group, "topics": topics}
        if version >= 9:
            of_group |= {"memberId": None, "memberEpoch": -1}
        more = more if version >= 7 else {}
        return {"groups": [of_group], **more} if version >= 8 else {**of_group, **more}

    cases = {
        "some partitions": ("g", [("plain", [0, 1]), ("transactions", [0])]),
        "all partitions": ("g", None),
        "no topics": ("g", []),
        "no such partition": ("g", [("plain", [99]), ("missing", [0])]),
        "no such group": ("nobody", [("plain", [0])]),
        "all of no such group": ("nobody", None),
        "a group without a name": ("", [("plain", [0])]),
        "a group that had members": ("left", None),
        "a group of a transaction": ("exact", None),
        "a group of an open transaction": ("pending", None),
    }
    for (name, (group, topics)), stable in itertools.product(cases.items(), (False, True)):
        for version in facts.of(api, 7 if stable else 1 if topics is not None else 2):
            body = asked(version, group, topics, requireStable=stable)
            yield f"commits of {name}, stable {stable}, {api} {version}", [Step(api, version, body)]
    for version in facts.of(api, 8):
        body = {"groups": [asked(version, group, None)["groups"][0] for group in ("g", "nobody", "left")]}
        yield f"commits of groups, {api} {version}", [Step(api, version, body)]
        yield f"commits of no groups, {api} {version}", [Step(api, version, {"groups": []})]
    for version in facts.of(api, 9):
        body = asked(version, "g", None)
        body["groups"][0] |= {"memberId": "nobody", "memberEpoch": 3}
        yield f"commits for a member that is not there, {api} {version}", [Step(api, version, body)]


def groups(facts):
    api = "ListGroups"
    yield from single("all", api, facts.of(api), {})
    for states in (["Empty"], ["Stable"], ["empty", "Dead"], ["Nonsense"]):
        yield from single(f"groups in {states}", api, facts.of(api, 4), {"statesFilter": states})
    for types in (["classic"], ["Consumer"], ["nonsense"]):
        yield from single(f"groups of {types}", api, facts.of(api, 5), {"typesFilter": types})
    api = "DescribeGroups"
    body = {"groups": ["g", "left", "nobody", "exact", "pending", ""]}
    yield from single("groups", api, facts.of(api), body)
    yield from single("no groups", api, facts.of(api), {"groups": []})
    yield from single("the same group twice", api, facts.of(api), {"groups": ["g", "g"]})
    operations = {"includeAuthorizedOperations": True}
    yield from single("their operations", api, facts.of(api, 3), body | operations)


def joining(version, group, member="", instance=None, **more):
    """Return the body of a JoinGroup."""
    body = {
        "groupId": group,
        "sessionTimeoutMs": 300_000,
        "memberId": member,
        "protocolType": "consumer",
        "protocols": [{"name": "range", "metadata": WISHES}],
    }
    body |= {"rebalanceTimeoutMs": 300_000} if version >= 1 else {}
    return body | ({"groupInstanceId": instance} if version >= 5 else {}) | more


def members(facts):
    for version in facts.of("JoinGroup"):
        join = f"JoinGroup {version}"
        yield f"a member without an id, {join}", [Step("JoinGroup", version, joining(version, f"new-{version}"))]
        bad = {
            "with an unknown id": joining(version, "g", "nobody"),
            "with an unknown id of no such group": joining(version, "nobody", "nobody"),
            "of a group without a name": joining(version, ""),
            "with a short session": joining(version, "g", sessionTimeoutMs=1),
            "with a long session": joining(version, "g", sessionTimeoutMs=1 << 30),
            "without protocols": joining(version, "g", protocols=[]),
            "without a type": joining(version, "g", protocolType=""),
        }
        for name, body in bad.items():
            yield f"a member {name}, {join}", [Step("JoinGroup", version, body)]
        yield f"a life of a member, {join}", life(facts, version)
    for version in facts.of("JoinGroup", 5):
        yield f"a life of a static member, JoinGroup {version}", static_life(facts, version)


def beats(facts):
    for version in facts.of("Heartbeat"):
        body = {"groupId": "g", "generationId": 1, "memberId": "nobody"}
        yield from single("no such member", "Heartbeat", [version], body)
        yield from single("no such group", "Heartbeat", [version], body | {"groupId": "nobody"})
        yield from single("no name", "Heartbeat", [version], body | {"groupId": ""})
        if version >= 3:
            yield from single("no such instance", "Heartbeat", [version], body | {"groupInstanceId": "x"})


def syncs(facts):
    for version in facts.of("SyncGroup"):
        body = {"groupId": "g", "generationId": 1, "memberId": "nobody", "assignments": []}
        body |= {"protocolType": "consumer", "protocolName": "range"} if version >= 5 else {}
        yield from single("no such member", "SyncGroup", [version], body)
        yield from single("no such group", "SyncGroup", [version], body | {"groupId": "nobody"})
        yield from single("no name", "SyncGroup", [version], body | {"groupId": ""})
        if version >= 5:
            nothing = {"protocolType": None, "protocolName": None}
            yield from single("no protocol", "SyncGroup", [version], body | nothing)


def leaves(facts):
    for version in facts.of("LeaveGroup"):
        for name, group in (("no such member", "g"), ("no such group", "nobody"), ("no name", "")):
            one = {"memberId": "nobody", "groupInstanceId": None, "reason": None}
            static = {"memberId": "", "groupInstanceId": "x", "reason": None}
            body = {"groupId": group} | ({"members": [one, static]} if version >= 3 else {"memberId": "nobody"})
            yield from single(name, "LeaveGroup", [version], body)
        if version >= 3:
            yield from single("nobody leaves", "LeaveGroup", [version], {"groupId": "g", "members": []})


def named(facts, version, topics):
    """Return the topics of a commit as the version names them: by their ids since version 10."""
    if version < 10:
        return topics
    ids = [facts.ids.get(topic["name"], UNKNOWN_ID) for topic in topics]
    return [{**topic, "topicId": one} for topic, one in zip(topics, ids, strict=True)]


def commits(facts):
    for version in facts.of("OffsetCommit"):
        committing = partial(committing_to, facts)
        for name, group, fields in (
            ("of no such member", "g", {"memberId": "nobody", "generationIdOrMemberEpoch": 1}),
            ("of no such group", f"nobody-{version}", {"memberId": "nobody", "generationIdOrMemberEpoch": 1}),
            ("of a group without a name", "", {"memberId": "", "generationIdOrMemberEpoch": -1}),
            ("without a member", f"alone-{version}", {"memberId": "", "generationIdOrMemberEpoch": -1}),
        ):
            commit = Step("OffsetCommit", version, committing(version, group, **fields))
            found = Step("OffsetFetch", 5, {"groupId": group, "topics": None})
            yield f"a commit {name}, OffsetCommit {version}", [commit, found] if group else [commit]
        commit = committing(version, f"odd-{version}", topic="missing", memberId="", generationIdOrMemberEpoch=-1)
        yield f"a commit of no such topic, OffsetCommit {version}", [Step("OffsetCommit", version, commit)]
        commit = committing(version, f"odd-{version}", 99, memberId="", generationIdOrMemberEpoch=-1)
        yield f"a commit of no such partition, OffsetCommit {version}", [Step("OffsetCommit", version, commit)]
        large = committing(version, f"odd-{version}", metadata="m" * 5000, memberId="", generationIdOrMemberEpoch=-1)
        yield f"a commit with much metadata, OffsetCommit {version}", [Step("OffsetCommit", version, large)]


def committing_to(facts, version, group, partition=0, topic="plain", metadata="m", **fields):
    """Return the body of an OffsetCommit."""
    one = {"partitionIndex": partition, "committedOffset": 3, "committedMetadata": metadata}
    one |= {"committedLeaderEpoch": 2} if version >= 6 else {}
    topics = named(facts, version, [{"name": topic, "partitions": [one]}])
    body = {"groupId": group, "topics": topics, **fields}
    body |= {"retentionTimeMs": -1} if version <= 4 else {}
    return body | ({"groupInstanceId": None} if version >= 7 else {})


def life(facts, version):
    """A member joins, is assigned, lives, commits and leaves. Each request in the version nearest to one."""
    group = f"life-{version}"

    def at(api, last=99):
        return min(version, last, facts.versions[api][1])

    # From version 4 on, the first answer has only an id.
    number = 1 if version >= 4 else 0

    def synced(got, **more):
        sync = at("SyncGroup")
        assignment = [{"memberId": got[number]["memberId"], "assignment": {"base64": "AAECAw=="}}]
        body = {"groupId": group, "generationId": 1, "memberId": got[number]["memberId"], "assignments": assignment}
        body |= {"protocolType": "consumer", "protocolName": "range"} if sync >= 5 else {}
        return body | more

    def known(got, **more):
        return {"groupId": group, "generationId": 1, "memberId": got[number]["memberId"], **more}

    def leaving(got):
        if at("LeaveGroup") < 3:
            return {"groupId": group, "memberId": got[number]["memberId"]}
        one = {"memberId": got[number]["memberId"], "groupInstanceId": None, "reason": None}
        return {"groupId": group, "members": [one]}

    def commit(got, **more):
        own = {"memberId": got[number]["memberId"], "generationIdOrMemberEpoch": 1}
        return committing_to(facts, max(2, at("OffsetCommit")), group, **own | more)

    def connecting(got):
        return joining(version, group, got[number]["memberId"], protocolType="connect")

    described = Step("DescribeGroups", at("DescribeGroups"), {"groups": [group]})
    return [
        Step("JoinGroup", version, joining(version, group)),
        *(
            [Step("JoinGroup", version, lambda got: joining(version, group, got[0]["memberId"]))]
            if version >= 4
            else []
        ),
        described._replace(of="in a rebalance"),
        Step("Heartbeat", at("Heartbeat"), known),
        Step("SyncGroup", at("SyncGroup"), synced),
        Step("SyncGroup", at("SyncGroup"), lambda got: synced(got, generationId=7)),
        *(
            [Step("SyncGroup", at("SyncGroup"), lambda got: synced(got, protocolName="roundrobin"))]
            if at("SyncGroup") >= 5
            else []
        ),
        described,
        Step("ListGroups", at("ListGroups"), {"statesFilter": ["Stable"]} if at("ListGroups") >= 4 else {}),
        Step("Heartbeat", at("Heartbeat"), known),
        Step("Heartbeat", at("Heartbeat"), lambda got: known(got, generationId=7)),
        Step("OffsetCommit", max(2, at("OffsetCommit")), commit),
        Step("OffsetCommit", max(2, at("OffsetCommit")), lambda got: commit(got, generationIdOrMemberEpoch=7)),
        Step(
            "OffsetCommit",
            max(2, at("OffsetCommit")),
            lambda got: commit(got, generationIdOrMemberEpoch=-1, memberId=""),
        ),
        Step(
            "JoinGroup", version, lambda got: joining(version, group, got[number]["memberId"], protocolType="connect")
        ),
        Step("LeaveGroup", at("LeaveGroup"), leaving),
        described,
        Step("Heartbeat", at("Heartbeat"), known),
        Step("OffsetFetch", 5, {"groupId": group, "topics": None}),
    ]


def static_life(facts, version):
    """A static member joins, is assigned, comes back under a new id, and is removed by its instance id."""
    group = f"static-{version}"

    def synced(got, number):
        body = {"groupId": group, "generationId": 1, "memberId": got[number]["memberId"], "groupInstanceId": "one"}
        body |= {"protocolType": "consumer", "protocolName": "range"}
        return body | {"assignments": [{"memberId": got[0]["memberId"], "assignment": {"base64": "AAECAw=="}}]}

    def beat(got, number):
        return {"groupId": group, "generationId": 1, "memberId": got[number]["memberId"], "groupInstanceId": "one"}

    one = {"memberId": "", "groupInstanceId": "one", "reason": "done"}
    return [
        Step("JoinGroup", version, joining(version, group, instance="one")),
        Step("SyncGroup", 5, lambda got: synced(got, 0)),
        Step("DescribeGroups", 5, {"groups": [group]}),
        Step("JoinGroup", version, joining(version, group, instance="one")),
        Step("Heartbeat", 4, lambda got: beat(got, 0)),
        Step("Heartbeat", 4, lambda got: beat(got, 3)),
        Step("JoinGroup", version, lambda got: joining(version, group, got[0]["memberId"], "one")),
        Step("LeaveGroup", 5, {"groupId": group, "members": [one | {"groupInstanceId": "two"}]}),
        Step("LeaveGroup", 5, {"groupId": group, "members": [one]}),
        Step("DescribeGroups", 5, {"groups": [group]}, of="without members and commits"),
    ]


def sasl(facts):
    if "SaslHandshake" in facts.versions:
        for version in facts.of("SaslHandshake"):
            yield (
                f"SaslHandshake {version}",
                [Step("SaslHandshake", version, {"mechanism": "PLAIN"}, f"sasl {version}")],
            )
