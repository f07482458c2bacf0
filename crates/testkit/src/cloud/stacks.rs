//! Stacks: what there is, and their state.

use serde_json::{Value, json};

use super::{
    request::{Answer, Asked, Problem},
    state::{Stack, State},
    updates,
};

pub(super) fn name(org: &str, project: &str, stack: &str) -> String {
    format!("{org}/{project}/{stack}")
}

pub(super) fn list(state: &State, asked: &Asked) -> Value {
    let wanted = |field: &str, value: &str| asked.query.get(field).is_none_or(|wanted| wanted == value);
    let all = state.stacks.iter().filter_map(|(full, stack)| {
        let [org, project, name] = parts(full);
        (wanted("organization", org) && wanted("project", project)).then(|| {
            json!({"id": full, "orgName": org, "projectName": project, "stackName": name,
                   "resourceCount": stack.resources()})
        })
    });
    json!({"stacks": all.collect::<Vec<_>>()})
}

pub(super) fn project_exists(state: &State, org: &str, project: &str) -> Answer {
    let prefix = name(org, project, "");
    if state.stacks.keys().any(|known| known.starts_with(&prefix)) {
        Ok(Value::Null)
    } else {
        Err(Problem::not_found("project"))
    }
}

pub(super) fn create(state: &mut State, asked: &Asked, org: &str, project: &str) -> Answer {
    let mut body = asked.json()?;
    let stack = body["stackName"].as_str().unwrap_or_default();
    let full = name(org, project, stack);
    if state.stacks.contains_key(&full) {
        return Err(Problem::new(409, &format!("Conflict: Stack '{stack}' already exists")));
    }
    let deployment = Some(body["state"].take()).filter(|given| !given.is_null());
    state.stacks.insert(full, Stack::new(body["tags"].take(), deployment));
    Ok(json!({}))
}

pub(super) fn get(state: &State, full: &str) -> Value {
    let stack = &state.stacks[full];
    let [org, project, name] = parts(full);
    let mut answer = json!({
        "id": full,
        "orgName": org,
        "projectName": project,
        "stackName": name,
        // The latest, whether it still goes on or not.
        "activeUpdate": updates::of(state, full).next_back().map_or("", |update| &update.id),
        "tags": stack.tags,
        "version": stack.version,
    });
    if let Some(active) = state.active(full) {
        answer["currentOperation"] = json!({"kind": active.kind, "author": "robot", "started": active.started});
    }
    answer
}

pub(super) fn delete(state: &mut State, asked: &Asked, full: &str) -> Answer {
    let force = asked.query.get("force").is_some_and(|force| force == "true");
    if !force && state.stacks[full].resources() > 0 {
        return Err(Problem::bad_request("Stack still contains resources."));
    }
    state.stacks.remove(full);
    Ok(Value::Null)
}

pub(super) fn set_tags(state: &mut State, asked: &Asked, full: &str) -> Answer {
    stack(state, full)?.tags = asked.json()?;
    Ok(Value::Null)
}

pub(super) fn import(state: &mut State, asked: &Asked, full: &str) -> Answer {
    let deployment = asked.json()?;
    stack(state, full)?.deployment = deployment;
    Ok(json!({"updateId": updates::record_import(state, full)}))
}

pub(super) fn stack<'a>(state: &'a mut State, full: &str) -> Result<&'a mut Stack, Problem> {
    state.stacks.get_mut(full).ok_or_else(|| Problem::not_found(&format!("Stack '{full}'")))
}

fn parts(full: &str) -> [&str; 3] {
    let mut parts = full.splitn(3, '/');
    std::array::from_fn(|_| parts.next().unwrap_or_default())
}
