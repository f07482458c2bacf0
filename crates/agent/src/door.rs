//! The one way in: every call is checked here, and then handed to its service. Only the agent's health is told to anyone:
//! probes have no token.

use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use tonic::{
    Status,
    body::Body,
    codegen::{Service, http},
    server::NamedService,
};

use crate::auth::Authorizer;

/// Two services behind one check, and one that is open.
#[derive(Clone, Debug)]
pub(crate) struct Door<A, B, O> {
    authorizer: Arc<Authorizer>,
    services: (A, B),
    open: O,
}

impl<A, B, O> Door<A, B, O> {
    pub(crate) fn new(authorizer: Authorizer, services: (A, B), open: O) -> Self {
        Self { authorizer: Arc::new(authorizer), services, open }
    }
}

type Answer = Result<http::Response<Body>, Infallible>;
type Answering = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// A service of generated code.
pub(crate) trait Served:
    Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible, Future: Send>
    + NamedService
    + Clone
    + Send
    + 'static
{
}

impl<S> Served for S where
    S: Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible, Future: Send>
        + NamedService
        + Clone
        + Send
        + 'static
{
}

impl<A: Served, B: Served, O: Served> Service<http::Request<Body>> for Door<A, B, O> {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Answering;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Answering {
        let authorizer = Arc::clone(&self.authorizer);
        let ((mut first, mut second), mut open) = (self.services.clone(), self.open.clone());
        Box::pin(async move {
            if service_of(request.uri().path()) == Some(O::NAME) {
                return open.call(request).await;
            }
            // Text that is no text cannot be a token either.
            let authorization = request.headers().get("authorization").and_then(|value| value.to_str().ok());
            if let Err(status) = authorizer.check(authorization).await {
                tracing::warn!(path = request.uri().path(), code = ?status.code(), "a call was refused");
                return Ok(status.into_http());
            }
            match service_of(request.uri().path()) {
                Some(name) if name == A::NAME => first.call(request).await,
                Some(name) if name == B::NAME => second.call(request).await,
                _ => Ok(Status::unimplemented("there is no such service").into_http()),
            }
        })
    }
}

fn service_of(path: &str) -> Option<&str> {
    path.strip_prefix('/')?.split_once('/').map(|(service, _)| service)
}
