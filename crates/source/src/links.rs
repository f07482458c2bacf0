//! Where the symbolic links of an archive lead, followed as the kernel would, before any of them exists. No IO here.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    path::{Component, Path, PathBuf},
};

/// Links by their place below the directory of extraction.
pub(crate) type Links = BTreeMap<PathBuf, PathBuf>;

/// The kernel follows no more links than this on one way.
const MOST_HOPS: usize = 40;

/// Why a link may not be made.
pub(crate) fn objection(links: &Links, link: &Path) -> Option<&'static str> {
    let under_another = link.ancestors().skip(1).any(|above| links.contains_key(above));
    if under_another {
        return Some("it lies behind another link");
    }
    if leads_outside(links, link) {
        return Some("it leads out of the archive");
    }
    None
}

/// Counting `..` in the text is not enough: with `up -> ..` in a directory, `dir/up/..` is above the root.
fn leads_outside(links: &Links, link: &Path) -> bool {
    let Some(target) = links.get(link) else { return false };
    let mut at: Vec<&OsStr> = link.parent().into_iter().flatten().collect();
    let mut ahead: Vec<Component> = target.components().rev().collect();
    let mut hops = 0;
    while let Some(step) = ahead.pop() {
        match step {
            Component::RootDir | Component::Prefix(_) => return true,
            Component::CurDir => {}
            Component::ParentDir => {
                if at.pop().is_none() {
                    return true;
                }
            }
            Component::Normal(name) => {
                at.push(name);
                if let Some(next) = links.get(&at.iter().collect::<PathBuf>()) {
                    hops += 1;
                    if hops > MOST_HOPS {
                        // The kernel refuses to follow these, so they lead nowhere at all.
                        return false;
                    }
                    at.pop();
                    ahead.extend(next.components().rev());
                }
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn links(pairs: &[(&str, &str)]) -> Links {
        pairs.iter().map(|(at, to)| (at.into(), to.into())).collect()
    }

    #[test]
    fn links_that_stay_inside_are_fine() {
        let links = links(&[
            ("current", "releases/3"),
            ("a/b/up", "../../shared"),
            ("a/root", ".."),
            ("dangling", "made/later"),
            ("self", "."),
        ]);
        for link in links.keys() {
            assert_eq!(objection(&links, link), None, "{link:?}");
        }
    }

    #[test]
    fn links_that_leave_are_refused() {
        for target in ["/etc/passwd", "..", "../x", "a/../../x", "a/b/../../../x"] {
            let links = links(&[("l", target)]);
            assert_eq!(objection(&links, Path::new("l")), Some("it leads out of the archive"), "{target}");
        }
        assert!(objection(&links(&[("a/b/l", "../../../x")]), Path::new("a/b/l")).is_some());
    }

    #[test]
    fn a_link_that_leaves_by_way_of_another_is_refused() {
        let links = links(&[("d/e/up", "../.."), ("x", "d/e/up/..")]);
        assert_eq!(objection(&links, Path::new("d/e/up")), None);
        assert_eq!(objection(&links, Path::new("x")), Some("it leads out of the archive"));
    }

    #[test]
    fn a_link_behind_a_link_is_refused() {
        let links = links(&[("a", "b"), ("a/c", "d")]);
        assert_eq!(objection(&links, Path::new("a/c")), Some("it lies behind another link"));
    }

    #[test]
    fn links_in_a_circle_end_the_search() {
        let links = links(&[("a", "b"), ("b", "a"), ("c", "c/../c")]);
        for link in links.keys() {
            assert_eq!(objection(&links, link), None, "{link:?}");
        }
    }
}
