//! Archives that users make, and archives that attackers make.

use tar::EntryType;

use super::*;
use crate::archives::{Archive, compress};

/// Extracts into a directory that has a neighbour.
fn extract(archive: Archive, limit: Limit) -> Result<tempfile::TempDir, UntarError> {
    let dir = tempfile::tempdir().unwrap();
    untar(archive.gzip().as_slice(), dir.path(), limit).map(|()| dir)
}

/// The error's text for an archive that must not be extracted.
fn refusal(archive: Archive) -> String {
    extract(archive, Limit::DEFAULT).unwrap_err().to_string()
}

fn mode(path: impl AsRef<Path>) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn files_directories_and_links_arrive_with_their_modes() {
    let archive = Archive::default()
        .directory("./")
        .directory("scripts/")
        .entry(EntryType::Regular, b"scripts/run.sh", b"", 0o755, b"#!/bin/sh\n")
        .file("Pulumi.yaml", "name: a\n")
        .file("deep/er/file", "x")
        .link("current", "scripts/run.sh");
    let dir = extract(archive, Limit::DEFAULT).unwrap();
    let at = |name: &str| dir.path().join(name);
    assert_eq!(fs::read_to_string(at("Pulumi.yaml")).unwrap(), "name: a\n");
    assert_eq!(fs::read_to_string(at("current")).unwrap(), "#!/bin/sh\n");
    assert_eq!(fs::read_to_string(at("deep/er/file")).unwrap(), "x");
    assert_eq!(mode(at("scripts/run.sh")), 0o755);
    assert_eq!(mode(at("Pulumi.yaml")), 0o644);
    assert_eq!(mode(at("scripts")), 0o755);
    assert!(at("current").is_symlink());
}

#[test]
fn no_program_runs_as_another_user_and_every_directory_can_be_removed() {
    let archive = Archive::default().entry(EntryType::Directory, b"sealed", b"", 0o000, b"").entry(
        EntryType::Regular,
        b"sealed/tool",
        b"",
        0o6755,
        b"",
    );
    let dir = extract(archive, Limit::DEFAULT).unwrap();
    assert_eq!(mode(dir.path().join("sealed")), 0o700);
    assert_eq!(mode(dir.path().join("sealed/tool")), 0o755);
}

#[test]
fn times_are_kept_unless_they_are_in_the_future() {
    let dir = extract(Archive::default().file("a", ""), Limit::DEFAULT).unwrap();
    let changed = fs::metadata(dir.path().join("a")).unwrap().modified().unwrap();
    assert_eq!(changed, SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000));

    let mut tar = Archive::default().file("a", "").tar();
    let mut header = tar::Header::from_byte_slice(&tar[..512]).clone();
    header.set_mtime(1 << 60);
    header.set_cksum();
    tar[..512].copy_from_slice(header.as_bytes());
    let dir = tempfile::tempdir().unwrap();
    untar(compress(&tar).as_slice(), dir.path(), Limit::DEFAULT).unwrap();
    assert!(fs::metadata(dir.path().join("a")).unwrap().modified().unwrap() <= SystemTime::now());
}

#[test]
fn long_names_and_names_that_are_not_text_are_kept() {
    let long = format!("{}/{}/file", "d".repeat(120), "e".repeat(120));
    let archive = Archive::default().file(&long, "1").entry(EntryType::Regular, b"\xff", b"", 0o644, b"2");
    let dir = extract(archive, Limit::DEFAULT).unwrap();
    assert_eq!(fs::read_to_string(dir.path().join(&long)).unwrap(), "1");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
}

#[test]
fn the_last_entry_of_a_name_counts() {
    let archive = Archive::default()
        .file("a", "old")
        .file("a", "new")
        .link("b", "nowhere")
        .file("b", "file")
        .file("c", "file")
        .link("c", "a");
    let dir = extract(archive, Limit::DEFAULT).unwrap();
    assert_eq!(fs::read_to_string(dir.path().join("a")).unwrap(), "new");
    assert_eq!(fs::read_to_string(dir.path().join("b")).unwrap(), "file");
    assert_eq!(fs::read_link(dir.path().join("c")).unwrap(), Path::new("a"));
}

#[test]
fn names_that_lead_elsewhere_are_refused_by_name() {
    for (name, why) in [("../evil", "'..'"), ("a/../../evil", "'..'"), ("/evil", "absolute"), ("..\\evil", "backslash")]
    {
        let error = refusal(Archive::default().file(name, "x"));
        assert!(error.contains(&format!("{name:?} is refused")) && error.contains(why), "{error}");
        assert!(refusal(Archive::default().directory(name)).contains("is refused"));
        assert!(refusal(Archive::default().link(name, "x")).contains("is refused"));
    }
    assert!(refusal(Archive::default().file("", "x")).contains("its name is empty"));
    assert!(refusal(Archive::default().file(".", "x")).contains("the whole archive"));
    assert!(refusal(Archive::default().link("./", "x")).contains("the whole archive"));
}

