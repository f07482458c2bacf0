//! Git over HTTP with the client that all of the agent uses: its timeouts, its certificates, its proxies.

use std::{
    any::Any,
    cell::RefCell,
    error::Error,
    io::{self, BufRead, Cursor, Read, Write},
    rc::Rc,
};

use gix::error::{ErrorExt as _, message};
use gix_transport::{
    Protocol,
    client::blocking_io::http::{self as gix_http, GetResponse, Http, PostBodyDataKind, PostResponse},
};
use reqwest::{Client, RequestBuilder, Response, StatusCode, Url, header::AUTHORIZATION};
use tokio::runtime::Handle;

use super::{
    credentials::Login,
    error::{GitError, one_line},
    transport::{Patience, Trouble},
    url::HttpPlace,
};
use crate::http;

/// What of an answer's text is worth repeating when it is a refusal.
const MOST_OF_A_REFUSAL: usize = 4096;

pub(super) struct HttpConnection {
    client: Client,
    runtime: Handle,
    login: Login,
    /// Credentials go to where the repository was said to be, and nowhere else.
    home: Url,
    /// Where it is instead, if the server sent us there.
    moved_to: Option<String>,
    patience: Patience,
    trouble: Trouble,
}

impl HttpConnection {
    pub(super) fn open(
        place: &HttpPlace,
        login: &Login,
        patience: &Patience,
        trouble: &Trouble,
    ) -> Result<gix_http::Transport<Self>, GitError> {
        let builder = || patience.applied(http::builder());
        let client = http::build(builder, &place.url).map_err(|error| {
            trouble.failed(format!(
                "the HTTP client cannot start: {}; for https the image needs CA certificates, or SSL_CERT_FILE must \
                 name them",
                http::reason(error)
            ))
        })?;
        let connection = Self {
            client,
            runtime: Handle::current(),
            login: login.clone(),
            home: place.url.clone(),
            moved_to: None,
            patience: patience.clone(),
            trouble: trouble.clone(),
        };
        let url = gix::Url::try_from(place.url.as_str()).map_err(|error| trouble.failed(error.to_string()))?;
        Ok(gix_http::connect_http(connection, url, Protocol::V2, false))
    }

    fn request(
        &self,
        url: &str,
        post: bool,
        headers: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> gix::Result<RequestBuilder> {
        let url = Url::parse(url).map_err(|error| message!("{error}").raise())?;
        let at_home = url.origin() == self.home.origin();
        let mut request = if post { self.client.post(url) } else { self.client.get(url) };
        for header in headers {
            if let Some((name, value)) = header.as_ref().split_once(':') {
                request = request.header(name, value.trim());
            }
        }
        if let Some(header) = self.login.header.as_ref().filter(|_| at_home) {
            request = request.header(AUTHORIZATION, header.reveal());
        }
        Ok(request)
    }

    fn exchange(&self, state: State) -> Rc<RefCell<Exchange>> {
        Rc::new(RefCell::new(Exchange {
            runtime: self.runtime.clone(),
            patience: self.patience.clone(),
            heard: 0,
            trouble: self.trouble.clone(),
            state,
        }))
    }

    fn failed<T>(&self, error: GitError) -> gix::Result<T> {
        let text = error.to_string();
        self.trouble.note(error);
        Err(message!("{text}").raise())
    }
}

/// Sends a request and takes no answer but the one that was asked for.
fn send(runtime: &Handle, request: RequestBuilder, login: &Login, trouble: &Trouble) -> Result<Response, GitError> {
    runtime.block_on(async {
        let mut response = match request.send().await {
            Ok(response) => response,
            Err(error) if is_about_certificates(&error) => {
                let hint = "if its CA is one of yours, SSL_CERT_FILE must name a file that has it";
                return Err(trouble.failed(format!("{}; {hint}", http::reason(error))));
            }
            Err(error) => return Err(trouble.unreachable(http::reason(error))),
        };
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let mut said = Vec::new();
        if response.headers().get("content-type").is_some_and(|kind| kind.as_bytes().starts_with(b"text/plain")) {
            while let (true, Ok(Some(chunk))) = (said.len() < MOST_OF_A_REFUSAL, response.chunk().await) {
                said.extend_from_slice(&chunk);
            }
        }
        let said = match one_line(&login.scrubbed(&String::from_utf8_lossy(&said))) {
            said if said.is_empty() => String::new(),
            said => format!(", and says: {said}"),
        };
        let used = login.origin;
        Err(match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                trouble.refused(format!("the server answers {status} to {used}{said}"))
            }
            StatusCode::NOT_FOUND => trouble.failed(format!(
                "the server answers {status}: there is no such repository, or it is not shown to {used}{said}"
            )),
            status if http::is_transient(status) => trouble.unreachable(format!("the server answers {status}{said}")),
            status => trouble.failed(format!("the server answers {status}{said}")),
        })
    })
}

/// Trying again does not change whom a certificate is from.
fn is_about_certificates(error: &reqwest::Error) -> bool {
    let mut cause = error.source();
    while let Some(inner) = cause {
        let wrapped = inner.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        let tls = wrapped.and_then(|e| e.downcast_ref()).or_else(|| inner.downcast_ref::<rustls::Error>());
        if matches!(tls, Some(rustls::Error::InvalidCertificate(_))) {
            return true;
        }
        cause = match wrapped {
            Some(wrapped) => Some(wrapped),
            None => inner.source(),
        };
    }
    false
}

