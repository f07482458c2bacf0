//! Updates: created, started with a lease, fed with checkpoints and events by its holder, and completed; or canceled.

use serde_json::{Value, json};

use super::{
    request::{Answer, Asked, Problem},
    stacks,
    state::{State, Status, Update},
};

const COMPLETED: &str = "Conflict: The Update has already completed";

pub(super) fn of<'a>(state: &'a State, stack: &str) -> impl DoubleEndedIterator<Item = &'a Update> {
    state.updates.iter().filter(move |update| update.stack == stack)
}

pub(super) fn create(state: &mut State, asked: &Asked, stack: &str, kind: &str) -> Answer {
    let mut body = asked.json()?;
    let update = Update {
        message: body["metadata"]["message"].as_str().unwrap_or_default().to_owned(),
        config: body["config"].take(),
        environment: body["metadata"]["environment"].take(),
        ..new(state, stack, kind)
    };
    let id = update.id.clone();
    state.updates.push(update);
    Ok(json!({"updateID": id}))
}

pub(super) fn start(state: &mut State, asked: &Asked, stack: &str, id: &str) -> Answer {
    let preview = find(state, id)?.is_preview();
    if !preview && state.active(stack).is_some() {
        return Err(Problem::new(409, "Conflict: Another update is currently in progress."));
    }
    let tags = asked.json()?["tags"].take();
    let version = begin(state, stack, id)?;
    stacks::stack(state, stack)?.tags = tags;
    let update = find(state, id)?;
    // Without a version for a journal, the CLI sends whole states.
    Ok(json!({"version": version, "token": update.lease, "tokenExpiration": update.started + 300}))
}

pub(super) fn begin_foreign(state: &mut State, stack: &str) -> String {
    let update = new(state, stack, "update");
    let id = update.id.clone();
    state.updates.push(update);
    begin(state, stack, &id).expect("the update is there");
    id
}

pub(super) fn record_import(state: &mut State, stack: &str) -> String {
    let id = begin_foreign(state, stack);
    if let Ok(update) = find(state, &id) {
        end(update, Status::Succeeded);
    }
    id
}

pub(super) fn status(state: &mut State, id: &str) -> Answer {
    let status = match find(state, id)?.status {
        Status::Requested => "requested",
        Status::Running => "running",
        Status::Succeeded => "succeeded",
        Status::Failed => "failed",
        Status::Canceled => "cancelled",
    };
    Ok(json!({"status": status, "events": []}))
}

pub(super) fn cancel(state: &mut State, id: &str) -> Answer {
    let update = find(state, id)?;
    if update.status != Status::Running {
        return Err(Problem::new(409, COMPLETED));
    }
    end(update, Status::Canceled);
    Ok(Value::Null)
}

/// What only the holder of the lease may do.
pub(super) fn by_holder(state: &mut State, asked: &Asked, stack: &str, id: &str, what: &str) -> Answer {
    let update = find(state, id)?;
    let held = asked.authorization.strip_prefix("update-token ") == Some(&update.lease);
    if update.status != Status::Running {
        // A lease that is over is not renewed; anything else comes too late.
        return Err(match what {
            "renew_lease" => Problem::new(403, "Forbidden: The lease has expired"),
            _ => Problem::new(409, COMPLETED),
        });
    }
    if !held {
        return Err(Problem::new(403, "Forbidden: The lease belongs to someone else"));
    }
    let mut body = asked.json()?;
    match (asked.method.as_str(), what) {
        ("POST", "renew_lease") => {
            let lease = update.lease.clone();
            return Ok(json!({"token": lease, "tokenExpiration": now() + 300}));
        }
        ("PATCH", "checkpoint") => {
            update.checkpoints += 1;
            let mut deployment = json!({"version": body["version"], "deployment": body["deployment"].take()});
            if !body["features"].is_null() {
                deployment["features"] = body["features"].take();
            }
            stacks::stack(state, stack)?.deployment = deployment;
        }
        ("PATCH", "checkpointverbatim") => {
            update.checkpoints += 1;
            stacks::stack(state, stack)?.deployment = body["untypedDeployment"].take();
        }
        ("POST", "events/batch") => {
            update.events.append(body["events"].as_array_mut().unwrap_or(&mut Vec::new()));
        }
        ("POST", "complete") => {
            let status = match body["status"].as_str() {
                Some("succeeded") => Status::Succeeded,
                Some("cancelled") => Status::Canceled,
                _ => Status::Failed,
            };
            end(update, status);
        }
        _ => return Err(Problem::not_found("page")),
    }
    Ok(Value::Null)
}

/// Newest first, without previews.
pub(super) fn history(state: &State, asked: &Asked, stack: &str) -> Value {
    let number = |name: &str| asked.query.get(name).and_then(|text| text.parse::<usize>().ok());
    let size = number("pageSize").filter(|size| *size > 0).unwrap_or(usize::MAX);
    let before = number("page").unwrap_or(1).saturating_sub(1).saturating_mul(size);
    let all = of(state, stack).rev().filter(|update| update.version > 0);
    json!({"updates": all.skip(before).take(size).map(info).collect::<Vec<_>>()})
}

pub(super) fn latest(state: &State, stack: &str) -> Answer {
    let latest = of(state, stack).rev().find(|update| update.version > 0);
    latest.map(|update| json!({"info": info(update)})).ok_or_else(|| Problem::not_found("update"))
}

fn info(update: &Update) -> Value {
    let summary = update.events.iter().rev().find_map(|event| event.get("summaryEvent"));
    json!({
        "kind": update.kind,
        "startTime": update.started,
        "message": update.message,
        "environment": update.environment,
        "config": update.config,
        "result": match update.status {
            Status::Requested => "not-started",
            Status::Running => "in-progress",
            Status::Succeeded => "succeeded",
            Status::Failed | Status::Canceled => "failed",
        },
        "endTime": update.ended,
        "version": update.version,
        "resourceChanges": summary.map(|summary| &summary["resourceChanges"]),
    })
}

fn new(state: &mut State, stack: &str, kind: &str) -> Update {
    let number = state.next();
    Update {
        id: format!("00000000-0000-4000-8000-{number:012}"),
        stack: stack.to_owned(),
        kind: kind.to_owned(),
        message: String::new(),
        status: Status::Requested,
        version: 0,
        checkpoints: 0,
        events: Vec::new(),
        config: json!({}),
        environment: json!({}),
        lease: format!("lease-{number}"),
        started: now(),
        ended: 0,
    }
}

fn begin(state: &mut State, stack: &str, id: &str) -> Result<u64, Problem> {
    let preview = find(state, id)?.is_preview();
    let known = stacks::stack(state, stack)?;
    if !preview {
        known.version += 1;
    }
    let version = known.version;
    let update = find(state, id)?;
    update.status = Status::Running;
    update.started = now();
    update.version = if preview { 0 } else { version };
    Ok(version)
}

fn end(update: &mut Update, status: Status) {
    update.status = status;
    update.ended = now();
}

fn find<'a>(state: &'a mut State, id: &str) -> Result<&'a mut Update, Problem> {
    state.updates.iter_mut().find(|update| update.id == id).ok_or_else(|| Problem::not_found("update"))
}

fn now() -> i64 {
    jiff::Timestamp::now().as_second()
}
