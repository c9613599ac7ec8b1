"""The metadata log of a directory, replayed as a broker replays it."""

import pytest

from brokerless.metadata.log import cluster_image
from brokerless.metadata.records import TOPIC_RESOURCE, config_record, topic_record
from brokerless.metadata.topic_settings import Cluster
from support.log_files import NOW, batch, write_segment
from support.metadata_images import settings

IDS = ["AAECAwQFBgcICQoLDA0ODw", "EBESExQVFhcYGRobHB0eHw"]
# BeginTransactionRecord 23 with a tagged name, EndTransactionRecord 24, AbortTransactionRecord 25 (KIP-868).
BEGIN, END, ABORT = (bytes([1, kind, 0]) for kind in (23, 24, 25))
NO_TAGS = b"\0"


def metadata_log(path, records):
    write_segment(path / "__cluster_metadata-0", 0, [batch(at, [one], timestamp=NOW) for at, one in enumerate(records)])
    return cluster_image(str(path))


@pytest.mark.parametrize(
    ("ending", "known"),
    [
        (END + NO_TAGS, {"kept": {"cleanup.policy": "compact"}, "made": {"retention.ms": "1"}}),
        (ABORT + NO_TAGS, {"kept": {}}),
        (None, {"kept": {}}),
    ],
    ids=["ended", "aborted", "open"],
)
def test_what_a_metadata_transaction_did_counts_once_it_ends(tmp_path, ending, known):
    """An open one is dropped by the next controller, an aborted one never was (KIP-868)."""
    records = [
        topic_record("kept", IDS[0]),
        BEGIN + NO_TAGS,
        topic_record("made", IDS[1]),
        config_record(TOPIC_RESOURCE, "made", "retention.ms", "1"),
        config_record(TOPIC_RESOURCE, "kept", "cleanup.policy", "compact"),
        *([] if ending is None else [ending]),
    ]
    image = metadata_log(tmp_path, records)
    assert (settings(image), image.is_whole) == (known, True)
    policy = known["kept"].get("cleanup.policy", "delete")
    assert Cluster(str(tmp_path), 1, None).config_of("kept").cleanup_policy == policy
