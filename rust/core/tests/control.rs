//! Control records read as Kafka 4.1's own dump tool printed them. A record that the tool cannot parse must not be
//! treated as a marker.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod support;

use brokerless_core::{ControlType, ErrorKind, Json, Result, control_type, coordinator_epoch};
use support::hex;

use ControlType::{KRaftVersion, KRaftVoters, LeaderChange, SnapshotFooter, SnapshotHeader};

fn json(control_type: ControlType, value: &str) -> Result<String> {
    let mut out = Vec::new();
    control_type.value_json(&hex(value), &mut Json::new(&mut out))?;
    Ok(String::from_utf8(out).unwrap())
}

#[test]
fn keys_name_their_type_whatever_their_version() {
    for (key, expected) in [
        ("00000000", ControlType::Abort),
        ("00000001", ControlType::Commit),
        ("00000002", LeaderChange),
        ("00000003", SnapshotHeader),
        ("00000004", SnapshotFooter),
        ("00000005", KRaftVersion),
        ("00000006", KRaftVoters),
        ("00000007", ControlType::Unknown(7)),
        ("0000ffff", ControlType::Unknown(-1)),
        ("000100017a7a", ControlType::Commit),
    ] {
        assert_eq!(control_type(&hex(key)), Ok(expected));
    }
    for key in ["", "000000", "ffff0000", "80000001"] {
        assert_eq!(
            control_type(&hex(key)).unwrap_err().kind,
            ErrorKind::Corrupt,
            "{key}"
        );
    }
}

#[test]
fn markers_carry_the_coordinators_epoch() {
    assert_eq!(coordinator_epoch(&hex("00000000000b")), Ok(11));
    assert_eq!(
        coordinator_epoch(&hex("0003ffffffffeeee")),
        Ok(-1),
        "newer version, more bytes"
    );
    for value in ["", "0000", "0000000000", "ffff0000000b"] {
        assert_eq!(
            coordinator_epoch(&hex(value)).unwrap_err().kind,
            ErrorKind::Corrupt,
            "{value}"
        );
    }
}

#[test]
fn kraft_values_are_written_as_kafka_writes_them() {
    for (control_type, value, expected) in [
        (
            LeaderChange,
            "00000000000103000000010000000002000200000001000000",
            r#"{"version":0,"leaderId":1,"voters":[{"voterId":1},{"voterId":2}],"grantingVoters":[{"voterId":1}]}"#,
        ),
        (
            LeaderChange,
            "00007fffffff0280000000000100",
            r#"{"version":0,"leaderId":2147483647,"voters":[{"voterId":-2147483648}],"grantingVoters":[]}"#,
        ),
        (
            LeaderChange,
            "000500000001010100aabb",
            r#"{"version":5,"leaderId":1,"voters":[],"grantingVoters":[]}"#,
        ),
        (
            LeaderChange,
            "0000000000010101010502aabb",
            r#"{"version":0,"leaderId":1,"voters":[],"grantingVoters":[]}"#,
        ),
        (
            SnapshotHeader,
            "00000000018bcfe567ff00",
            r#"{"version":0,"lastContainedLogTimestamp":1699999999999}"#,
        ),
        (SnapshotFooter, "7fff00", r#"{"version":32767}"#),
        (SnapshotFooter, "0000ffffffff0f", r#"{"version":0}"#),
        (
            KRaftVersion,
            "0000ffff00",
            r#"{"version":0,"kRaftVersion":-1}"#,
        ),
        (KRaftVoters, "00000100", r#"{"version":0,"voters":[]}"#),
        (
            KRaftVoters,
            "00000300000001000000000000000000000000000000000100000000000000000002ffffffffffffffffffff\
             ffffffffffff0301010000000941225c0a09017f2f0ec3a9e282acf09f9880ffeda080ffff00ffff7fff000000",
            "{\"version\":0,\"voters\":[{\"voterId\":1,\"voterDirectoryId\":\"AAAAAAAAAAAAAAAAAAAAAA\",\
             \"endpoints\":[],\"kRaftVersionFeature\":{\"minSupportedVersion\":0,\"maxSupportedVersion\":0}},\
             {\"voterId\":2,\"voterDirectoryId\":\"_____________________w\",\"endpoints\":[\
             {\"name\":\"\",\"host\":\"\",\"port\":0},{\"name\":\"A\\\"\\\\\\n\\t\\u0001\x7f/\",\
             \"host\":\"\u{e9}\u{20ac}\u{1f600}\u{fffd}\u{fffd}\",\"port\":65535}],\
             \"kRaftVersionFeature\":{\"minSupportedVersion\":-1,\"maxSupportedVersion\":32767}}]}",
        ),
        (ControlType::Unknown(7), "0000", "null"),
    ] {
        assert_eq!(json(control_type, value).as_deref(), Ok(expected));
    }
}

#[test]
fn kraft_values_that_kafka_cannot_read_are_refused() {
    for (control_type, value) in [
        (LeaderChange, ""),
        (LeaderChange, "0000"),
        (LeaderChange, "000000000001000100"),
        (LeaderChange, "000000000001ffffffff0f0100"),
        (LeaderChange, "000000000001ffffff7f0100"),
        (LeaderChange, "0000000000010101"),
        (SnapshotHeader, "000000"),
        (SnapshotFooter, "000001"),
        (SnapshotFooter, "00000105"),
        (KRaftVersion, "0000"),
        (KRaftVoters, "0000"),
        (KRaftVoters, "000002"),
    ] {
        assert_eq!(
            json(control_type, value).unwrap_err().kind,
            ErrorKind::Corrupt,
            "{value}"
        );
    }
}
