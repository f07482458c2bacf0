//! Runs over gRPC.

use std::{sync::Arc, time::Duration};

use pko_proto::runs::{
    AttachRequest, AttachResponse, CancelMode, CancelRequest, CancelResponse, GetRequest, GetResponse, Heartbeat,
    ListRequest, ListResponse, OutputChunk, StartRequest, StartResponse, attach_response::What, runs_server::Runs,
};
use tokio::{
    sync::mpsc,
    time::{Instant, interval_at},
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, async_trait};

use super::{
    Refused, Registry,
    entry::{Entry, Wish},
    outputs,
    work::Work,
};

const HEARTBEAT: Duration = Duration::from_secs(10);
const CHUNK: usize = 1024 * 1024;

#[derive(Clone, Debug)]
pub(crate) struct RunsService(pub(crate) Arc<Registry>);

impl RunsService {
    fn find(&self, run_id: &str) -> Result<Arc<Entry>, Status> {
        self.0.find(run_id).ok_or_else(|| Status::not_found(format!("there is no run {run_id}")))
    }
}

impl From<Refused> for Status {
    fn from(refused: Refused) -> Self {
        let text = refused.to_string();
        match refused {
            Refused::Identifier | Refused::Stack => Self::invalid_argument(text),
            Refused::Busy { .. } => Self::failed_precondition(text),
            Refused::Closed => Self::unavailable(text),
            Refused::Journal(_) => Self::internal(text),
        }
    }
}

#[async_trait]
impl Runs for RunsService {
    async fn start(&self, request: Request<StartRequest>) -> Result<Response<StartResponse>, Status> {
        let StartRequest { run_id, operation } = request.into_inner();
        let operation = operation.ok_or_else(|| Status::invalid_argument("the request names no known operation"))?;
        let entry = self.0.start(&run_id, Work::of(operation))?;
        Ok(Response::new(StartResponse { run: Some(entry.to_proto()) }))
    }

    type AttachStream = ReceiverStream<Result<AttachResponse, Status>>;

    async fn attach(&self, request: Request<AttachRequest>) -> Result<Response<Self::AttachStream>, Status> {
        let request = request.into_inner();
        let entry = self.find(&request.run_id)?;
        let registry = Arc::clone(&self.0);
        let (sender, receiver) = mpsc::channel(4);
        tokio::spawn(async move {
            let to = Attached { sender, seq: request.after_seq };
            // The client has gone away, which is its right.
            let _ = to.follow(&entry, &registry, request.outputs).await;
        });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    async fn get(&self, request: Request<GetRequest>) -> Result<Response<GetResponse>, Status> {
        let entry = self.find(&request.into_inner().run_id)?;
        Ok(Response::new(GetResponse { run: Some(entry.to_proto()) }))
    }

    async fn list(&self, _: Request<ListRequest>) -> Result<Response<ListResponse>, Status> {
        Ok(Response::new(ListResponse { runs: self.0.all().iter().map(|entry| entry.to_proto()).collect() }))
    }

    async fn cancel(&self, request: Request<CancelRequest>) -> Result<Response<CancelResponse>, Status> {
        let request = request.into_inner();
        let entry = self.find(&request.run_id)?;
        entry.ask(match request.mode() {
            CancelMode::Unspecified | CancelMode::Graceful => Wish::Graceful,
            CancelMode::Forced => Wish::Forced,
        });
        Ok(Response::new(CancelResponse { run: Some(entry.to_proto()) }))
    }
}

/// The client of an attachment, and how much of the run it has seen.
struct Attached {
    sender: mpsc::Sender<Result<AttachResponse, Status>>,
    seq: u64,
}

struct Gone;

impl Attached {
    async fn send(&self, what: What) -> Result<(), Gone> {
        self.sender.send(Ok(AttachResponse { seq: self.seq, what: Some(what) })).await.map_err(|_| Gone)
    }

    async fn follow(mut self, entry: &Entry, registry: &Registry, with_outputs: bool) -> Result<(), Gone> {
        let mut views = entry.watch();
        let mut heartbeats = interval_at(Instant::now() + HEARTBEAT, HEARTBEAT);
        let end = loop {
            let view = views.borrow_and_update().clone();
            if let Some(end) = view.end {
                self.seq = view.seq.max(self.seq + 1);
                break end;
            }
            if view.seq > self.seq {
                let progress = view.progress(self.seq);
                self.seq = view.seq;
                self.send(What::Progress(progress)).await?;
            }
            tokio::select! {
                _ = views.changed() => {}
                _ = heartbeats.tick() => self.send(What::Heartbeat(Heartbeat {})).await?,
                () = self.sender.closed() => return Err(Gone),
            }
        };
        self.send(What::Ended(entry.to_proto())).await?;
        if !with_outputs || end.failure.is_some() || end.output_count == 0 {
            return Ok(());
        }
        let outputs = match outputs::all(entry, &registry.workspace).await {
            Ok(outputs) => outputs,
            Err(text) => {
                let status = Status::unavailable(format!("the outputs cannot be read now: {text}"));
                return self.sender.send(Err(status)).await.map_err(|_| Gone);
            }
        };
        for (name, output) in outputs {
            let mut chunks = output.value.as_bytes().chunks(CHUNK).peekable();
            while let Some(chunk) = chunks.next() {
                self.seq += 1;
                self.send(What::Output(OutputChunk {
                    name: name.clone(),
                    value: chunk.to_vec(),
                    secret: output.secret,
                    last: chunks.peek().is_none(),
                }))
                .await?;
            }
        }
        Ok(())
    }
}