impl Http for HttpConnection {
    type Headers = Headers;
    type ResponseBody = Body;
    type PostBody = Outgoing;

    fn get(
        &mut self,
        url: &str,
        base_url: &str,
        headers: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> gix::Result<GetResponse<Headers, Body>> {
        let request = self.request(url, false, headers)?;
        let response = match send(&self.runtime, request, &self.login, &self.trouble) {
            Ok(response) => response,
            Err(error) => return self.failed(error),
        };
        if response.url().as_str() != url {
            let tail = url.strip_prefix(base_url).unwrap_or(url);
            let Some(base) = response.url().as_str().strip_suffix(tail) else {
                let elsewhere = http::shown(response.url());
                return self.failed(self.trouble.failed(format!("it leads to {elsewhere}, which is no repository")));
            };
            self.moved_to = Some(base.to_owned());
        }
        let exchange = self.exchange(State::Answer(response));
        Ok(GetResponse { headers: Headers::new(&exchange), body: Body::new(&exchange) })
    }

    fn post(
        &mut self,
        url: &str,
        _base_url: &str,
        headers: impl IntoIterator<Item = impl AsRef<str>>,
        _body: PostBodyDataKind,
    ) -> gix::Result<PostResponse<Headers, Body, Outgoing>> {
        let request = self.request(url, true, headers)?;
        let state = State::Question { request: Box::new(request), body: Vec::new(), login: self.login.clone() };
        let exchange = self.exchange(state);
        Ok(PostResponse {
            post_body: Outgoing(Rc::clone(&exchange)),
            headers: Headers::new(&exchange),
            body: Body::new(&exchange),
        })
    }

    fn configure(&mut self, _config: &dyn Any) -> gix::Result {
        Ok(())
    }

    fn redirected_base_url(&self) -> Option<String> {
        self.moved_to.clone()
    }
}

/// A question, then its answer. What is asked for is small, so it is sent when somebody wants the answer.
pub(super) struct Exchange {
    runtime: Handle,
    patience: Patience,
    heard: u64,
    trouble: Trouble,
    state: State,
}

enum State {
    Question { request: Box<RequestBuilder>, body: Vec<u8>, login: Login },
    Answer(Response),
    Over,
}

impl Exchange {
    fn answer(&mut self) -> io::Result<&mut Response> {
        self.state = match std::mem::replace(&mut self.state, State::Over) {
            State::Question { request, body, login } => {
                let sent = send(&self.runtime, request.body(body), &login, &self.trouble);
                State::Answer(sent.map_err(|error| self.broken(error))?)
            }
            other => other,
        };
        match &mut self.state {
            State::Answer(response) => Ok(response),
            _ => Err(io::Error::other("the request failed before")),
        }
    }

    fn broken(&self, error: GitError) -> io::Error {
        let text = error.to_string();
        self.trouble.note(error);
        io::Error::other(text)
    }

    fn chunk(&mut self) -> io::Result<Vec<u8>> {
        let runtime = self.runtime.clone();
        loop {
            match runtime.block_on(self.answer()?.chunk()) {
                Ok(Some(chunk)) if chunk.is_empty() => {}
                Ok(chunk) => {
                    let chunk = chunk.map(Vec::from).unwrap_or_default();
                    self.heard = self
                        .patience
                        .enough(self.heard, chunk.len())
                        .map_err(|why| self.broken(self.trouble.failed(why)))?;
                    return Ok(chunk);
                }
                Err(error) => return Err(self.broken(self.trouble.unreachable(http::reason(error)))),
            }
        }
    }
}

pub(super) struct Outgoing(Rc<RefCell<Exchange>>);

impl Write for Outgoing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.0.borrow_mut().state {
            State::Question { body, .. } => body.write(bytes),
            _ => Err(io::Error::other("the request was sent before")),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The headers of an answer, a line each.
pub(super) struct Headers {
    exchange: Rc<RefCell<Exchange>>,
    lines: Option<Cursor<Vec<u8>>>,
}

impl Headers {
    fn new(exchange: &Rc<RefCell<Exchange>>) -> Self {
        Self { exchange: Rc::clone(exchange), lines: None }
    }
}

impl BufRead for Headers {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        let lines = if let Some(lines) = self.lines.take() {
            lines
        } else {
            let mut lines = Vec::new();
            for (name, value) in self.exchange.borrow_mut().answer()?.headers() {
                lines.extend([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\n"].concat());
            }
            Cursor::new(lines)
        };
        self.lines.insert(lines).fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        if let Some(lines) = &mut self.lines {
            lines.consume(amount);
        }
    }
}

impl Read for Headers {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.fill_buf()?.read(into)?;
        self.consume(count);
        Ok(count)
    }
}

pub(super) struct Body {
    exchange: Rc<RefCell<Exchange>>,
    chunk: Cursor<Vec<u8>>,
}

impl Body {
    fn new(exchange: &Rc<RefCell<Exchange>>) -> Self {
        Self { exchange: Rc::clone(exchange), chunk: Cursor::default() }
    }
}

impl BufRead for Body {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.chunk.fill_buf()?.is_empty() {
            self.chunk = Cursor::new(self.exchange.borrow_mut().chunk()?);
        }
        self.chunk.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        self.chunk.consume(amount);
    }
}

impl Read for Body {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.fill_buf()?.read(into)?;
        self.consume(count);
        Ok(count)
    }
}
