//! What the CLI says when the service does not take its access token, or when it has none.

/// Words of the CLI since 3.200 or so, and before. Which of them it says depends on how long ago it looked last.
const WORDS: [&str; 4] = [
    "No credentials provided or are invalid",
    "this command requires logging in",
    "PULUMI_ACCESS_TOKEN must be set for login",
    "invalid access token",
];

/// Whether the text is about a missing or invalid access token.
pub fn is_unauthorized(text: &str) -> bool {
    WORDS.iter().any(|words| text.contains(words))
}
