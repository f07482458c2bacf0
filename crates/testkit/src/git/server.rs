//! A small HTTP server, with or without TLS, on a thread of its own, gone when it is dropped.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    thread,
};

use http_body_util::{BodyExt as _, Full};
use hyper::{
    Request, Response,
    body::{Bytes, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
    sync::oneshot,
};
use tokio_rustls::TlsAcceptor;

use super::Authority;

/// Answers a request, or drops the connection.
pub(super) type Handler = Arc<dyn Fn(Request<Bytes>) -> Option<Response<Vec<u8>>> + Send + Sync>;

pub(super) struct Server {
    pub(super) address: SocketAddr,
    tls: bool,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Server {
    /// With an authority it has TLS, by a certificate of that authority.
    pub(super) fn start(host: IpAddr, authority: Option<&Authority>, handler: Handler) -> Self {
        let acceptor = authority.map(|authority| authority.acceptor(host));
        let tls = acceptor.is_some();
        let (stop, stopped) = oneshot::channel();
        let listener = std::net::TcpListener::bind((host, 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
            runtime.block_on(async {
                let listener = TcpListener::from_std(listener).unwrap();
                tokio::select! {
                    () = serve(listener, acceptor, handler) => {}
                    _ = stopped => {}
                }
            });
        });
        Self { address, tls, stop: Some(stop), thread: Some(thread) }
    }

    pub(super) fn url(&self) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn serve(listener: TcpListener, acceptor: Option<TlsAcceptor>, handler: Handler) {
    loop {
        let Ok((connection, _)) = listener.accept().await else { continue };
        let (acceptor, handler) = (acceptor.clone(), Arc::clone(&handler));
        tokio::spawn(async move {
            match acceptor {
                Some(acceptor) => {
                    if let Ok(connection) = acceptor.accept(connection).await {
                        talk(connection, handler).await;
                    }
                }
                None => talk(connection, handler).await,
            }
        });
    }
}

async fn talk(connection: impl AsyncRead + AsyncWrite + Unpin, handler: Handler) {
    let answer = service_fn(|request: Request<Incoming>| {
        let handler = Arc::clone(&handler);
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
            let request = Request::from_parts(head, body);
            let answer = tokio::task::spawn_blocking(move || handler(request)).await?;
            // An error ends the connection without an answer.
            let answer = answer.ok_or_else(|| io::Error::other("dropped"))?;
            Ok::<_, io::Error>(answer.map(|body| Full::new(Bytes::from(body))))
        }
    });
    let _ = http1::Builder::new().serve_connection(TokioIo::new(connection), answer).await;
}
