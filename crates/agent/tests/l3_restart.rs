//! Runs whose agent is killed, restarted or told to stop.

mod support;

use std::fs;

use nix::sys::signal::Signal;
use pko_proto::runs::{AttachRequest, CancelMode, State, attach_response::What};
use support::{Rig, cancel, follow, get, kill_tree, program, reason, start, until, up};
use tonic::Code;

#[tokio::test]
async fn a_finished_run_is_known_to_the_next_agent_with_its_outputs() {
    let mut rig = Rig::serving(&(program("value: x, secret: planted") + "  hidden: ${a.secretOutput}\n")).await;
    rig.init().await;
    assert_eq!(rig.run("u", up()).await.failure, None);
    rig.kill_agent();
    rig.start_agent().await;
    let mut runs = rig.runs().await;
    let run = get(&mut runs, "u").await;
    assert_eq!((run.state(), run.output_count, run.resource_changes["create"]), (State::Succeeded, 2, 2));
    let (_, outputs) = follow(&mut runs, "u").await;
    let shown: Vec<(&str, &[u8], bool)> = outputs.iter().map(|o| (o.name.as_str(), &o.value[..], o.secret)).collect();
    assert_eq!(shown, [("hidden", &b"\"derived-from-planted\""[..], true), ("plain", &b"\"x\""[..], false)]);
    assert_eq!(start(&mut runs, "u", up()).await.unwrap().state(), State::Succeeded, "it is not started again");
    assert_eq!(rig.calls_of("up "), 1);
    assert!(!rig.journal().contains("planted"));
}

#[tokio::test]
async fn a_run_whose_container_is_gone_is_interrupted() {
    let mut rig = Rig::serving(&program("value: x, createSeconds: 60")).await;
    rig.init().await;
    let mut runs = rig.runs().await;
    start(&mut runs, "u", up()).await.unwrap();
    rig.until_in_ledger("create-started").await;
    rig.kill_agent();
    kill_tree(rig.cli_pid("u"));
    rig.start_agent().await;
    let mut runs = rig.runs().await;
    let run = get(&mut runs, "u").await;
    assert_eq!((run.state(), reason(&run)), (State::Failed, "Interrupted"));
}

#[tokio::test]
async fn the_stack_is_selected_again_in_a_container_that_was_started_again() {
    let mut rig = Rig::serving(&program("value: x")).await;
    rig.init().await;
    rig.kill_agent();
    // What a new container does not have any more.
    std::fs::remove_dir_all(rig.path("home/workspaces")).unwrap();
    rig.start_agent().await;
    until("the stack to be selected", async || rig.log().contains("selected the stack again").then_some(())).await;
    let kept = std::fs::read_dir(rig.path("home/workspaces")).unwrap();
    let text: String = kept.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap()).collect();
    assert!(text.contains("dev\""), "{text}");
}

#[tokio::test]
async fn a_run_whose_cli_outlives_its_agent_goes_on_to_its_real_result() {
    let mut rig = Rig::serving(&program("value: x, createSeconds: 3, noise: 20000")).await;
    rig.init().await;
    let mut runs = rig.runs().await;
    start(&mut runs, "u", up()).await.unwrap();
    rig.until_in_ledger("create-started").await;
    rig.kill_agent();
    rig.start_agent().await;
    let mut runs = rig.runs().await;
    assert_eq!(get(&mut runs, "u").await.state(), State::Running);
    let status = start(&mut runs, "u2", up()).await.unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition);
    let (run, outputs) = follow(&mut runs, "u").await;
    assert_eq!(run.failure, None);
    assert_eq!((outputs[0].value.as_slice(), rig.things()), (&b"\"x\""[..], 1));
    assert_eq!(rig.calls_of("up "), 1);
}

#[tokio::test]
async fn a_run_that_was_taken_up_can_be_canceled() {
    let mut rig = Rig::serving(&program("value: x, createSeconds: 60")).await;
    rig.init().await;
    let mut runs = rig.runs().await;
    start(&mut runs, "u", up()).await.unwrap();
    rig.until_in_ledger("create-started").await;
    rig.kill_agent();
    rig.start_agent().await;
    let mut runs = rig.runs().await;
    cancel(&mut runs, "u", CancelMode::Graceful).await;
    let (run, _) = follow(&mut runs, "u").await;
    assert_eq!((reason(&run), rig.locks().len()), ("Canceled", 0), "{run:?}");
}

