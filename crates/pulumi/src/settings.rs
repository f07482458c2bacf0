//! A stack's settings file: reading it, and the source's own version of it with what must survive of the CLI's. Text that
//! people wrote stays as it is, as far as that is possible.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// By what the stack's secrets are encrypted. The CLI writes it; without it their key would be another one.
const PROVIDER: [&str; 3] = ["secretsprovider", "encryptedkey", "encryptionsalt"];

/// What is taken along into the source's own version of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// What the CLI has written about the secrets provider.
    pub provider: BTreeMap<String, String>,
    /// Encrypted values of the configuration, by key.
    pub secrets: BTreeMap<String, String>,
    /// To be imported after the file's own.
    pub environments: Vec<String>,
}

/// A settings file that was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings(Map<String, Value>);

impl Settings {
    /// Nothing, if the text is no settings file; an empty one is one.
    pub fn parse(text: &str) -> Option<Self> {
        match serde_saphyr::from_str(text) {
            Ok(Value::Object(fields)) => Some(Self(fields)),
            Ok(Value::Null) => Some(Self::default()),
            _ if text.trim().is_empty() => Some(Self::default()),
            _ => None,
        }
    }

    pub fn provider(&self) -> BTreeMap<String, String> {
        let text = |name: &str| Some((name.to_owned(), self.0.get(name)?.as_str()?.to_owned()));
        PROVIDER.into_iter().filter_map(text).collect()
    }

    /// The encrypted value of a key, if its value is one.
    pub fn secret(&self, key: &str) -> Option<&str> {
        self.0.get("config")?.get(key)?.get("secure")?.as_str()
    }

    pub fn environments(&self) -> Vec<&str> {
        let imports = self.0.get("environment").map(|e| e.get("imports").unwrap_or(e)).and_then(Value::as_array);
        imports.into_iter().flatten().filter_map(Value::as_str).collect()
    }

    fn with(mut self, carried: &Carried) -> Self {
        for (name, value) in &carried.provider {
            self.0.insert(name.clone(), json!(value));
        }
        if !carried.secrets.is_empty() {
            let config = entry(&mut self.0, "config", json!({}));
            for (key, value) in &carried.secrets {
                config.as_object_mut().map(|config| config.insert(key.clone(), json!({ "secure": value })));
            }
        }
        if !carried.environments.is_empty() {
            let environment = entry(&mut self.0, "environment", json!([]));
            let imports = if environment.is_object() { environment.get_mut("imports") } else { Some(environment) };
            if let Some(imports) = imports.and_then(Value::as_array_mut) {
                imports.extend(carried.environments.iter().map(|name| json!(name)));
            }
        }
        self
    }
}

/// A field that is not there or is null gets a value.
fn entry<'a>(fields: &'a mut Map<String, Value>, name: &str, value: Value) -> &'a mut Value {
    let field = fields.entry(name).or_insert(Value::Null);
    if field.is_null() {
        *field = value;
    }
    field
}

/// The source's version of a file with what is taken along. Of a form that cannot be added to line by line, the text is
/// written anew, as JSON, which is YAML too. A text that cannot be read stays as it is: the CLI says what is wrong with it.
pub fn compose(source: &str, carried: &Carried) -> String {
    let Some(settings) = Settings::parse(source) else { return source.to_owned() };
    let wanted = settings.clone().with(carried);
    if wanted == settings {
        return source.to_owned();
    }
    let text = added(source, &settings, carried);
    if Settings::parse(&text).as_ref() == Some(&wanted) {
        return text;
    }
    serde_json::to_string_pretty(&wanted.0).map_or_else(|_| source.to_owned(), |json| json + "\n")
}

fn added(source: &str, settings: &Settings, carried: &Carried) -> String {
    let mut lines: Vec<String> = source.lines().map(str::to_owned).collect();
    let known = settings.provider();
    for (name, value) in carried.provider.iter().filter(|(name, value)| known.get(*name) != Some(value)) {
        lines.retain(|line| !line.starts_with(&format!("{name}:")));
        lines.push(format!("{name}: {}", json!(value)));
    }
    for (key, value) in &carried.secrets {
        remove_child(&mut lines, "config", key);
        add_to(&mut lines, "config", &[format!("{}:", json!(key)), format!("  secure: {}", json!(value))]);
    }
    for name in &carried.environments {
        add_to(&mut lines, "environment", &[format!("- {}", json!(name))]);
    }
    lines.push(String::new());
    lines.join("\n")
}

/// The lines below a field at the top, up to the last that is neither empty nor a remark, and how far they are indented.
fn block(lines: &[String], name: &str) -> Option<(usize, usize, usize)> {
    let head = lines.iter().position(|line| line.trim_end() == format!("{name}:"))?;
    let says = |line: &str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
    let inside = |line: &str| line.starts_with([' ', '-']) || !says(line);
    let (mut end, mut indent) = (head + 1, None);
    for (at, line) in lines.iter().enumerate().skip(head + 1).take_while(|(_, line)| inside(line)) {
        if says(line) {
            end = at + 1;
            indent.get_or_insert(line.len() - line.trim_start().len());
        }
    }
    Some((head + 1, end, indent.unwrap_or(2)))
}

