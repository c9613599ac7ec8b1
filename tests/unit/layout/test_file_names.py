"""Which files of a partition directory count, told from names alone."""

import pytest

from brokerless.layout.file_names import (
    INDEX,
    LOG,
    TIMEINDEX,
    TXNINDEX,
    base_offset,
    is_partition_directory,
    live_files,
)


def name(offset, suffix):
    return f"{offset:020d}.{suffix}"


def live(*names, swap_ends=None):
    return live_files(names, lambda swap: (swap_ends or {})[base_offset(swap)])


def test_an_index_without_a_log_counts_for_nothing():
    assert live(name(0, "log"), name(5, "index"), name(7, "snapshot")) == ({0: LOG}, {}, [7], [5])


def test_every_kind_of_file_name_is_recognized():
    kinds = live(*(name(3, suffix) for suffix in ("log", "index", "timeindex", "txnindex"))).kinds
    assert kinds == {3: LOG | INDEX | TIMEINDEX | TXNINDEX}


@pytest.mark.parametrize(
    "other",
    [
        *("5.log", "abc.log", "00000000000000000005.log.bak", "00000000000000000005", "99999999999999999999.log"),
        *(".log", "+0000000000000000005.log", "-0000000000000000005.log", "000000000000000000005.log"),
        *("09223372036854775808.log", "00000000000000000005.LOG", "00000000000000000005log", ""),
        pytest.param("0000000000000000000\u0665.log", id="a digit of another script"),
        pytest.param("00000000000000000005.log\udcff", id="no UTF-8"),
    ],
)
def test_what_kafka_did_not_name_is_no_segment(other):
    assert live(other) == ({}, {}, [], [])
    assert not is_partition_directory([other])


def test_segments_ascend_whatever_the_listing():
    assert list(live(name(20, "log"), name(3, "log"), name(100, "log")).kinds) == [3, 20, 100]


def test_deleted_and_cleaned_files_count_for_nothing():
    assert live(name(0, "log"), name(5, "log.deleted"), name(7, "log.cleaned")).kinds == {0: LOG}


def test_a_complete_swap_supersedes_the_range_it_covers_snapshots_included():
    found = live(
        name(0, "log"), name(10, "log"), name(10, "snapshot"), name(20, "log"), name(20, "snapshot"),
        name(0, "log.swap"), name(0, "index.swap"), swap_ends={0: 20},
    )  # fmt: skip
    assert found == ({0: LOG | INDEX, 20: LOG}, {0: LOG | INDEX}, [20], [])


def test_a_swap_above_a_cleaned_file_belongs_to_an_interrupted_split():
    found = live(name(0, "log"), name(0, "log.cleaned"), name(0, "log.swap"), name(5, "log.swap"))
    assert found == ({0: LOG}, {}, [], [])


def test_index_files_left_of_a_swap_supersede_no_log():
    assert live(name(0, "log"), name(0, "index.swap")) == ({0: LOG | INDEX}, {0: INDEX}, [], [])


def test_a_stray_snapshot_counts_only_where_a_clean_shutdown_leaves_one():
    logs = [name(0, "log"), name(10, "log")]
    snapshots = [name(offset, "snapshot") for offset in (0, 4, 10, 12, 15)]
    assert live(*logs, *snapshots).snapshots == [0, 10, 15]
    assert live(name(20, "log"), *snapshots).snapshots == []


def test_a_partition_directory_is_told_by_what_it_holds():
    assert is_partition_directory(["leader-epoch-checkpoint"])
    assert is_partition_directory([name(0, "log")])
    assert not is_partition_directory(["meta.properties", "orders-0"])


@pytest.mark.parametrize("other", ["99999999999999999999.index", "2024-05-01-backup.log", "\u0664.index", "9" * 5000])
def test_a_number_that_is_no_offset_is_refused_and_not_passed_on(other):
    with pytest.raises(ValueError, match="is named by its base offset"):
        base_offset(f"/data/t-0/{other}")
