//! The two directions of a channel, blocking. What the remote program prints as errors, and how it ends, is kept for the
//! case that the other side makes no sense.

use std::{
    io::{self, Cursor, Read, Write},
    time::Duration,
};

use russh::{ChannelMsg, ChannelReadHalf, ChannelWriteHalf, client};
use tokio::{
    runtime::Handle,
    time::{Instant, timeout},
};

use super::Verifier;
use crate::git::{
    error::{GitError, one_line},
    transport::{Patience, Trouble},
};

const MOST_OF_STDERR: usize = 8192;

pub(in crate::git) struct Incoming {
    channel: ChannelReadHalf,
    /// The channel lives as long as its session.
    _session: client::Handle<Verifier>,
    runtime: Handle,
    patience: Patience,
    began: Instant,
    heard: u64,
    trouble: Trouble,
    chunk: Cursor<Vec<u8>>,
    stderr: Vec<u8>,
    exit: Option<String>,
    over: bool,
}

impl Incoming {
    pub(super) fn new(
        channel: ChannelReadHalf,
        session: client::Handle<Verifier>,
        runtime: Handle,
        patience: &Patience,
        trouble: Trouble,
    ) -> Self {
        Self {
            channel,
            _session: session,
            runtime,
            patience: patience.clone(),
            began: Instant::now(),
            heard: 0,
            trouble,
            chunk: Cursor::default(),
            stderr: Vec::new(),
            exit: None,
            over: false,
        }
    }

    /// The next piece; an empty one is the end.
    fn next(&mut self) -> io::Result<Vec<u8>> {
        while !self.over {
            let Patience { silence, whole, .. } = self.patience;
            let left = whole.map_or(silence, |whole| whole.saturating_sub(self.began.elapsed()));
            let waiting = async { timeout(silence.min(left), self.channel.wait()).await };
            match self.runtime.block_on(waiting) {
                Err(_) => {
                    let why = match whole {
                        Some(whole) if left < silence => format!("it takes longer than {whole:?}"),
                        _ => format!("the server said nothing for {silence:?}"),
                    };
                    return Err(noted(&self.trouble, self.trouble.unreachable(why)));
                }
                Ok(Some(ChannelMsg::Data { data })) if !data.is_empty() => {
                    self.heard = self
                        .patience
                        .enough(self.heard, data.len())
                        .map_err(|why| noted(&self.trouble, self.trouble.failed(why)))?;
                    return Ok(Vec::from(data));
                }
                Ok(Some(ChannelMsg::ExtendedData { data, .. })) => {
                    let room = MOST_OF_STDERR.saturating_sub(self.stderr.len());
                    self.stderr.extend_from_slice(&data[..data.len().min(room)]);
                }
                Ok(Some(ChannelMsg::ExitStatus { exit_status })) => self.exit = Some(format!("status {exit_status}")),
                Ok(Some(ChannelMsg::ExitSignal { signal_name, .. })) => {
                    self.exit = Some(format!("signal {signal_name:?}"));
                }
                Ok(Some(ChannelMsg::Failure)) => {
                    self.exit = Some("the refusal to start".to_owned());
                    self.over = true;
                }
                // After the end of data the exit status follows, and after that the channel is closed.
                Ok(None | Some(ChannelMsg::Close)) => self.over = true,
                Ok(Some(_)) => {}
            }
        }
        // It counts only if what came before was not all that should have come.
        self.trouble.note(self.end());
        Ok(Vec::new())
    }

    fn end(&self) -> GitError {
        let said = one_line(&String::from_utf8_lossy(&self.stderr));
        match (&self.exit, said.is_empty()) {
            (None, true) => self.trouble.unreachable("the connection ended too early"),
            (None, false) => {
                self.trouble.unreachable(format!("the connection ended; before that the server said: {said}"))
            }
            (Some(exit), true) => self.trouble.failed(format!("git-upload-pack of the server ended with {exit}")),
            (Some(exit), false) => {
                self.trouble.failed(format!("git-upload-pack of the server ended with {exit} and said: {said}"))
            }
        }
    }
}

fn noted(trouble: &Trouble, error: GitError) -> io::Error {
    let text = error.to_string();
    trouble.note(error);
    io::Error::other(text)
}

impl Read for Incoming {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.chunk.read(into)?;
        if count > 0 || into.is_empty() {
            return Ok(count);
        }
        self.chunk = Cursor::new(self.next()?);
        self.chunk.read(into)
    }
}

pub(in crate::git) struct Outgoing {
    channel: ChannelWriteHalf<client::Msg>,
    runtime: Handle,
    silence: Duration,
    trouble: Trouble,
}

impl Outgoing {
    pub(super) fn new(
        channel: ChannelWriteHalf<client::Msg>,
        runtime: Handle,
        silence: Duration,
        trouble: Trouble,
    ) -> Self {
        Self { channel, runtime, silence, trouble }
    }
}

impl Write for Outgoing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let sending = async { timeout(self.silence, self.channel.data_bytes(bytes.to_vec())).await };
        if self.runtime.block_on(sending).is_err() {
            let error = self.trouble.unreachable(format!("the server took nothing for {:?}", self.silence));
            return Err(noted(&self.trouble, error));
        }
        // A server that is gone may have said why: that is still to be read, and reading finds the end if not.
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
