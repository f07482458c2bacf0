//! The least of an HTTP server: what health checks and artifacts need.

use std::{convert::Infallible, io, sync::Arc, time::Duration};

use http_body_util::Full;
use hyper::{Method, Request, Response, body::Incoming, header, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{net::TcpListener, sync::Semaphore};
use tracing::{debug, warn};

/// How long a client may take for its headers, and for its next request.
const HEADERS: Duration = Duration::from_secs(10);
/// How long a connection may last.
const CONNECTION: Duration = Duration::from_mins(5);
const MOST_CONNECTIONS: usize = 256;

pub(crate) type Body = Full<hyper::body::Bytes>;

/// Listens at an address as Go takes it: without a host, on all interfaces and both protocols.
pub async fn listen(address: &str) -> io::Result<TcpListener> {
    let named = |error: io::Error| io::Error::new(error.kind(), format!("listening at {address}: {error}"));
    let Some(port) = address.strip_prefix(':') else { return TcpListener::bind(address).await.map_err(named) };
    match TcpListener::bind(format!("[::]:{port}")).await {
        Ok(listener) => Ok(listener),
        // A machine without IPv6.
        Err(_) => TcpListener::bind(format!("0.0.0.0:{port}")).await.map_err(named),
    }
}

/// Answers by method and path, for ever.
pub(crate) async fn answer<A, F>(listener: TcpListener, answer: A)
where
    A: Fn(Method, String) -> F + Send + Sync + 'static,
    F: Future<Output = Response<Body>> + Send + 'static,
{
    let answer = Arc::new(answer);
    let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                warn!("accepting a connection: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let answer = Arc::clone(&answer);
        tokio::spawn(async move {
            let service = service_fn(|request: Request<Incoming>| {
                let response = answer(request.method().clone(), request.uri().path().to_owned());
                async move { Ok::<_, Infallible>(response.await) }
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEADERS)
                .max_buf_size(16 << 10)
                .serve_connection(TokioIo::new(stream), service);
            if let Ok(Err(error)) = tokio::time::timeout(CONNECTION, connection).await {
                debug!("a connection ended: {error}");
            }
            drop(place);
        });
    }
}

/// A short text.
pub(crate) fn text(status: u16, text: impl Into<String>) -> Response<Body> {
    let mut response = Response::new(Full::new(text.into().into()));
    *response.status_mut() = hyper::StatusCode::from_u16(status).unwrap_or_default();
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}
