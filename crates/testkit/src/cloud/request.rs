//! A request as the routes see it, and what they answer.

use std::{collections::BTreeMap, io::Read as _};

use flate2::read::GzDecoder;
use serde_json::{Value, json};

#[derive(Debug)]
pub(super) struct Asked {
    pub(super) method: String,
    /// The parts of the path below `/api`.
    pub(super) path: Vec<String>,
    pub(super) query: BTreeMap<String, String>,
    pub(super) authorization: String,
    pub(super) body: Vec<u8>,
}

/// The body of the answer; null for none.
pub(super) type Answer = Result<Value, Problem>;

#[derive(Debug)]
pub(super) struct Problem {
    pub(super) code: u16,
    pub(super) body: Value,
}

impl Problem {
    /// In the form of every failure but those of token exchanges.
    pub(super) fn new(code: u16, message: &str) -> Self {
        Self { code, body: json!({"code": code, "message": message}) }
    }

    pub(super) fn not_found(what: &str) -> Self {
        Self::new(404, &format!("Not Found: {what} not found"))
    }

    pub(super) fn bad_request(message: &str) -> Self {
        Self::new(400, &format!("Bad Request: {message}"))
    }
}

impl Asked {
    pub(super) fn new(
        method: &str,
        path: &str,
        query: Option<&str>,
        authorization: String,
        compressed: bool,
        body: Vec<u8>,
    ) -> Result<Self, Problem> {
        let path = path.strip_prefix("/api/").ok_or_else(|| Problem::not_found("page"))?;
        let body = if compressed {
            let mut plain = Vec::new();
            let read = GzDecoder::new(body.as_slice()).read_to_end(&mut plain);
            read.map_err(|error| Problem::bad_request(&error.to_string()))?;
            plain
        } else {
            body
        };
        Ok(Self {
            method: method.to_owned(),
            path: path.split('/').map(decode).collect(),
            query: form(query.unwrap_or_default()),
            authorization,
            body,
        })
    }

    pub(super) fn json(&self) -> Result<Value, Problem> {
        serde_json::from_slice(&self.body).map_err(|error| Problem::bad_request(&error.to_string()))
    }

    pub(super) fn form(&self) -> BTreeMap<String, String> {
        form(&String::from_utf8_lossy(&self.body))
    }
}

fn form(text: &str) -> BTreeMap<String, String> {
    let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (decode(name), decode(value))).collect()
}

fn decode(text: &str) -> String {
    let mut bytes = text.bytes();
    let mut out = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        let digit = |byte: Option<u8>| byte.and_then(|b| char::from(b).to_digit(16)).unwrap_or_default();
        out.push(match byte {
            b'+' => b' ',
            b'%' => u8::try_from(digit(bytes.next()) * 16 + digit(bytes.next())).unwrap_or_default(),
            other => other,
        });
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_decoded() {
        let form = form("audience=urn%3Apulumi%3Aorg%3Aacme&scope=&a+b=1%2B1");
        assert_eq!(form["audience"], "urn:pulumi:org:acme");
        assert_eq!((form["scope"].as_str(), form["a b"].as_str()), ("", "1+1"));
    }
}
