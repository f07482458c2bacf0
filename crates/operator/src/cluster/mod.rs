//! Requests to the API server, each with a deadline, each failure in words that name the object. What is read and
//! written, and what a failure means, is for the callers.

mod failure;
mod resource;

use std::time::Duration;

use http::{Request, header};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

pub(crate) use failure::innermost;
pub use failure::{Cause, Failure};
pub(crate) use resource::is_segment;
pub use resource::{At, Resource, resources};

/// What is asked of the server about an object that was written: its metadata, and not the object.
const METADATA_ONLY: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const JSON: &str = "application/json";
const APPLY: &str = "application/apply-patch+yaml";
const MERGE: &str = "application/merge-patch+json";
/// Objects in one answer to a list.
const PAGE: u32 = 100;

/// The API server.
#[derive(Clone)]
pub struct Cluster {
    client: Client,
    timeout: Duration,
}

/// An object of which only the metadata is of interest.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Written {
    #[serde(default)]
    pub metadata: ObjectMeta,
}

#[derive(Deserialize)]
struct Page<T> {
    #[serde(default)]
    metadata: PageMetadata,
    #[serde(default = "Vec::new")]
    items: Vec<T>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PageMetadata {
    r#continue: Option<String>,
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Cluster").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

impl Cluster {
    /// Each request is given up after that time.
    pub const fn new(client: Client, timeout: Duration) -> Self {
        Self { client, timeout }
    }

    /// For watches, which have no deadline.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// The same server with less patience.
    #[must_use]
    pub fn within(&self, timeout: Duration) -> Self {
        Self { client: self.client.clone(), timeout: timeout.min(self.timeout) }
    }

    /// An object as it is; nothing if there is none.
    pub async fn get<T: DeserializeOwned>(&self, at: &At<'_>) -> Result<Option<T>, Failure> {
        absent_is_none(self.send("reading", at, request("GET", &at.path(), JSON)).await)
    }

    /// What is at a path, for kinds that are known by name only; what it is called in words.
    pub(crate) async fn get_at<T: DeserializeOwned>(&self, path: &str, what: &str) -> Result<T, Failure> {
        self.send("reading", what, request("GET", path, JSON)).await
    }

    /// An object's metadata as it is; nothing if there is none.
    pub async fn get_metadata(&self, at: &At<'_>) -> Result<Option<Written>, Failure> {
        absent_is_none(self.send("reading", at, request("GET", &at.path(), METADATA_ONLY)).await)
    }

    /// All objects of a kind in a namespace that a filter lets through, page by page.
    pub async fn list<T: DeserializeOwned>(
        &self,
        resource: &'static Resource,
        namespace: &str,
        keep: impl Fn(&T) -> bool,
    ) -> Result<Vec<T>, Failure> {
        let at = At::new(resource, namespace, "");
        let mut kept = Vec::new();
        let mut more = String::new();
        loop {
            let path = format!("{}?limit={PAGE}{more}", at.collection());
            let page: Page<T> = self.send("listing", &at, request("GET", &path, JSON)).await?;
            kept.extend(page.items.into_iter().filter(&keep));
            match page.metadata.r#continue.filter(|token| !token.is_empty()) {
                Some(token) => more = format!("&continue={token}"),
                None => return Ok(kept),
            }
        }
    }

    /// Server-side apply with force: what the body holds becomes ours, what it no longer holds goes.
    pub async fn apply(&self, at: &At<'_>, manager: &str, body: &Value) -> Result<Written, Failure> {
        let path = format!("{}?fieldManager={manager}&force=true", at.path());
        self.send("applying", at, with_body("PATCH", &path, METADATA_ONLY, APPLY, body)).await
    }

    /// A merge patch; a version or a UID in its metadata guards it.
    pub async fn merge(&self, at: &At<'_>, manager: &str, body: &Value) -> Result<Written, Failure> {
        let path = format!("{}?fieldManager={manager}", at.path());
        self.send("patching", at, with_body("PATCH", &path, METADATA_ONLY, MERGE, body)).await
    }

    /// Creates an object.
    pub async fn create(&self, at: &At<'_>, manager: &str, body: &Value) -> Result<Written, Failure> {
        let path = format!("{}?fieldManager={manager}", at.collection());
        self.send("creating", at, with_body("POST", &path, METADATA_ONLY, JSON, body)).await
    }

    /// As [`Cluster::create`], with the whole answer; also for subresources that are created, such as tokens.
    pub async fn post<T: DeserializeOwned>(&self, at: &At<'_>, path: &str, body: &Value) -> Result<T, Failure> {
        self.send("creating", at, with_body("POST", path, JSON, JSON, body)).await
    }

    /// Replaces an object, if it still is of the version in the body.
    pub async fn replace<T: DeserializeOwned>(&self, at: &At<'_>, manager: &str, body: &Value) -> Result<T, Failure> {
        let path = format!("{}?fieldManager={manager}", at.path());
        self.send("replacing", at, with_body("PUT", &path, JSON, JSON, body)).await
    }

    /// Deletes an object of that UID; what depends on it follows later.
    pub async fn delete(&self, at: &At<'_>, uid: &str) -> Result<(), Failure> {
        let body = json!({
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": uid},
            "propagationPolicy": "Background",
        });
        let _: Value = self.send("deleting", at, with_body("DELETE", &at.path(), METADATA_ONLY, JSON, &body)).await?;
        Ok(())
    }

    /// Whether the object of that UID is no longer there.
    pub async fn is_gone(&self, at: &At<'_>, uid: &str) -> Result<bool, Failure> {
        Ok(self.get_metadata(at).await?.and_then(|found| found.metadata.uid).as_deref() != Some(uid))
    }

    /// Decodes here, and not in the client, which would log an answer that does not decode, whatever is in it.
    async fn send<T: DeserializeOwned>(
        &self,
        doing: &str,
        at: &(impl ToString + ?Sized),
        request: Result<Request<Vec<u8>>, http::Error>,
    ) -> Result<T, Failure> {
        let request = request.map_err(|error| Failure::other(doing, at, error.to_string()))?;
        let answer = tokio::time::timeout(self.timeout, self.client.request_text(request)).await;
        let text = match answer {
            Ok(Ok(text)) => text,
            Ok(Err(error)) => return Err(Failure::of(doing, at, &error)),
            Err(_) => return Err(Failure::late(doing, at, self.timeout)),
        };
        serde_json::from_str(&text).map_err(|error| {
            Failure::other(doing, at, format!("the answer cannot be understood at column {}", error.column()))
        })
    }
}

fn absent_is_none<T>(answer: Result<T, Failure>) -> Result<Option<T>, Failure> {
    match answer {
        Ok(found) => Ok(Some(found)),
        Err(failure) if failure.cause == Cause::NotFound => Ok(None),
        Err(failure) => Err(failure),
    }
}

fn request(method: &str, path: &str, accept: &str) -> Result<Request<Vec<u8>>, http::Error> {
    Request::builder().method(method).uri(path).header(header::ACCEPT, accept).body(Vec::new())
}

fn with_body(
    method: &str,
    path: &str,
    accept: &str,
    content: &str,
    body: &Value,
) -> Result<Request<Vec<u8>>, http::Error> {
    Request::builder()
        .method(method)
        .uri(path)
        .header(header::ACCEPT, accept)
        .header(header::CONTENT_TYPE, content)
        .body(body.to_string().into_bytes())
}
