//! What is kept of a stream of text: its beginning and its end, its permalink, or the whole of a bounded answer.

use std::collections::VecDeque;

/// Enough for the last words of a program; a run may print without end.
const TAIL: usize = 64 * 1024;
/// Enough to see what it was.
const BEGINNING: usize = 4 * 1024;
/// Longer lines are cut in the log.
const LINE: usize = 8 * 1024;
/// The longest answer that is read.
const ANSWER: usize = 256 * 1024 * 1024;

const PERMALINKS: [&str; 4] = ["View Live: ", "View in Browser: ", "View in Browser (Ctrl+O): ", "Permalink: "];

/// The text of one stream, as it comes in.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    beginning: Vec<u8>,
    end: VecDeque<u8>,
    cut: bool,
    line: Vec<u8>,
    permalink: Option<String>,
    whole: bool,
    too_long: bool,
}

impl Kept {
    /// Keeps everything, up to a limit, instead of the end.
    pub(crate) fn whole() -> Self {
        Self { whole: true, ..Self::default() }
    }

    /// Takes more text and hands out the lines that are complete.
    pub(crate) fn push(&mut self, bytes: &[u8], mut each_line: impl FnMut(&str)) {
        if self.whole {
            self.too_long |= self.end.len() + bytes.len() > ANSWER;
            if !self.too_long {
                self.end.extend(bytes);
            }
            return;
        }
        self.beginning.extend(bytes.iter().take(BEGINNING - self.beginning.len()));
        self.end.extend(bytes);
        let lost = self.end.len().saturating_sub(TAIL);
        self.cut |= lost > 0;
        self.end.drain(..lost);
        for piece in bytes.split_inclusive(|b| *b == b'\n') {
            let room = LINE.saturating_sub(self.line.len());
            self.line.extend(piece.iter().take(room));
            if piece.ends_with(b"\n") {
                self.end_line(&mut each_line);
            }
        }
    }

    /// The stream has ended, perhaps in the middle of a line.
    pub(crate) fn finish(&mut self, mut each_line: impl FnMut(&str)) {
        if !self.line.is_empty() {
            self.end_line(&mut each_line);
        }
    }

    fn end_line(&mut self, each_line: &mut impl FnMut(&str)) {
        let line = std::mem::take(&mut self.line);
        let line = String::from_utf8_lossy(&line);
        let line = line.trim_end();
        if self.permalink.is_none() {
            self.permalink = PERMALINKS
                .iter()
                .find_map(|p| line.split_once(p).map(|(_, link)| link.trim().to_owned()))
                .filter(|link| !link.is_empty());
        }
        if !line.is_empty() {
            each_line(line);
        }
    }

    pub(crate) fn permalink(&self) -> Option<&str> {
        self.permalink.as_deref()
    }

    /// The beginning of a stream of which the end is not the whole.
    pub(crate) fn beginning(&self) -> Option<String> {
        self.cut.then(|| String::from_utf8_lossy(&self.beginning).into_owned())
    }

    /// Nothing, if the answer was longer than anyone should hold in memory.
    pub(crate) fn take(&mut self) -> Option<String> {
        let bytes: Vec<u8> = std::mem::take(&mut self.end).into();
        (!self.too_long).then(|| match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(bad) => String::from_utf8_lossy(bad.as_bytes()).into_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_beginning_and_the_end_of_a_long_stream_are_kept() {
        let mut kept = Kept::default();
        let mut lines = 0;
        for i in 0..100_000 {
            kept.push(format!("line {i}\n").as_bytes(), |_| lines += 1);
        }
        let beginning = kept.beginning().unwrap();
        assert!(beginning.len() == BEGINNING && beginning.starts_with("line 0\n"));
        let text = kept.take().unwrap();
        assert!(text.len() <= TAIL && text.ends_with("line 99999\n"), "{} bytes", text.len());
        assert_eq!(lines, 100_000);
    }

    #[test]
    fn lines_come_whole_though_they_arrive_in_pieces_and_endless_ones_are_cut() {
        let mut kept = Kept::default();
        let mut lines = Vec::new();
        for piece in ["on", "e\ntwo\nth", "ree"] {
            kept.push(piece.as_bytes(), |l| lines.push(l.to_owned()));
        }
        kept.push(&vec![b'x'; 3 * LINE], |l| lines.push(l.to_owned()));
        kept.finish(|l| lines.push(l.to_owned()));
        assert_eq!(lines[..2], ["one", "two"]);
        assert_eq!(lines[2].len(), LINE);
    }

    #[test]
    fn the_first_permalink_is_remembered() {
        let mut kept = Kept::default();
        kept.push(b"Updating\nView Live: https://app/1\nView Live: https://app/2\n", |_| {});
        assert_eq!(kept.permalink(), Some("https://app/1"));
    }
}
