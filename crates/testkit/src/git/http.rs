//! The real `git http-backend` as CGI behind our server, with the faults that a test asks for.

use std::{
    collections::{BTreeMap, VecDeque},
    fs,
    io::Write as _,
    net::IpAddr,
    path::{Path, PathBuf},
    process::Stdio,
    sync::{Arc, Mutex},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use hyper::{Request, Response, StatusCode, body::Bytes};

use tempfile::TempDir;

use super::{
    App, Authority, LOOPBACK, Repositories,
    github::{API, AppsApi},
    repository::git,
    server::{Handler, Server},
};

const CA: &str = "ca.pem";

/// What happens to a request instead of an answer.
#[derive(Debug, Clone)]
pub enum Fault {
    /// An answer with this status and this text.
    Status(u16, &'static str),
    /// The connection ends without an answer.
    Drop,
    /// The answer breaks off after as many bytes.
    Cut(usize),
}

/// A request that came in.
#[derive(Debug, Clone)]
pub struct Seen {
    pub path: String,
    pub authorization: Option<String>,
}

#[derive(Debug, Default)]
struct State {
    seen: Vec<Seen>,
    faults: VecDeque<Fault>,
    login: Option<String>,
    /// The same for some repositories only.
    logins: BTreeMap<String, String>,
    /// Where every request is sent on to.
    elsewhere: Option<String>,
    old_protocol: bool,
}

pub struct HttpServer {
    server: Server,
    state: Arc<Mutex<State>>,
    ca: Option<TempDir>,
}

impl std::fmt::Debug for HttpServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpServer").field("url", &self.server.url()).finish_non_exhaustive()
    }
}

impl HttpServer {
    pub fn plain(repositories: &Repositories) -> Self {
        Self::plain_at(LOOPBACK, repositories)
    }

    pub fn plain_at(host: IpAddr, repositories: &Repositories) -> Self {
        Self::start(host, None, repositories, None)
    }

    /// With an authority of its own.
    pub fn with_tls(repositories: &Repositories) -> Self {
        let authority = Authority::new();
        let mut server = Self::start(LOOPBACK, Some(&authority), repositories, None);
        let dir = TempDir::new().unwrap();
        fs::write(dir.path().join(CA), authority.pem()).unwrap();
        server.ca = Some(dir);
        server
    }

    /// GitHub Enterprise: repositories and an app that may read them on one host.
    pub fn with_tls_at(host: IpAddr, authority: &Authority, repositories: &Repositories, app: App) -> Self {
        Self::start(host, Some(authority), repositories, Some(AppsApi::new(app)))
    }

    fn start(host: IpAddr, authority: Option<&Authority>, repositories: &Repositories, api: Option<AppsApi>) -> Self {
        let state = Arc::new(Mutex::new(State::default()));
        let (root, shared) = (repositories.root().to_owned(), Arc::clone(&state));
        let handler: Handler = Arc::new(move |request| match &api {
            Some(api) if request.uri().path().starts_with(API) => api.answer(&request),
            _ => answer(&root, &shared, &request),
        });
        Self { server: Server::start(host, authority, handler), state, ca: None }
    }

    /// The address of a repository.
    pub fn url(&self, name: &str) -> String {
        format!("{}/{name}", self.server.url())
    }

    /// The same with this before the host, such as `me:password@`.
    pub fn url_with(&self, user: &str, name: &str) -> String {
        self.url(name).replacen("://", &format!("://{user}"), 1)
    }

    /// The file with the authority of its own.
    pub fn ca_file(&self) -> PathBuf {
        self.ca.as_ref().expect("it has an authority of its own").path().join(CA)
    }

    /// From now on this user and password are wanted.
    pub fn require_login(&self, user: &str, password: &str) {
        self.state.lock().unwrap().login = Some(basic(user, password));
    }

    /// From now on this user and password are wanted for this repository.
    pub fn close(&self, name: &str, user: &str, password: &str) {
        self.state.lock().unwrap().logins.insert(name.to_owned(), basic(user, password));
    }

    /// What happens to the next requests.
    pub fn fail_next(&self, faults: impl IntoIterator<Item = Fault>) {
        self.state.lock().unwrap().faults.extend(faults);
    }

