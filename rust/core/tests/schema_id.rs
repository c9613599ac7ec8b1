//! The ids of schemas in keys, values and headers: every form, cut at every byte.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use brokerless_core::{Framed, Framing, SchemaId};

const GUID: [u8; 16] = *b"0123456789abcdef";

fn prefixed(id: &[u8], rest: &[u8]) -> Vec<u8> {
    [id, rest].concat()
}

fn by_id(id: i32) -> Vec<u8> {
    prefixed(&[0], &id.to_be_bytes())
}

fn by_guid() -> Vec<u8> {
    prefixed(&[1], &GUID)
}

#[test]
fn an_id_is_read_whole_or_not_at_all() {
    for (id, framing, found) in [
        (by_id(-1), Framing::PrefixV0, SchemaId::Id(-1)),
        (by_guid(), Framing::PrefixV1, SchemaId::Guid(GUID)),
    ] {
        for length in 0..id.len() {
            let framed = Framed::split(&id[..length], None);
            assert_eq!((framed.framing, framed.schema_id), (Framing::None, None));
            assert_eq!(framed.body, &id[..length]);
        }
        let payload = prefixed(&id, b"body");
        let framed = Framed::split(&payload, None);
        assert_eq!((framed.framing, framed.schema_id), (framing, Some(found)));
        assert_eq!(framed.body, b"body");
    }
}

#[test]
fn a_header_is_an_id_of_either_form_or_of_none() {
    let payload = prefixed(&by_id(5), b"body");
    for (header, found) in [
        (by_id(7), Some(SchemaId::Id(7))),
        (by_guid(), Some(SchemaId::Guid(GUID))),
        (by_guid()[..16].to_vec(), None),
        (Vec::new(), None),
        (vec![2], None),
    ] {
        let framed = Framed::split(&payload, Some(&header));
        assert_eq!((framed.framing, framed.schema_id), (Framing::Header, found));
        assert_eq!(framed.body, payload);
    }
}

fn indexes(framed: &Framed<'_>) -> Result<(Vec<i32>, Vec<u8>), String> {
    let mut found = Vec::new();
    let body = framed
        .message_indexes(|index| found.push(index))
        .map_err(|error| error.message)?;
    Ok((found, body.to_vec()))
}

#[test]
fn message_indexes_stand_where_the_id_stands() {
    // The count and each index are zigzag: 2 stands for 1.
    for (bytes, expected) in [
        (&[0][..], vec![0]),
        (&[2, 0], vec![0]),
        (&[2, 2], vec![1]),
        (&[4, 2, 0], vec![1, 0]),
        (&[6, 0, 0, 0xac, 2], vec![0, 0, 150]),
    ] {
        let payload = [&by_id(1)[..], bytes, b"body"].concat();
        let framed = Framed::split(&payload, None);
        assert_eq!(indexes(&framed), Ok((expected.clone(), b"body".to_vec())));
        let header = [&by_guid()[..], bytes].concat();
        let framed = Framed::split(b"body", Some(&header));
        assert_eq!(indexes(&framed), Ok((expected, b"body".to_vec())));
        for length in 0..bytes.len() {
            let cut = [&by_guid()[..], &bytes[..length]].concat();
            assert!(indexes(&Framed::split(b"body", Some(&cut))).is_err());
        }
    }
}

#[test]
fn a_count_of_indexes_beyond_the_bytes_is_refused() {
    for count in [&[0xfe, 0xff, 0xff, 0xff, 0x0f][..], &[1], &[0xff; 10]] {
        let payload = [&by_id(1)[..], count, &[0; 3]].concat();
        assert!(indexes(&Framed::split(&payload, None)).is_err());
    }
}

#[test]
fn the_names_of_framings_are_different() {
    let names: std::collections::HashSet<_> = Framing::ALL.iter().map(|(name, _)| name).collect();
    assert_eq!(names.len(), Framing::ALL.len());
    for (name, framing) in Framing::ALL {
        assert_eq!(framing.name(), name);
    }
}

#[test]
fn framings_of_other_registries_are_seen_whole_or_not_at_all() {
    let apicurio = prefixed(&by_id(0), &[0, 0, 1, 2, b'x']);
    for length in 0..=apicurio.len() {
        let found = Framed::split(&apicurio[..length], None).id_of_apicurio();
        assert_eq!(found, (length >= 9).then_some(0x0102), "{length}");
    }
    // An id of a registry that has it, the id 0 itself, and a header.
    for other in [
        prefixed(&by_id(1), &[0, 0, 0, 7]),
        prefixed(&by_id(0), &[0; 4]),
    ] {
        assert_eq!(Framed::split(&other, None).id_of_apicurio(), None);
    }
    assert_eq!(
        Framed::split(&apicurio, Some(&by_id(0))).id_of_apicurio(),
        None
    );
    for (compression, is_known) in [(0, true), (5, true), (1, false)] {
        let glue = [&[3, compression][..], &GUID, b"body"].concat();
        for length in 0..=glue.len() {
            let framed = Framed::split(&glue[..length], None);
            assert_eq!(framed.is_of_glue(), is_known && length >= 18, "{length}");
        }
        assert!(!Framed::split(&glue, Some(&by_id(1))).is_of_glue());
    }
}