fn add_to(lines: &mut Vec<String>, name: &str, what: &[String]) {
    let (_, end, indent) = block(lines, name).unwrap_or_else(|| {
        lines.push(format!("{name}:"));
        (lines.len(), lines.len(), 2)
    });
    lines.splice(end..end, what.iter().map(|line| format!("{}{line}", " ".repeat(indent))));
}

/// Takes a key of a field away, with all that is below it.
fn remove_child(lines: &mut Vec<String>, name: &str, key: &str) {
    let Some((from, end, indent)) = block(lines, name) else { return };
    let deep = |line: &str| line.len() - line.trim_start().len();
    let is_key = |line: &str| {
        let begins = |quoted: &str| line.trim_start().strip_prefix(quoted).is_some_and(|rest| rest.starts_with(':'));
        deep(line) == indent && [key, &format!("\"{key}\""), &format!("'{key}'")].into_iter().any(begins)
    };
    let Some(at) = (from..end).find(|at| is_key(&lines[*at])) else { return };
    let below = (at + 1..end).take_while(|at| lines[*at].trim().is_empty() || deep(&lines[*at]) > indent).count();
    lines.drain(at..=at + below);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn carried() -> Carried {
        let pair = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        Carried {
            provider: [("encryptionsalt", "v1:salt:x")].map(pair).into(),
            secrets: [("shop:token", "v1:abc=")].map(pair).into(),
            environments: vec!["base".to_owned()],
        }
    }

    #[test]
    fn nothing_to_take_along_leaves_the_text_as_it_is() {
        for text in ["", "# mine\nconfig: {a: 1.10}", "not: [a file"] {
            assert_eq!(compose(text, &Carried::default()), text);
        }
        assert_eq!(compose("not: [a file", &carried()), "not: [a file");
    }

    #[test]
    fn an_empty_file_gets_all_of_it() {
        assert_eq!(
            compose("", &carried()),
            "encryptionsalt: \"v1:salt:x\"\nconfig:\n  \"shop:token\":\n    secure: \"v1:abc=\"\nenvironment:\n  \
             - \"base\"\n"
        );
    }

    #[test]
    fn what_people_wrote_stays_to_the_letter() {
        let source = "# mine\nenvironment:\n- own # first\nconfig:\n    # a version\n    shop:version: 1.10\n    \
                      shop:lines: |\n        one\n        two\n\n# the end\n";
        assert_eq!(
            compose(source, &carried()),
            "# mine\nenvironment:\n- own # first\n- \"base\"\nconfig:\n    # a version\n    shop:version: 1.10\n    \
             shop:lines: |\n        one\n        two\n    \"shop:token\":\n      secure: \"v1:abc=\"\n\n# the end\n\
             encryptionsalt: \"v1:salt:x\"\n"
        );
    }

    #[test]
    fn a_secret_takes_the_place_of_the_sources_own_value() {
        for own in ["shop:token: x", "'shop:token':\n    deep:\n      - x", "\"shop:token\":\n    secure: v1:own"] {
            let source = format!("encryptionsalt: v1:salt:x\nconfig:\n  {own}\n  shop:tokens: 2\n");
            assert_eq!(
                compose(&source, &Carried { environments: Vec::new(), ..carried() }),
                "encryptionsalt: v1:salt:x\nconfig:\n  shop:tokens: 2\n  \"shop:token\":\n    secure: \"v1:abc=\"\n",
                "{own}"
            );
        }
    }

    #[test]
    fn other_forms_are_written_anew() {
        for source in [
            "config: {shop:own: kept}\n",
            "{\"config\": {\"shop:own\": \"kept\"}}",
            "config:\n  shop:own: kept\nenvironment: [own]\n",
            "config:\n  shop:own: kept\nenvironment:\n  imports:\n    - own\n",
            "---\nconfig:\n  shop:own: kept\n...\n",
        ] {
            let text = compose(source, &carried());
            let found = Settings::parse(&text).unwrap();
            assert_eq!(found.secret("shop:token"), Some("v1:abc="), "{text}");
            assert_eq!(found.0["config"]["shop:own"], "kept", "{text}");
            assert_eq!(found.environments().last(), Some(&"base"), "{text}");
            assert_eq!(found.provider(), carried().provider, "{text}");
        }
    }

    #[test]
    fn a_file_tells_its_provider_its_secrets_and_its_environments() {
        let text = "secretsprovider: awskms://x\nencryptedkey: k\nconfig:\n  a:b:\n    secure: c\n  a:c: d\n\
                    environment:\n  imports: [e, {f: {}}]\n";
        let found = Settings::parse(text).unwrap();
        assert_eq!(found.provider().into_keys().collect::<Vec<_>>(), ["encryptedkey", "secretsprovider"]);
        assert_eq!((found.secret("a:b"), found.secret("a:c")), (Some("c"), None));
        assert_eq!(found.environments(), ["e"]);
        assert_eq!(Settings::parse("[]"), None);
    }
}
