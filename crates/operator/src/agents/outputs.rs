//! The outputs of a run, collected from their parts. What could not be stored anyway is not held.

use std::{collections::BTreeMap, time::Duration};

use pko_core::seen::PodRef;
use pko_proto::runs::{AttachRequest, OutputChunk, attach_response::What};
use tonic::Status;

use super::{Agents, failure, in_time};
use crate::cluster::Failure;

/// How long reading all outputs may take: the agent may have to ask the CLI for secret ones.
const DEADLINE: Duration = Duration::from_mins(1);
/// Most that a Secret can hold, and so the most that one output may have.
pub(crate) const LARGEST: usize = 1 << 20;
/// Most that is held of all outputs.
const MOST_HELD: usize = 8 << 20;

/// An output, as JSON text.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Output {
    pub value: Vec<u8>,
    pub secret: bool,
}

/// Values may be secret.
impl std::fmt::Debug for Output {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Output").field("secret", &self.secret).finish_non_exhaustive()
    }
}

/// Outputs by name, and the names of those that were too large to be held.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Collected {
    pub(crate) outputs: BTreeMap<String, Output>,
    pub(crate) left_out: Vec<String>,
}

impl Agents {
    /// All outputs of a run that succeeded.
    pub(crate) async fn outputs(&self, namespace: &str, pod: &PodRef, run_id: &str) -> Result<Collected, Failure> {
        if let Some(run) = self.streamed.find(pod, run_id) {
            return Ok(run.outputs());
        }
        let message = AttachRequest { run_id: run_id.to_owned(), after_seq: 0, outputs: true };
        let request = self.lines.request(namespace, pod, message).await?;
        let mut client = self.lines.runs(pod);
        let reading = async {
            let mut stream = in_time(client.attach(request)).await?.into_inner();
            let mut collected = Collected::default();
            let mut ended = false;
            while let Some(response) = stream.message().await? {
                match response.what {
                    Some(What::Output(chunk)) => collected.take(&chunk),
                    Some(What::Ended(_)) => ended = true,
                    _ => {}
                }
            }
            if ended { Ok(collected) } else { Err(Status::unavailable("the stream ended before the run")) }
        };
        let read = tokio::time::timeout(DEADLINE, reading).await;
        let read = read.unwrap_or_else(|_| Err(Status::deadline_exceeded(format!("not done within {DEADLINE:?}"))));
        read.map_err(|status| failure("reading the outputs of", run_id, namespace, pod, &status))
    }
}

impl Collected {
    pub(super) fn take(&mut self, chunk: &OutputChunk) {
        if self.left_out.contains(&chunk.name) {
            return;
        }
        let output = self.outputs.entry(chunk.name.clone()).or_default();
        output.secret |= chunk.secret;
        output.value.extend_from_slice(&chunk.value);
        if output.value.len() > LARGEST {
            self.leave_out(&chunk.name);
        }
        self.fit(MOST_HELD);
    }

    /// Leaves out the largest outputs until the rest is not larger than that.
    pub(crate) fn fit(&mut self, most: usize) {
        while self.outputs.values().map(|output| output.value.len()).sum::<usize>() > most {
            let largest = self.outputs.iter().max_by_key(|(_, output)| output.value.len());
            let Some(name) = largest.map(|(name, _)| name.clone()) else { return };
            self.leave_out(&name);
        }
    }

    fn leave_out(&mut self, name: &str) {
        self.outputs.remove(name);
        self.left_out.push(name.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(name: &str, size: usize) -> OutputChunk {
        OutputChunk { name: name.to_owned(), value: vec![b'1'; size], secret: name == "secret", last: false }
    }

    #[test]
    fn parts_follow_each_other() {
        let mut collected = Collected::default();
        collected.take(&chunk("a", 2));
        collected.take(&chunk("a", 3));
        collected.take(&chunk("secret", 1));
        assert_eq!(collected.outputs["a"].value, b"11111");
        assert!(collected.outputs["secret"].secret && !collected.outputs["a"].secret);
    }

    #[test]
    fn what_no_secret_can_hold_is_not_held() {
        let mut collected = Collected::default();
        for _ in 0..3 {
            collected.take(&chunk("large", LARGEST - 1));
        }
        collected.take(&chunk("small", 1));
        assert_eq!(collected.outputs.keys().collect::<Vec<_>>(), ["small"]);
        assert_eq!(collected.left_out, ["large"]);
    }

    #[test]
    fn the_largest_go_first() {
        let mut collected = Collected::default();
        for (name, size) in [("a", 10), ("b", 30), ("c", 20)] {
            collected.take(&chunk(name, size));
        }
        collected.fit(35);
        assert_eq!(collected.outputs.keys().collect::<Vec<_>>(), ["a", "c"]);
        assert_eq!(collected.left_out, ["b"]);
    }
}
