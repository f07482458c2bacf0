//! Locks of a self-managed backend, as the CLI tells of them: who made each, and since when.

use jiff::Timestamp;

/// `…: created by user@host (pid 1) at 2026-11-15T23:15:47Z` is how the CLI tells of one lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lock {
    pub user: String,
    pub host: String,
    pub pid: i32,
    /// To the second.
    pub since: Timestamp,
}

impl Lock {
    fn of(line: &str) -> Option<Self> {
        let (who, pid, since) = parts(line)?;
        let (user, host) = who.rsplit_once('@')?;
        let (pid, since) = (pid.parse().ok()?, since.parse().ok()?);
        Some(Self { user: user.to_owned(), host: host.to_owned(), pid, since })
    }
}

/// All locks because of which the CLI refused to begin, from its standard error. Nothing, if there was another reason, or
/// if not every lock can be read.
pub fn locks(stderr: &str) -> Option<Vec<Lock>> {
    let (_, told) = stderr.split_once("error: the stack is currently locked by ")?;
    let (count, told) = told.split_once(" lock(s)")?;
    let lines: Vec<&str> = told.lines().filter(|line| line.contains(": created by ")).collect();
    let locks: Vec<Lock> = lines.iter().filter_map(|line| Lock::of(line)).collect();
    (count.parse() == Ok(locks.len()) && locks.len() == lines.len()).then_some(locks)
}

/// Who holds the stack and since when, and how to be rid of that.
pub(crate) fn conflict(text: &str, now: Timestamp) -> String {
    let mut holders: Vec<String> = Vec::new();
    for holder in text.lines().filter_map(|line| holder(line, now)) {
        if !holders.contains(&holder) {
            holders.push(holder);
        }
    }
    if holders.is_empty() {
        return "Another update of the stack is currently in progress. Wait for its end, or cancel it with \
                `pulumi cancel`."
            .to_owned();
    }
    format!(
        "The stack is locked by {}. Wait for that process to end; if it is gone, remove its lock with `pulumi cancel`.",
        holders.join(" and by ")
    )
}

fn holder(line: &str, now: Timestamp) -> Option<String> {
    let (who, pid, since) = parts(line)?;
    let age = since.parse::<Timestamp>().map(|since| age(now.as_second() - since.as_second()));
    Some(format!("{who} (pid {pid}) since {since}{}", age.unwrap_or_default()))
}

/// Who, which process, since when.
fn parts(line: &str) -> Option<(&str, &str, &str)> {
    let (who, rest) = line.split_once(": created by ")?.1.split_once(" (pid ")?;
    let (pid, since) = rest.split_once(") at ")?;
    Some((who, pid, since.trim()))
}

fn age(seconds: i64) -> String {
    match seconds {
        ..0 => String::new(),
        0..120 => format!(", {seconds} seconds ago"),
        120..7200 => format!(", {} minutes ago", seconds / 60),
        7200..172_800 => format!(", {} hours ago", seconds / 3600),
        _ => format!(", {} days ago", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(count: usize, lines: &[&str]) -> String {
        format!(
            "warning: using pulumi-language-yaml from $PATH\nerror: the stack is currently locked by {count} lock(s). \
             Either wait for the other process(es) to end or delete the lock file with `pulumi cancel`.\n{}\n",
            lines.join("\n")
        )
    }

    const ONE: &str = "  file:///b/07.json?no_tmp_dir=true: created by a@b@shop-0 (pid 31) at 2026-11-15T23:15:47Z";
    const OTHER: &str = "  s3://b/08.json: created by root@shop-1 (pid 7) at 2026-11-15T23:15:47+02:00";

    #[test]
    fn every_lock_is_read() {
        let found = locks(&told(2, &[ONE, OTHER])).unwrap();
        let shown: Vec<String> =
            found.iter().map(|lock| format!("{} {} {} {}", lock.user, lock.host, lock.pid, lock.since)).collect();
        assert_eq!(shown, ["a@b shop-0 31 2026-11-15T23:15:47Z", "root shop-1 7 2026-11-15T21:15:47Z"]);
    }

    #[test]
    fn locks_of_which_one_is_not_told_in_full_are_none() {
        for (why, text) in [
            ("another error", "error: no stack named 'dev' found".to_owned()),
            ("one is missing", told(2, &[ONE])),
            ("one too many", told(1, &[ONE, OTHER])),
            ("no time", told(1, &["  x: created by a@b (pid 1) at noon"])),
            ("no host", told(1, &["  x: created by a (pid 1) at 2026-11-15T23:15:47Z"])),
            ("no process", told(1, &["  x: created by a@b (pid x) at 2026-11-15T23:15:47Z"])),
            ("a broken line beside a good one", told(1, &[ONE, "  x: created by nobody"])),
        ] {
            assert_eq!(locks(&text), None, "{why}");
        }
    }
}
