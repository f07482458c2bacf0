//! One HTTP request on a connection of its own, for servers that are given files.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
};

#[derive(Debug)]
pub(super) struct Response {
    head: String,
}

impl Response {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

/// Sends a request and panics unless the answer has the expected status.
pub(super) fn send(
    address: SocketAddr,
    method: &str,
    path: &str,
    content_type: &str,
    body: &[u8],
    expected: u16,
) -> Response {
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Type: {content_type}\r\n\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer);
    let (head, text) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status: Option<u16> = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    assert_eq!(status, Some(expected), "{method} {path} at {address}: {text}");
    Response { head: head.to_owned() }
}
