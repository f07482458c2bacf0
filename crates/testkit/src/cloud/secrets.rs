//! The service's own secrets provider. What it makes is no secret to a determined reader, but plain text it is not.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::request::{Answer, Asked, Problem};

pub(super) fn encrypt(asked: &Asked, stack: &str) -> Answer {
    Ok(json!({"ciphertext": seal(&asked.json()?["plaintext"], stack)?}))
}

pub(super) fn batch_encrypt(asked: &Asked, stack: &str) -> Answer {
    let sealed: Result<Vec<_>, _> = list(&asked.json()?["plaintexts"]).iter().map(|text| seal(text, stack)).collect();
    Ok(json!({"ciphertexts": sealed?}))
}

pub(super) fn decrypt(asked: &Asked, stack: &str) -> Answer {
    Ok(json!({"plaintext": open(&asked.json()?["ciphertext"], stack)?}))
}

pub(super) fn batch_decrypt(asked: &Asked, stack: &str) -> Answer {
    let mut plain = serde_json::Map::new();
    for text in list(&asked.json()?["ciphertexts"]) {
        plain.insert(text.as_str().unwrap_or_default().to_owned(), open(&text, stack)?);
    }
    Ok(json!({"plaintexts": plain}))
}

fn list(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_default()
}

/// Both sides are bytes in base64, as Go has them in JSON.
fn seal(plain: &Value, stack: &str) -> Answer {
    Ok(STANDARD.encode([mark(stack), scramble(&bytes(plain)?)].concat()).into())
}

fn open(sealed: &Value, stack: &str) -> Answer {
    let sealed = bytes(sealed)?;
    let sealed = sealed.strip_prefix(mark(stack).as_slice());
    let sealed = sealed.ok_or_else(|| Problem::bad_request("invalid ciphertext"))?;
    Ok(STANDARD.encode(scramble(sealed)).into())
}

fn bytes(value: &Value) -> Result<Vec<u8>, Problem> {
    STANDARD.decode(value.as_str().unwrap_or_default()).map_err(|error| Problem::bad_request(&error.to_string()))
}

/// What is sealed for a stack is of no use to another.
fn mark(stack: &str) -> Vec<u8> {
    format!("sealed for {stack}:").into_bytes()
}

/// Its own inverse.
fn scramble(text: &[u8]) -> Vec<u8> {
    text.iter().map(|byte| byte ^ 0x5a).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sealed_for_a_stack_opens_for_it_and_for_no_other() {
        let plain = Value::from(STANDARD.encode("planted"));
        let sealed = seal(&plain, "acme/shop/dev").unwrap();
        assert!(!String::from_utf8_lossy(&bytes(&sealed).unwrap()).contains("planted"));
        assert_eq!(open(&sealed, "acme/shop/dev").unwrap(), plain);
        assert_eq!(open(&sealed, "acme/shop/prod").unwrap_err().code, 400);
    }
}
