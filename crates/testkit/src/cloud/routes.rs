//! Which request is answered where. The paths are those that the CLI calls.

use super::{
    account, environments, exchange,
    request::{Answer, Asked, Problem},
    secrets, stacks,
    state::State,
    updates,
};

pub(super) fn answer(state: &mut State, asked: &Asked) -> Answer {
    let path: Vec<&str> = asked.path.iter().map(String::as_str).collect();
    let method = asked.method.as_str();
    match (method, path.as_slice()) {
        ("GET", ["capabilities"]) => return Ok(account::capabilities()),
        ("GET", ["cli", "version"]) => return Ok(account::cli_version()),
        ("POST", ["oauth", "token"]) => return exchange::exchange(state, asked),
        _ => {}
    }
    if let ["stacks", org, project, stack, _, id, what @ ..] = path.as_slice()
        && asked.authorization.starts_with("update-token ")
    {
        return updates::by_holder(state, asked, &stacks::name(org, project, stack), id, &what.join("/"));
    }
    account::check(state, asked)?;
    match path.as_slice() {
        ["stacks", org, project, stack, what @ ..] => {
            let name = stacks::name(org, project, stack);
            of_stack(state, asked, method, &name, what)
        }
        ["esc", "environments", _, what @ ..] => environments::answer(state, asked, method, what),
        other => match (method, other) {
            ("GET", ["user"]) => Ok(account::user()),
            ("GET", ["user", "organizations", "default"]) => Ok(account::default_organization()),
            ("GET", ["user", "stacks"]) => Ok(stacks::list(state, asked)),
            ("HEAD", ["stacks", org, project]) => stacks::project_exists(state, org, project),
            ("POST", ["stacks", org, project]) => stacks::create(state, asked, org, project),
            _ => Err(Problem::not_found("page")),
        },
    }
}

fn of_stack(state: &mut State, asked: &Asked, method: &str, name: &str, what: &[&str]) -> Answer {
    if !state.stacks.contains_key(name) {
        return Err(Problem::not_found(&format!("Stack '{name}'")));
    }
    match (method, what) {
        ("GET", []) => Ok(stacks::get(state, name)),
        ("DELETE", []) => stacks::delete(state, asked, name),
        ("PATCH", ["tags"]) => stacks::set_tags(state, asked, name),
        ("GET", ["export", ..]) => Ok(state.stacks[name].deployment.clone()),
        ("POST", ["import"]) => stacks::import(state, asked, name),
        ("POST", ["encrypt"]) => secrets::encrypt(asked, name),
        ("POST", ["batch-encrypt"]) => secrets::batch_encrypt(asked, name),
        ("POST", ["decrypt"]) => secrets::decrypt(asked, name),
        ("POST", ["batch-decrypt"]) => secrets::batch_decrypt(asked, name),
        ("POST", ["decrypt", "log-decryption" | "log-batch-decryption"]) => Ok(serde_json::Value::Null),
        ("GET", ["updates"]) => Ok(updates::history(state, asked, name)),
        ("GET", ["updates", "latest"]) => updates::latest(state, name),
        ("POST", [kind @ ("update" | "preview" | "refresh" | "destroy")]) => updates::create(state, asked, name, kind),
        ("POST", [_, id]) => updates::start(state, asked, name, id),
        ("GET", [_, id]) => updates::status(state, id),
        ("POST", [_, id, "cancel"]) => updates::cancel(state, id),
        _ => Err(Problem::not_found("page")),
    }
}