#[test]
fn links_that_lead_elsewhere_are_refused_by_name() {
    for target in ["/etc/passwd", "..", "../neighbour", "a/../../neighbour"] {
        let error = refusal(Archive::default().link("innocent", target));
        assert!(error.contains("\"innocent\" is refused") && error.contains("leads out of the archive"), "{error}");
    }
    assert!(refusal(Archive::default().link("a", "")).contains("links to nothing"));
}

#[test]
fn no_file_is_written_through_a_link() {
    let error = refusal(Archive::default().directory("d").link("l", "d").file("l/file", "x"));
    assert!(error.contains("extracting entry \"l\""), "{error}");
    let error = refusal(Archive::default().link("l", ".").link("l/up", ".."));
    assert!(error.contains("\"l/up\" is refused") && error.contains("behind another link"), "{error}");
}

#[test]
fn hard_links_devices_and_pipes_are_refused() {
    for (kind, what) in [
        (EntryType::Link, "a hard link"),
        (EntryType::Char, "a device"),
        (EntryType::Block, "a device"),
        (EntryType::Fifo, "a pipe"),
        (EntryType::new(b'Z'), "of an unknown kind"),
    ] {
        let error = refusal(Archive::default().entry(kind, b"thing", b"Pulumi.yaml", 0o644, b""));
        assert!(error.contains("\"thing\" is refused") && error.contains(what), "{error}");
    }
}

#[test]
fn what_git_archive_puts_first_is_passed_over() {
    let comment = b"52 comment=0123456789012345678901234567890123456789\n";
    let archive = Archive::default()
        .entry(EntryType::XGlobalHeader, b"pax_global_header", b"", 0o666, comment)
        .file("Pulumi.yaml", "name: a\n");
    let dir = extract(archive, Limit::DEFAULT).unwrap();
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn the_limit_counts_all_files_together() {
    let two = || Archive::default().file("a", &"x".repeat(1024)).file("b", &"x".repeat(1024));
    assert!(extract(two(), Limit::bytes(2048)).is_ok());
    assert!(extract(two(), Limit::NONE).is_ok());
    let error = extract(two(), Limit::bytes(2047)).unwrap_err().to_string();
    assert!(error.contains("\"b\"") && error.contains("bigger than max archive size of 2047 bytes"), "{error}");
    assert!(extract(Archive::default().file("a", ""), Limit::bytes(0)).is_ok());
    assert!(matches!(extract(two(), Limit::bytes(0)), Err(UntarError::TooBig { .. })));
}

#[test]
fn a_name_or_a_directory_cannot_be_a_bomb() {
    let big = vec![b'a'; 2 << 20];
    let name = Archive::default().entry(EntryType::GNULongName, b"././@LongLink", b"", 0o644, &big).file("a", "");
    assert!(refusal(name).contains("take more than 1048576 bytes"));
    let directory = Archive::default().entry(EntryType::Directory, b"d", b"", 0o755, &big).file("a", "");
    assert!(refusal(directory).contains("take more than 1048576 bytes"));
}

#[test]
fn only_gzip_is_taken() {
    let dir = tempfile::tempdir().unwrap();
    let tar = Archive::default().file("a", "").tar();
    for bytes in [&tar[..], b"", b"<html>", b"\x1f"] {
        let error = untar(bytes, dir.path(), Limit::DEFAULT).unwrap_err();
        assert!(matches!(error, UntarError::NotGzip), "{error}");
    }
}

#[test]
fn damaged_archives_are_said_to_be() {
    let dir = tempfile::tempdir().unwrap();
    let whole = Archive::default().file("a", &"content ".repeat(1000)).tar();
    let mut wrong_sum = whole.clone();
    wrong_sum[0] = b'b';
    for tar in [&whole[..300], &whole[..1000], &wrong_sum[..], &b"this is no tar file".repeat(100)] {
        let error = untar(compress(tar).as_slice(), dir.path(), Limit::DEFAULT).unwrap_err().to_string();
        assert!(error.contains("it is damaged") || error.contains("the archive ends after 488 of its 8000"), "{error}");
    }
    let gzip = compress(&whole);
    assert!(untar(&gzip[..gzip.len() / 2], dir.path(), Limit::DEFAULT).is_err());
}

#[test]
fn an_empty_archive_is_an_empty_source() {
    let dir = extract(Archive::default(), Limit::DEFAULT).unwrap();
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}