    pub fn redirect_to(&self, url: &str) {
        self.state.lock().unwrap().elsewhere = Some(url.to_owned());
    }

    /// The server speaks the protocol of old, in which it gives no commit that it did not offer.
    pub fn speak_old_protocol(&self) {
        self.state.lock().unwrap().old_protocol = true;
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.state.lock().unwrap().seen.clone()
    }
}

fn basic(user: &str, password: &str) -> String {
    format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:{password}")))
}

fn answer(root: &Path, state: &Mutex<State>, request: &Request<Bytes>) -> Option<Response<Vec<u8>>> {
    let (fault, login, elsewhere, old_protocol) = {
        let mut state = state.lock().unwrap();
        let authorization = request.headers().get("authorization").map(|v| v.to_str().unwrap().to_owned());
        state.seen.push(Seen { path: request.uri().path().to_owned(), authorization });
        let repository = request.uri().path().trim_start_matches('/');
        let of_it = state.logins.iter().find(|(name, _)| repository.starts_with(&format!("{name}/")));
        let login = of_it.map(|(_, login)| login.clone()).or_else(|| state.login.clone());
        (state.faults.pop_front(), login, state.elsewhere.clone(), state.old_protocol)
    };
    let plain = |status: u16, text: &str| {
        let status = StatusCode::from_u16(status).unwrap();
        let mut response = Response::builder().status(status).header("content-type", "text/plain");
        if status == StatusCode::UNAUTHORIZED {
            response = response.header("www-authenticate", "Basic realm=\"test\"");
        }
        response.body(text.as_bytes().to_vec()).unwrap()
    };
    let cut = match fault {
        Some(Fault::Status(status, text)) => return Some(plain(status, text)),
        Some(Fault::Drop) => return None,
        Some(Fault::Cut(after)) => Some(after),
        None => None,
    };
    if let Some(elsewhere) = elsewhere {
        let to = format!("{elsewhere}{}", request.uri().path_and_query().unwrap());
        return Some(Response::builder().status(302).header("location", to).body(Vec::new()).unwrap());
    }
    if let Some(login) = login
        && request.headers().get("authorization").is_none_or(|given| given.as_bytes() != login.as_bytes())
    {
        return Some(plain(401, "wrong user or password"));
    }
    let mut response = backend(root, request, old_protocol);
    if let Some(after) = cut {
        // A length that does not come is how a connection breaks off.
        let length = response.body().len().to_string();
        response.headers_mut().insert("content-length", length.parse().unwrap());
        response.body_mut().truncate(after);
    }
    Some(response)
}

/// One request as CGI.
fn backend(root: &Path, request: &Request<Bytes>, old_protocol: bool) -> Response<Vec<u8>> {
    let header = |name: &str| request.headers().get(name).map_or("", |v| v.to_str().unwrap()).to_owned();
    let mut command = git();
    command
        .arg("http-backend")
        .env("GIT_PROJECT_ROOT", root)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("PATH_INFO", request.uri().path())
        .env("QUERY_STRING", request.uri().query().unwrap_or(""))
        .env("REQUEST_METHOD", request.method().as_str())
        .env("CONTENT_TYPE", header("content-type"))
        .env("CONTENT_LENGTH", request.body().len().to_string())
        .env("REMOTE_ADDR", "127.0.0.1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    if !old_protocol {
        command.env("GIT_PROTOCOL", header("git-protocol"));
    }
    let mut child = command.spawn().unwrap();
    // A backend that fails does not read it.
    let _ = child.stdin.take().unwrap().write_all(request.body());
    let output = child.wait_with_output().unwrap().stdout;
    let Some(end) = output.windows(4).position(|w| w == b"\r\n\r\n") else {
        return Response::builder().status(500).body(Vec::new()).unwrap();
    };
    let mut response = Response::builder();
    for line in String::from_utf8_lossy(&output[..end]).lines() {
        match line.split_once(": ") {
            Some(("Status", status)) => response = response.status(&status[..3]),
            Some((name, value)) => response = response.header(name, value),
            None => {}
        }
    }
    response.body(output[end + 4..].to_vec()).unwrap()
}
