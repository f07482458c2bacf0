//! The names of an archive's entries, and which of them may become files. No IO here.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Component, Path, PathBuf},
};

/// Where an entry belongs below the directory of extraction: empty for that directory itself.
pub(crate) fn inside(name: &[u8]) -> Result<PathBuf, &'static str> {
    if name.is_empty() {
        return Err("its name is empty");
    }
    if name.contains(&b'\\') {
        return Err("its name has a backslash");
    }
    if name.contains(&0) {
        return Err("its name has a zero byte");
    }
    let mut path = PathBuf::new();
    for component in Path::new(OsStr::from_bytes(name)).components() {
        match component {
            Component::Normal(part) => path.push(part),
            Component::CurDir => {}
            Component::ParentDir => return Err("its name has a component '..'"),
            Component::RootDir | Component::Prefix(_) => return Err("its name is absolute"),
        }
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_names_are_kept_and_dots_are_dropped() {
        for (name, path) in [
            ("Pulumi.yaml", "Pulumi.yaml"),
            ("./a/b", "a/b"),
            ("a//b/", "a/b"),
            ("a/./b", "a/b"),
            ("./", ""),
            ("notes..txt", "notes..txt"),
            ("..a/b..", "..a/b.."),
        ] {
            assert_eq!(inside(name.as_bytes()), Ok(PathBuf::from(path)), "{name}");
        }
    }

    #[test]
    fn names_that_could_lead_elsewhere_are_refused() {
        for (name, why) in [
            ("", "empty"),
            ("/etc/passwd", "absolute"),
            ("//etc", "absolute"),
            ("..", "'..'"),
            ("../a", "'..'"),
            ("a/../../b", "'..'"),
            ("a/..", "'..'"),
            ("a\\b", "backslash"),
            ("..\\a", "backslash"),
            ("a\0b", "zero byte"),
        ] {
            let error = inside(name.as_bytes()).unwrap_err();
            assert!(error.contains(why), "{name:?}: {error}");
        }
    }

    #[test]
    fn names_need_not_be_text() {
        assert_eq!(inside(b"\xff/a").unwrap().as_os_str().as_bytes(), b"\xff/a");
    }
}
