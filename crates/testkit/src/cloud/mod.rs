//! Pulumi Cloud as the real CLI speaks with it, in memory. A test starts one, gives its address as the backend, looks at
//! what has arrived, and makes things go wrong. Identity tokens are judged by their claims; nobody signs them.

mod account;
mod environments;
mod exchange;
mod request;
mod routes;
mod secrets;
mod server;
mod stacks;
mod state;
mod updates;

use std::{
    net::{SocketAddr, TcpListener},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde_json::Value;

use self::state::{Fault, State};
pub use self::{
    exchange::{Exchange, identity_token},
    state::{Status, Update},
};

/// The organization that everyone here belongs to.
pub const ORGANIZATION: &str = "acme";
/// An access token that the service takes.
pub const TOKEN: &str = "pul-0000000000000000000000000000000000000001";

#[derive(Debug)]
pub struct Cloud {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
    _server: server::Running,
}

impl Cloud {
    pub fn start() -> Self {
        Self::start_on("127.0.0.1:0")
    }

    /// Listens at a given address, for those who come from elsewhere.
    pub fn start_on(address: &str) -> Self {
        let listener = TcpListener::bind(address).expect("the address is free");
        let address = listener.local_addr().expect("a listener has an address");
        let state = Arc::new(Mutex::new(State::default()));
        Self { address, _server: server::Running::start(listener, Arc::clone(&state)), state }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What `PULUMI_BACKEND_URL` is to say.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Every request so far with the status of its answer, as in `GET /api/user 200`.
    pub fn requests(&self) -> Vec<String> {
        self.state().requests.clone()
    }

    /// Requests whose line contains these words.
    pub fn requests_of(&self, words: &str) -> usize {
        self.requests().iter().filter(|line| line.contains(words)).count()
    }

    /// Names of all stacks, as in `acme/shop/dev`.
    pub fn stacks(&self) -> Vec<String> {
        self.state().stacks.keys().cloned().collect()
    }

    /// The state of a stack, as `pulumi stack export` gives it.
    pub fn deployment(&self, stack: &str) -> Value {
        self.state().stacks[stack].deployment.clone()
    }

    pub fn tags(&self, stack: &str) -> Value {
        self.state().stacks[stack].tags.clone()
    }

    /// All updates and previews, oldest first.
    pub fn updates(&self) -> Vec<Update> {
        self.state().updates.clone()
    }

    /// The update that keeps others from the stack.
    pub fn active_update(&self, stack: &str) -> Option<Update> {
        self.state().active(stack).cloned()
    }

    /// Every exchange of an identity token that was asked for.
    pub fn exchanges(&self) -> Vec<Exchange> {
        self.state().exchanges.clone()
    }

    /// From now on, access tokens are said to last so long. They are taken until they are revoked.
    pub fn issue_tokens_for(&self, life: Duration) {
        self.state().token_life = life;
    }

    /// No access token that was issued until now is taken any more.
    pub fn revoke_tokens(&self) {
        self.state().tokens.clear();
    }

    /// Identity tokens of this subject are refused.
    pub fn refuse_subject(&self, subject: &str) {
        self.state().refused_subjects.push(subject.to_owned());
    }

    /// The next requests whose method and path contain these words are answered with this status.
    pub fn fail_next(&self, times: usize, words: &str, status: u16) {
        self.state().faults.push(Fault { times, words: words.to_owned(), status });
    }

    /// Someone else begins an update of the stack. Returns its identifier.
    pub fn begin_foreign_update(&self, stack: &str) -> String {
        updates::begin_foreign(&mut self.state(), stack)
    }

    /// Makes an environment, as in `default/base`. In its definition, `{"fn::secret": x}` is a secret.
    pub fn define_environment(&self, name: &str, definition: Value) {
        self.state().environments.insert(environments::full_name(name), definition);
    }
}
