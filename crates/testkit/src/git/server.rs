//! A small HTTP server on loopback, with or without TLS, on a thread of its own, gone when it is dropped.

use std::{fs, io, net::SocketAddr, path::PathBuf, sync::Arc, thread};

use http_body_util::{BodyExt as _, Full};
use hyper::{
    Request, Response,
    body::{Bytes, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::{
    ServerConfig,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
    sync::oneshot,
};
use tokio_rustls::TlsAcceptor;

/// Answers a request, or drops the connection.
pub(super) type Handler = Arc<dyn Fn(Request<Bytes>) -> Option<Response<Vec<u8>>> + Send + Sync>;

pub(super) struct Server {
    pub(super) address: SocketAddr,
    ca: Option<(TempDir, PathBuf)>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Server {
    pub(super) fn start(tls: bool, handler: Handler) -> Self {
        let (acceptor, ca) = match tls.then(certificates) {
            Some((acceptor, dir, file)) => (Some(acceptor), Some((dir, file))),
            None => (None, None),
        };
        let (stop, stopped) = oneshot::channel();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
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
        Self { address, ca, stop: Some(stop), thread: Some(thread) }
    }

    pub(super) fn url(&self) -> String {
        let scheme = if self.ca.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// The file with the authority of its certificate.
    pub(super) fn ca_file(&self) -> PathBuf {
        self.ca.as_ref().expect("it has TLS").1.clone()
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

fn certificates() -> (TlsAcceptor, TempDir, PathBuf) {
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let names = vec!["127.0.0.1".to_owned(), "localhost".to_owned()];
    let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &authority).unwrap();
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("ca.pem");
    fs::write(&file, authority.pem()).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    (TlsAcceptor::from(Arc::new(config)), dir, file)
}