#[tokio::test]
async fn an_agent_that_is_told_to_stop_lets_the_cli_wind_down_and_tells_its_client() {
    let mut rig = Rig::serving(&program("value: x, createSeconds: 60")).await;
    rig.init().await;
    let mut runs = rig.runs().await;
    start(&mut runs, "u", up()).await.unwrap();
    rig.until_in_ledger("create-started").await;
    let request = AttachRequest { run_id: "u".to_owned(), ..AttachRequest::default() };
    let mut stream = runs.attach(request).await.unwrap().into_inner();
    assert!(matches!(stream.message().await.unwrap().unwrap().what, Some(What::Progress(_))));
    rig.signal_agent(Signal::SIGTERM);
    let mut last = None;
    while let Some(message) = stream.message().await.unwrap() {
        last = message.what;
    }
    let Some(What::Ended(run)) = last else { panic!("the end of the run comes last: {last:?}") };
    assert_eq!(reason(&run), "Interrupted", "{run:?}");
    assert_eq!(rig.agent_exit().await.code(), Some(0));
    assert_eq!(rig.locks().len(), 0);
    rig.start_agent().await;
    let run = get(&mut rig.runs().await, "u").await;
    assert_eq!(reason(&run), "Interrupted", "the end is in the journal");
}

#[tokio::test]
async fn a_second_signal_ends_the_agent_at_once() {
    let mut rig = Rig::serving("name: shop\nruntime: yaml\n").await;
    rig.init().await;
    rig.write_script("pulumi", &format!("trap '' INT\ntouch {}\nsleep 600", rig.path("deaf").display()));
    start(&mut rig.runs().await, "u", up()).await.unwrap();
    until("the CLI is deaf", || async { rig.path("deaf").exists().then_some(()) }).await;
    rig.signal_agent(Signal::SIGTERM);
    until("the agent has seen the first signal", || async { rig.log().contains("stopping:").then_some(()) }).await;
    rig.signal_agent(Signal::SIGTERM);
    assert_eq!(rig.agent_exit().await.code(), Some(1));
}

#[tokio::test]
async fn an_idle_agent_stops_at_once() {
    let mut rig = Rig::serving("name: shop\nruntime: yaml\n").await;
    let _client = rig.runs().await;
    rig.signal_agent(Signal::SIGTERM);
    assert_eq!(rig.agent_exit().await.code(), Some(0));
}

#[tokio::test]
async fn only_the_newest_runs_are_kept() {
    let rig = Rig::serving("name: shop\nruntime: yaml\n").await;
    rig.write_script("pulumi", "exit 0");
    for n in 0..25 {
        rig.run(&format!("u{n}"), up()).await;
    }
    let mut kept: Vec<String> =
        fs::read_dir(rig.path("share/.runs")).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    kept.sort_by_key(|name| name[1..].parse::<u32>().unwrap());
    assert_eq!(kept, (5..25).map(|n| format!("u{n}")).collect::<Vec<_>>());
}

#[tokio::test]
async fn variables_of_the_environment_file_reach_the_cli() {
    let mut rig = Rig::new("name: shop\nruntime: yaml\n");
    fs::write(rig.path("share/.env"), "FROM_FILE=\"two words\"\nPULUMI_CONFIG_PASSPHRASE=other\n").unwrap();
    let seen = rig.path("seen");
    rig.write_script("pulumi", &format!("env >> {}", seen.display()));
    rig.start_agent().await;
    rig.run("u", up()).await;
    let seen = fs::read_to_string(seen).unwrap();
    for line in [
        "FROM_FILE=two words",
        "PULUMI_CONFIG_PASSPHRASE=other",
        "PULUMI_SKIP_UPDATE_CHECK=true",
        "PULUMI_DEBUG_COMMANDS=true",
        "PULUMI_AUTOMATION_API=true",
    ] {
        assert!(seen.lines().any(|l| l == line), "{line} is missing in {seen}");
    }
}
