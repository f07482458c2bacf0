//! From a connection to an answer: reading, remembering what was asked, and failing on demand.

use std::{
    convert::Infallible,
    net,
    sync::{Arc, Mutex, PoisonError},
    thread,
};

use http_body_util::{BodyExt as _, Full};
use hyper::{
    Request, Response, StatusCode,
    body::{Bytes, Incoming},
    header,
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::{net::TcpListener, runtime, sync::oneshot};

use super::{
    request::{Answer, Asked, Problem},
    routes,
    state::State,
};

/// A server on a thread of its own, so that a test may wait for a process without keeping it from its answers. It ends
/// with this value.
#[derive(Debug)]
pub(super) struct Running {
    _stop: oneshot::Sender<()>,
}

impl Running {
    pub(super) fn start(listener: net::TcpListener, state: Arc<Mutex<State>>) -> Self {
        let (stop, stopped) = oneshot::channel::<()>();
        let runtime = runtime::Builder::new_current_thread().enable_io().build().expect("a runtime can be built");
        listener.set_nonblocking(true).expect("a listener can be made not to block");
        thread::spawn(move || {
            runtime.block_on(async {
                let listener = TcpListener::from_std(listener).expect("a listener can be taken over");
                tokio::spawn(serve(listener, state));
                // Nothing is ever sent: the other side is dropped.
                let _ = stopped.await;
            });
        });
        Self { _stop: stop }
    }
}

async fn serve(listener: TcpListener, state: Arc<Mutex<State>>) {
    while let Ok((stream, _)) = listener.accept().await {
        let state = Arc::clone(&state);
        tokio::spawn(async move {
            let service = service_fn(|request| {
                let state = Arc::clone(&state);
                async move { Ok::<_, Infallible>(respond(request, &state).await) }
            });
            // A client that goes away in the middle is none of our business.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn respond(request: Request<Incoming>, state: &Mutex<State>) -> Response<Full<Bytes>> {
    let (head, body) = request.into_parts();
    let text = |name| head.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    let (method, path) = (head.method.as_str(), head.uri.path());
    let body = body.collect().await.map(|body| body.to_bytes().to_vec()).unwrap_or_default();
    let compressed = text(header::CONTENT_ENCODING) == "gzip";
    let asked = Asked::new(method, path, head.uri.query(), text(header::AUTHORIZATION), compressed, body);
    let line = format!("{method} {path}");
    let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
    let answer = match fault(&mut state, &line) {
        Some(status) => Err(Problem::new(status, "Provoked by the test")),
        None => asked.and_then(|asked| routes::answer(&mut state, &asked)),
    };
    let response = render(answer);
    state.requests.push(format!("{line} {}", response.status().as_u16()));
    response
}

fn fault(state: &mut State, line: &str) -> Option<u16> {
    let fault = state.faults.iter_mut().find(|fault| fault.times > 0 && line.contains(&fault.words))?;
    fault.times -= 1;
    Some(fault.status)
}

fn render(answer: Answer) -> Response<Full<Bytes>> {
    let (status, body) = match answer {
        Ok(Value::Null) => (StatusCode::NO_CONTENT, String::new()),
        Ok(body) => (StatusCode::OK, body.to_string()),
        Err(problem) => (StatusCode::from_u16(problem.code).unwrap_or_default(), problem.body.to_string()),
    };
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    response
}
