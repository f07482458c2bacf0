//! Large messages, one at a time: an agent may send a result of hundreds of megabytes, and several may do so at once. Who
//! has not got its turn is not read from, so that its agent holds the message, and not we.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use hyper::body::{Body as HttpBody, Bytes, Frame};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::{
    body::Body,
    codegen::{Service, http},
    transport::{Channel, Error},
};

/// Most that PKO's operator takes in one message.
pub(in crate::agents) const LARGEST_RESULT: usize = 400 << 20;
/// What is larger has to wait for its turn.
const LARGE: usize = 8 << 20;
/// Nobody waits longer for its turn: one who has it may have been forgotten by its agent.
const PATIENCE: Duration = Duration::from_mins(2);
/// In front of each message: whether it is compressed, and its length.
const PREFIX: usize = 5;

/// A connection whose large messages take turns with those of others.
#[derive(Clone, Debug)]
pub(in crate::agents) struct Paced {
    channel: Channel,
    turns: Arc<Semaphore>,
}

impl Paced {
    pub(in crate::agents) fn new(channel: Channel, turns: Arc<Semaphore>) -> Self {
        Self { channel, turns }
    }
}

type Answering = Pin<Box<dyn Future<Output = Result<http::Response<PacedBody>, Error>> + Send>>;

impl Service<http::Request<Body>> for Paced {
    type Response = http::Response<PacedBody>;
    type Error = Error;
    type Future = Answering;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.channel.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<Body>) -> Answering {
        let answer = self.channel.call(request);
        let turns = Arc::clone(&self.turns);
        Box::pin(async move { Ok(answer.await?.map(|body| PacedBody::new(body, turns))) })
    }
}

type Waiting = Pin<Box<dyn Future<Output = Option<OwnedSemaphorePermit>> + Send>>;

/// The messages of one answer.
pub(in crate::agents) struct PacedBody {
    body: Body,
    at: At,
    turns: Arc<Semaphore>,
    /// The part that a large message begins in, while it waits.
    waiting: Option<(Waiting, Bytes)>,
    /// Held until the message was taken and the next one is asked for.
    turn: Option<OwnedSemaphorePermit>,
}

impl PacedBody {
    fn new(body: Body, turns: Arc<Semaphore>) -> Self {
        Self { body, at: At::default(), turns, waiting: None, turn: None }
    }
}

impl HttpBody for PacedBody {
    type Data = Bytes;
    type Error = tonic::Status;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = self.get_mut();
        if this.waiting.is_none() {
            if !this.at.in_large() {
                this.turn = None;
            }
            let frame = match ready!(Pin::new(&mut this.body).poll_frame(context)) {
                Some(Ok(frame)) => frame,
                other => return Poll::Ready(other),
            };
            let part = match frame.into_data() {
                Ok(part) => part,
                Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
            };
            if !this.at.pass(&part) || this.turn.is_some() {
                return Poll::Ready(Some(Ok(Frame::data(part))));
            }
            let turn = tokio::time::timeout(PATIENCE, Arc::clone(&this.turns).acquire_owned());
            this.waiting = Some((Box::pin(async { turn.await.ok()?.ok() }), part));
        }
        if let Some((waiting, _)) = &mut this.waiting {
            this.turn = ready!(waiting.as_mut().poll(context));
        }
        Poll::Ready(this.waiting.take().map(|(_, part)| Ok(Frame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        self.waiting.is_none() && self.body.is_end_stream()
    }
}

/// Where in the row of messages a body is.
#[derive(Debug, Default)]
struct At {
    prefix: [u8; PREFIX],
    /// How much of a prefix is known.
    known: usize,
    /// How much of the message is to come.
    left: usize,
    large: bool,
}

impl At {
    /// Takes the next part; true if a large message begins in it.
    fn pass(&mut self, mut part: &[u8]) -> bool {
        let mut large = false;
        while !part.is_empty() {
            if self.left > 0 {
                let taken = self.left.min(part.len());
                self.left -= taken;
                part = &part[taken..];
                continue;
            }
            self.prefix[self.known] = part[0];
            self.known += 1;
            part = &part[1..];
            if self.known == PREFIX {
                let [_, length @ ..] = self.prefix;
                self.left = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
                self.large = self.left > LARGE;
                large |= self.large;
                self.known = 0;
            }
        }
        large
    }

    fn in_large(&self) -> bool {
        self.large && self.left > 0
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use http_body_util::Full;

    use super::*;

    fn message(length: usize) -> Vec<u8> {
        let prefix = u32::try_from(length).unwrap().to_be_bytes();
        [0].into_iter().chain(prefix).chain(std::iter::repeat_n(0, length)).collect()
    }

    #[test]
    fn large_messages_are_found_wherever_their_parts_are_cut() {
        let row: Vec<u8> = [message(3), message(0), message(LARGE + 1), message(LARGE)].concat();
        let first = message(3).len() + message(0).len();
        for size in [1, 2, 7, 4096, row.len()] {
            let mut at = At::default();
            let found: Vec<usize> =
                (0..).zip(row.chunks(size)).filter(|(_, part)| at.pass(part)).map(|(n, _)| n).collect();
            assert_eq!(found, [(first + PREFIX - 1) / size], "in parts of {size}");
            assert!(!at.in_large());
        }
    }

    #[tokio::test]
    async fn of_two_large_messages_the_second_is_read_when_the_first_was_taken() {
        let turns = Arc::new(Semaphore::new(1));
        let body = |length| PacedBody::new(Body::new(Full::new(Bytes::from(message(length)))), Arc::clone(&turns));
        let mut context = Context::from_waker(Waker::noop());
        let mut poll = |body: &mut PacedBody| Pin::new(body).poll_frame(&mut context);
        let (mut first, mut second, mut small) = (body(LARGE + 1), body(LARGE + 1), body(LARGE));
        assert!(matches!(poll(&mut first), Poll::Ready(Some(Ok(_)))));
        assert!(poll(&mut second).is_pending());
        assert!(matches!(poll(&mut small), Poll::Ready(Some(Ok(_)))), "small ones pass by");
        assert!(poll(&mut second).is_pending());
        assert!(matches!(poll(&mut first), Poll::Ready(None)), "the first was taken, and the next is asked for");
        assert!(matches!(poll(&mut second), Poll::Ready(Some(Ok(_)))));
    }
}
