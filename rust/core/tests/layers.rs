//! The groups of modules import only downwards, in the order that `lib.rs` gives.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

/// Lowest first.
const GROUPS: [&str; 7] = [
    "base", "state", "format", "read", "write", "broker", "rewrite",
];

fn rust_files(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn no_group_imports_a_group_above_it() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for (level, group) in GROUPS.iter().enumerate() {
        let mut files = vec![source.join(format!("{group}.rs"))];
        rust_files(&source.join(group), &mut files);
        assert!(files.len() > 3, "{group} has no files");
        for file in files {
            let text = std::fs::read_to_string(&file).unwrap();
            for above in GROUPS.iter().skip(level + 1) {
                let import = format!("crate::{above}::");
                assert!(!text.contains(&import), "{} uses {import}", file.display());
            }
            // The test does not look into a nested import.
            assert!(!text.contains("crate::{"), "{}", file.display());
        }
    }
}

#[test]
fn every_module_belongs_to_a_group() {
    let lib = include_str!("../src/lib.rs");
    let modules: Vec<_> = lib
        .lines()
        .filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';'))
        .collect();
    let mut groups = GROUPS;
    groups.sort_unstable();
    assert_eq!(modules, groups);
}
