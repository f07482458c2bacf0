//! The server of artifacts. Every replica serves, whether it leads or not.

use std::sync::Arc;

use http_body_util::Full;
use hyper::{Method, Response, header};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use pko_api::Program;
use pko_core::seen::{Key, Kind, Object};
use tokio::net::TcpListener;

use super::{Copies, pack};
use crate::{
    http::{Body, answer, text},
    store::Store,
};

const PREFIX: &str = "/programs/";

/// Answers `/programs/<namespace>/<name>/<generation>` for ever.
pub async fn serve(listener: TcpListener, store: Arc<Store>, copies: Copies) {
    answer(listener, move |method, path| {
        let (store, copies) = (Arc::clone(&store), copies.clone());
        async move {
            let mut found = find(&path, |key| store.get(key));
            if let Ok(Found { program, requested }) = &found
                && program.metadata.generation != Some(*requested)
            {
                // One that this replica has not seen yet may be among the copies, too.
                found = match copies.of(program, *requested).await {
                    Ok(copy) => copied(program, *requested, copy),
                    Err(failure) => Err((503, failure.to_string())),
                };
            }
            respond(&method, found)
        }
    })
    .await;
}

/// A Program, and the generation of it that was asked for.
struct Found {
    program: Box<Program>,
    requested: i64,
}

/// Status and words of a refusal.
type Refusal = (u16, String);

fn find(path: &str, look: impl Fn(&Key) -> Option<Object>) -> Result<Found, Refusal> {
    let identifier = path.strip_prefix(PREFIX).ok_or_else(|| (404, "there are only Programs here".to_owned()))?;
    if identifier.is_empty() {
        return Err((400, "Program identifier is required.".to_owned()));
    }
    let [namespace, name, requested] = identifier.split('/').collect::<Vec<_>>()[..] else {
        return Err((400, "invalid program identifier, unable to locate Program".to_owned()));
    };
    let key = Key { kind: Kind::Program, namespace: namespace.to_owned(), name: name.to_owned() };
    match look(&key) {
        Some(Object::Program(program)) => Ok(Found { program, requested: requested.parse().unwrap_or_default() }),
        Some(_) => Err((404, format!("Program {namespace}/{name} cannot be read"))),
        None => Err((404, format!("Program {namespace}/{name} not found"))),
    }
}

fn copied(program: &Program, requested: i64, copy: Option<Program>) -> Result<Found, Refusal> {
    let ObjectMeta { namespace, name, generation, .. } = &program.metadata;
    let (namespace, name) = (namespace.as_deref().unwrap_or_default(), name.as_deref().unwrap_or_default());
    let generation = generation.unwrap_or_default();
    copy.map(|copy| Found { program: Box::new(copy), requested }).ok_or_else(|| {
        let why = format!(
            "program {namespace}/{name} with generation {generation} does not match requested generation {requested}"
        );
        (404, why)
    })
}

fn respond(method: &Method, found: Result<Found, Refusal>) -> Response<Body> {
    if method != Method::GET && method != Method::HEAD {
        let mut response = text(405, "artifacts are read with GET or HEAD");
        response.headers_mut().insert(header::ALLOW, header::HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    let packed = found.and_then(|Found { program, .. }| {
        pack(&program).map_err(|error| (500, format!("packing Program {:?}: {error}", program.metadata.name)))
    });
    let mut response = match packed {
        Ok(bytes) => archive(bytes),
        Err((status, why)) => text(status, why),
    };
    if method == Method::HEAD {
        let length = hyper::body::Body::size_hint(response.body()).exact().unwrap_or_default();
        response.headers_mut().insert(header::CONTENT_LENGTH, length.into());
        *response.body_mut() = Full::default();
    }
    response
}

fn archive(bytes: Vec<u8>) -> Response<Body> {
    let mut response = Response::new(Full::new(bytes.into()));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/gzip"));
    headers
        .insert(header::CONTENT_DISPOSITION, header::HeaderValue::from_static("attachment; filename=project.tar.gz"));
    response
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn look(key: &Key) -> Option<Object> {
        let program = json!({"metadata": {"name": "web", "namespace": "team", "generation": 3}, "program": {}});
        (key.name == "web").then(|| Object::Program(Box::new(serde_json::from_value(program).unwrap())))
    }

    /// There is a copy of the second generation.
    fn answered(method: &Method, path: &str) -> Response<Body> {
        let mut found = find(path, look);
        if let Ok(Found { program, requested }) = &found
            && *requested != 3
        {
            let mut earlier = program.clone();
            earlier.program.outputs.insert("generation".to_owned(), json!(requested));
            found = copied(program, *requested, (*requested == 2).then_some(*earlier));
        }
        respond(method, found)
    }

    async fn ask(method: Method, path: &str) -> (u16, Vec<u8>) {
        let response = answered(&method, path);
        (response.status().as_u16(), response.into_body().collect().await.unwrap().to_bytes().to_vec())
    }

    #[tokio::test]
    async fn the_present_generation_is_served() {
        let (status, bytes) = ask(Method::GET, "/programs/team/web/3").await;
        assert_eq!((status, &bytes[..2]), (200, &[0x1f, 0x8b][..]));
        let (status, nothing) = ask(Method::HEAD, "/programs/team/web/3").await;
        assert_eq!((status, nothing.len()), (200, 0));
        let length = answered(&Method::HEAD, "/programs/team/web/3").headers()[header::CONTENT_LENGTH].clone();
        assert_eq!(length.to_str().unwrap(), bytes.len().to_string());
    }

    #[tokio::test]
    async fn an_earlier_generation_is_served_from_its_copy() {
        let (status, earlier) = ask(Method::GET, "/programs/team/web/2").await;
        let (_, present) = ask(Method::GET, "/programs/team/web/3").await;
        assert_eq!((status, &earlier[..2]), (200, &[0x1f, 0x8b][..]));
        assert_ne!(earlier, present);
    }

    #[rstest]
    #[case("/programs/", 400, "Program identifier is required.")]
    #[case("/programs/team/web", 400, "invalid program identifier, unable to locate Program")]
    #[case("/programs/team/web/3/4", 400, "invalid program identifier, unable to locate Program")]
    #[case("/programs/team/other/3", 404, "Program team/other not found")]
    #[case("/programs/team/web/1", 404, "program team/web with generation 3 does not match requested generation 1")]
    #[case("/programs/team/web/x", 404, "program team/web with generation 3 does not match requested generation 0")]
    #[tokio::test]
    async fn what_is_not_there_is_said_in_words(#[case] path: &str, #[case] status: u16, #[case] words: &str) {
        let (got, body) = ask(Method::GET, path).await;
        assert_eq!((got, String::from_utf8(body).unwrap()), (status, words.to_owned()));
    }

    #[tokio::test]
    async fn nothing_can_be_written() {
        assert_eq!(ask(Method::POST, "/programs/team/web/3").await.0, 405);
    }
}
