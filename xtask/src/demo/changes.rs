//! The state of each object in one line, as pure text.

use serde_json::Value;

/// An object or event, and what is to be told of it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// The same for the same subject at different times.
    pub(crate) key: String,
    pub(crate) subject: String,
    pub(crate) text: String,
}

/// What there is to tell of a list of objects, events last and in their order.
pub(crate) fn lines(items: &[Value]) -> Vec<Line> {
    let mut lines: Vec<Line> = items.iter().filter_map(object).collect();
    let mut events: Vec<&Value> = items.iter().filter(|i| i["kind"] == "Event").collect();
    events.sort_by_key(|event| (time(event).to_owned(), text(&event["metadata"]["name"]).to_owned()));
    lines.extend(events.into_iter().filter_map(event));
    lines
}

fn object(item: &Value) -> Option<Line> {
    let told = match text(&item["kind"]) {
        "Stack" => stack(item),
        "Workspace" => workspace(item),
        "Update" => update(item),
        _ => return None,
    };
    let subject = format!("{}/{}", text(&item["kind"]).to_lowercase(), text(&item["metadata"]["name"]));
    Some(Line { key: subject.clone(), subject, text: told })
}

fn stack(stack: &Value) -> String {
    for kind in ["Stalled", "Reconciling"] {
        if let Some(condition) = condition(stack, kind).filter(|c| c["status"] == "True") {
            return format!("{kind}, {}", because(condition));
        }
    }
    match condition(stack, "Ready") {
        Some(ready) if ready["status"] == "True" => format!("Ready: {}", text(&ready["message"])),
        Some(ready) => format!("not ready, {}", because(ready)),
        None => "not looked at yet".to_owned(),
    }
}

fn workspace(workspace: &Value) -> String {
    match condition(workspace, "Ready") {
        Some(ready) if ready["status"] == "True" => {
            format!("Ready, with Pulumi {}", text(&workspace["status"]["pulumiVersion"]))
        }
        Some(ready) => format!("not ready, {}", because(ready)),
        None => "not looked at yet".to_owned(),
    }
}

fn update(update: &Value) -> String {
    let is = |kind: &str| condition(update, kind).is_some_and(|c| c["status"] == "True");
    let kind = text(&update["spec"]["type"]);
    if is("Failed") {
        format!("{kind} failed: {}", text(&update["status"]["message"]))
    } else if is("Complete") {
        format!("{kind} succeeded")
    } else if is("Progressing") {
        format!("{kind} is running: {}", text(&update["spec"]["message"]))
    } else {
        format!("{kind} has not started: {}", text(&update["spec"]["message"]))
    }
}

/// Events of the operator; those of pods and other objects are many and say little.
fn event(event: &Value) -> Option<Line> {
    let kind = text(&event["involvedObject"]["kind"]);
    if !matches!(kind, "Stack" | "Workspace" | "Update" | "Program") {
        return None;
    }
    Some(Line {
        key: format!("event/{}/{}", text(&event["metadata"]["uid"]), event["count"]),
        subject: format!("event on {}/{}", kind.to_lowercase(), text(&event["involvedObject"]["name"])),
        text: format!("{}: {}", text(&event["reason"]), text(&event["message"])),
    })
}

fn because(condition: &Value) -> String {
    format!("{}: {}", text(&condition["reason"]), text(&condition["message"]))
}

pub(crate) fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|c| c["type"] == kind)
}

fn time(event: &Value) -> &str {
    [&event["lastTimestamp"], &event["eventTime"], &event["metadata"]["creationTimestamp"]]
        .into_iter()
        .find_map(Value::as_str)
        .unwrap_or_default()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(item: &Value) -> String {
        let told: Vec<String> =
            lines(std::slice::from_ref(item)).into_iter().map(|l| format!("{} {}", l.subject, l.text)).collect();
        told.join("; ")
    }

    fn with(kind: &str, conditions: &Value) -> Value {
        json!({"kind": kind, "metadata": {"name": "a"}, "spec": {"type": "up", "message": "why"}, "status": {"conditions": conditions}})
    }

    #[test]
    fn each_object_is_told_by_the_condition_that_matters() {
        let not_ready = json!({"type": "Ready", "status": "False", "reason": "R", "message": "m"});
        let cases = [
            ("a Stack that nobody saw", with("Stack", &json!([])), "stack/a not looked at yet"),
            (
                "reconciling says more than not ready",
                with(
                    "Stack",
                    &json!([not_ready, {"type": "Reconciling", "status": "True", "reason": "P", "message": "w"}]),
                ),
                "stack/a Reconciling, P: w",
            ),
            (
                "a Workspace says why it is not ready",
                with("Workspace", &json!([not_ready])),
                "workspace/a not ready, R: m",
            ),
            ("an Update waits", with("Update", &json!([])), "update/a up has not started: why"),
            (
                "an Update runs",
                with("Update", &json!([{"type": "Progressing", "status": "True"}])),
                "update/a up is running: why",
            ),
            (
                "a failed Update is complete as well",
                with("Update", &json!([{"type": "Complete", "status": "True"}, {"type": "Failed", "status": "True"}])),
                "update/a up failed: ",
            ),
        ];
        for (reason, item, expected) in cases {
            assert_eq!(told(&item), expected, "{reason}");
        }
    }

    #[test]
    fn events_come_last_in_their_order_and_those_of_pods_not_at_all() {
        let event = |name: &str, time: &str, kind: &str| {
            json!({"kind": "Event", "metadata": {"name": name, "uid": name}, "reason": name, "message": "m", "lastTimestamp": time,
                   "involvedObject": {"kind": kind, "name": "a"}})
        };
        let items = [
            event("late", "2", "Stack"),
            event("early", "1", "Update"),
            event("pod", "0", "Pod"),
            with("Stack", &json!([])),
        ];
        let subjects: Vec<String> = lines(&items).into_iter().map(|l| l.subject).collect();
        assert_eq!(subjects, ["stack/a", "event on update/a", "event on stack/a"]);
    }
}
