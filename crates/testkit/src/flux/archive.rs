//! Files as one compressed archive.

use flate2::{Compression, write::GzEncoder};

pub(super) fn packed(files: &[(&str, &str)]) -> Vec<u8> {
    let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (path, contents) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(contents.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, path, contents.as_bytes()).unwrap();
    }
    archive.into_inner().unwrap().finish().unwrap()
}
