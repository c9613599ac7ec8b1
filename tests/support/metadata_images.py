"""Metadata of clusters that exist on paper."""

from brokerless.metadata.image import MetadataImage
from brokerless.metadata.log import replay_records


def image_of(replicas, topics=()):
    """Return the metadata of some topics, and of those of the replicas: the nodes by topic and partition."""
    image = MetadataImage()
    for name in sorted({*topics, *(topic for topic, _ in replicas)}):
        image.replay("TopicRecord", {"name": name, "topicId": f"id of {name}"})
    for (topic, number), nodes in replicas.items():
        set_replicas(image, topic, number, nodes)
    return image


def set_replicas(image, topic, number, nodes, in_sync=None):
    """Put a partition on some nodes; None: they are all in sync."""
    partition = {"partitionId": number, "topicId": image.topic_ids[topic], "leader": nodes[0], "leaderEpoch": 0}
    nodes_of = {"replicas": list(nodes), "isr": list(in_sync or nodes), "addingReplicas": [], "removingReplicas": []}
    image.replay("PartitionRecord", {**partition, **nodes_of, "partitionEpoch": 0})


def image_after(records):
    """Return the metadata after some records, which are bytes."""
    image = MetadataImage()
    replay_records(records, image)
    return image


def settings(image):
    """Return the own settings of each topic."""
    return {name: image.configs_of(name) for name in image.topic_ids}
