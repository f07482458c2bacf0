//! What the operator is started with: flags and variables by the names that PKO's users know.

use std::{env, path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand, ValueEnum, builder::ArgPredicate};
use pko_api::{GoDuration, annotations};

#[derive(Debug, Parser)]
#[command(name = "manager", about = "Keeps Pulumi stacks as their Stack objects say", version)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Option<Command>,
    #[command(flatten)]
    pub flags: Flags,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Print the version
    Version,
    /// Tell what the operator would do about an object now, and why; writes nothing
    Explain {
        kind: ExplainKind,
        /// NAMESPACE/NAME
        object: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExplainKind {
    Stack,
    Workspace,
    Update,
    Program,
}

/// The flags of the operator itself.
#[derive(Clone, Debug, Args)]
pub struct Flags {
    /// Run only while holding the lease, so that several replicas do not work against each other
    #[arg(long, value_parser = go_bool, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", value_name = "BOOL")]
    pub leader_elect: bool,
    /// How long others wait after the last renewal before they take the lease
    #[arg(long, value_parser = duration, default_value = "15s", value_name = "DURATION")]
    pub leader_election_lease_duration: Duration,
    /// How long the leader tries to renew before it gives up
    #[arg(long, value_parser = duration, default_value = "10s", value_name = "DURATION")]
    pub leader_election_renew_deadline: Duration,
    /// Time between attempts to take or renew the lease
    #[arg(long, value_parser = duration, default_value = "2s", value_name = "DURATION")]
    pub leader_election_retry_period: Duration,
    /// How long a request to the API server may take
    #[arg(long, value_parser = duration, default_value = "30s", value_name = "DURATION")]
    pub kube_api_timeout: Duration,
    /// Where /healthz and /readyz are served; 0 to serve them nowhere
    #[arg(long, default_value = ":8081", value_name = "ADDRESS")]
    pub health_probe_bind_address: String,
    /// Where metrics are served; accepted, and without effect so far
    #[arg(long, default_value = "0", value_name = "ADDRESS")]
    pub metrics_bind_address: String,
    /// Protect metrics; accepted, and without effect so far
    #[arg(long, value_parser = go_bool, num_args = 0..=1, require_equals = true, default_value = "true", default_missing_value = "true", value_name = "BOOL")]
    pub metrics_secure: bool,
    /// Serve metrics over HTTP/2; accepted, and without effect so far
    #[arg(long, value_parser = go_bool, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", value_name = "BOOL")]
    pub enable_http2: bool,
    /// Where the artifacts of Programs are served; PROGRAM_FS_ADDR or :9090 when absent
    #[arg(long, value_name = "ADDRESS")]
    program_fs_addr: Option<String>,
    /// Where workspaces find those artifacts; PROGRAM_FS_ADV_ADDR, or made from --program-fs-addr, when absent
    #[arg(long, value_name = "ADDRESS")]
    program_fs_adv_addr: Option<String>,
    /// How the cluster is reached; found as kubectl does, or inside a pod, when absent
    #[arg(long, global = true, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// What is logged: debug, info, error, panic, or a number, where more is more
    #[arg(long, default_value = "info", default_value_if("zap_devel", ArgPredicate::Equals("true".into()), "debug"), value_name = "LEVEL")]
    pub zap_log_level: String,
    /// How a line of the log looks
    #[arg(long, default_value = "json", default_value_if("zap_devel", ArgPredicate::Equals("true".into()), "console"), value_name = "ENCODER")]
    pub zap_encoder: Encoder,
    /// How times in the log look
    #[arg(long, default_value = "epoch", default_value_if("zap_devel", ArgPredicate::Equals("true".into()), "iso8601"), value_name = "ENCODING")]
    pub zap_time_encoding: TimeEncoding,
    /// Log for people: debug level and the console encoder, unless said otherwise
    #[arg(long, value_parser = go_bool, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", value_name = "BOOL")]
    pub zap_devel: bool,
    /// Accepted, and without effect: there are no stack traces
    #[arg(long, default_value = "error", value_name = "LEVEL")]
    pub zap_stacktrace_level: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Encoder {
    Json,
    Console,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TimeEncoding {
    Epoch,
    Millis,
    Nano,
    Iso8601,
    Rfc3339,
    #[value(name = "rfc3339nano")]
    Rfc3339Nano,
}

impl Cli {
    /// Flags as Go's flag package takes them: one dash or two.
    pub fn arguments(given: impl Iterator<Item = String>) -> Vec<String> {
        given
            .enumerate()
            .map(|(place, argument)| {
                let long = argument.strip_prefix('-').filter(|rest| {
                    let name = rest.split('=').next().unwrap_or_default();
                    name.len() > 1 && name.chars().next().is_some_and(|c| c.is_ascii_lowercase())
                });
                match long {
                    Some(rest) if place > 0 => format!("--{rest}"),
                    _ => argument,
                }
            })
            .collect()
    }
}

impl Flags {
    /// With variables: some win over flags, and those that cannot be parsed are as good as none; others stand in for
    /// flags that are absent.
    #[must_use]
    pub fn completed(mut self, variable: impl Fn(&str) -> Option<String>) -> Self {
        let given = |flag: Option<String>, name: &str| flag.filter(|text| !text.is_empty()).or_else(|| variable(name));
        self.program_fs_addr = given(self.program_fs_addr, "PROGRAM_FS_ADDR");
        self.program_fs_adv_addr = given(self.program_fs_adv_addr, "PROGRAM_FS_ADV_ADDR");
        let read = |name: &str, flag: &mut Duration| {
            if let Some(value) = variable(name).and_then(|text| duration(&text).ok()) {
                *flag = value;
            }
        };
        read("LEADER_ELECTION_LEASE_DURATION", &mut self.leader_election_lease_duration);
        read("LEADER_ELECTION_RENEW_DEADLINE", &mut self.leader_election_renew_deadline);
        read("LEADER_ELECTION_RETRY_PERIOD", &mut self.leader_election_retry_period);
        read("KUBE_API_TIMEOUT", &mut self.kube_api_timeout);
        self
    }

    /// With the addresses of the operator in whose container this runs, if it does: `kubectl exec` passes variables on,
    /// but not flags.
    #[must_use]
    pub fn beside(mut self, first_process: &[u8]) -> Self {
        let arguments: Vec<String> =
            first_process.split(|byte| *byte == 0).map(|text| String::from_utf8_lossy(text).into_owned()).collect();
        let ours = arguments.iter().position(|argument| argument.rsplit('/').next() == Some("manager"));
        let given = arguments.into_iter().skip(ours.unwrap_or(usize::MAX)).filter(|argument| !argument.is_empty());
        if let Ok(Self { program_fs_addr, program_fs_adv_addr, .. }) =
            Cli::try_parse_from(Cli::arguments(given)).map(|cli| cli.flags)
        {
            self.program_fs_addr = self.program_fs_addr.or(program_fs_addr);
            self.program_fs_adv_addr = self.program_fs_adv_addr.or(program_fs_adv_addr);
        }
        self
    }

    /// Where artifacts are served.
    pub fn artifact_bind_address(&self) -> &str {
        self.program_fs_addr.as_deref().unwrap_or(":9090")
    }

    /// Where workspaces find artifacts.
    pub fn artifact_address(&self, hostname: impl FnOnce() -> String) -> String {
        if let Some(advertised) = &self.program_fs_adv_addr {
            return advertised.clone();
        }
        let bind = self.artifact_bind_address();
        let (host, port) = bind.rsplit_once(':').unwrap_or((bind, "80"));
        match host {
            "" => format!("localhost:{port}"),
            "0.0.0.0" => format!("{}:{port}", hostname()),
            host => format!("{host}:{port}"),
        }
    }
}

/// A variable that is set to something.
pub fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// As the kernel has it; in a pod, the pod's name.
pub fn hostname() -> String {
    let own = || std::fs::read_to_string("/proc/sys/kernel/hostname").ok().map(|name| name.trim().to_owned());
    variable("HOSTNAME").or_else(own).unwrap_or_else(|| "localhost".to_owned())
}

fn duration(text: &str) -> Result<Duration, String> {
    text.parse::<GoDuration>().map(GoDuration::to_std).map_err(|error| error.to_string())
}

fn go_bool(text: &str) -> Result<bool, String> {
    match text {
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        text if annotations::is_true(text) => Ok(true),
        other => Err(format!("{other} is neither true nor false")),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn parse(arguments: &[&str]) -> Flags {
        let given = std::iter::once("manager").chain(arguments.iter().copied()).map(str::to_owned);
        Cli::try_parse_from(Cli::arguments(given)).unwrap_or_else(|error| panic!("{error}")).flags
    }

    #[test]
    fn the_deployments_of_before_start() {
        let flags = parse(&[
            "--leader-elect",
            "--health-probe-bind-address=:8081",
            "--metrics-bind-address=:8383",
            "--metrics-secure=true",
            "--program-fs-adv-addr=operator.team:80",
            "--zap-log-level=error",
            "--zap-encoder=console",
            "--zap-time-encoding=iso8601",
        ]);
        assert!(flags.leader_elect);
        assert_eq!(flags.artifact_address(|| panic!()), "operator.team:80");
        assert_eq!((flags.zap_encoder, flags.zap_time_encoding), (Encoder::Console, TimeEncoding::Iso8601));
    }

    #[rstest]
    #[case(&["--kube-api-timeout", "1m30s"])]
    #[case(&["--kube-api-timeout=1m30s"])]
    #[case(&["-kube-api-timeout=1m30s"])]
    #[case(&["-kube-api-timeout", "1m30s"])]
    fn flags_are_written_as_in_go(#[case] arguments: &[&str]) {
        assert_eq!(parse(arguments).kube_api_timeout, Duration::from_secs(90));
    }

    #[test]
    fn a_switch_can_be_turned_off() {
        assert!(!parse(&["--leader-elect=false"]).leader_elect);
        assert!(parse(&["-leader-elect=T"]).leader_elect);
        assert!(!parse(&["--metrics-secure=0"]).metrics_secure);
        assert!(!parse(&[]).leader_elect);
    }

    #[test]
    fn development_changes_what_is_not_said() {
        let flags = parse(&["--zap-devel"]);
        assert_eq!((flags.zap_log_level.as_str(), flags.zap_encoder), ("debug", Encoder::Console));
        assert_eq!(parse(&["--zap-devel", "--zap-encoder=json"]).zap_encoder, Encoder::Json);
    }

    #[test]
    fn variables_win_over_flags_unless_they_make_no_sense() {
        let flags =
            parse(&["--leader-election-lease-duration=1m", "--kube-api-timeout=5s"]).completed(|name| match name {
                "LEADER_ELECTION_LEASE_DURATION" => Some("40s".to_owned()),
                "KUBE_API_TIMEOUT" => Some("soon".to_owned()),
                _ => None,
            });
        assert_eq!(flags.leader_election_lease_duration, Duration::from_secs(40));
        assert_eq!(flags.kube_api_timeout, Duration::from_secs(5));
    }

    #[test]
    fn variables_stand_in_for_addresses_that_are_absent() {
        let variable = |name: &str| (name == "PROGRAM_FS_ADDR").then(|| "10.0.0.1:81".to_owned());
        assert_eq!(parse(&[]).completed(variable).artifact_bind_address(), "10.0.0.1:81");
        assert_eq!(parse(&["--program-fs-addr="]).completed(variable).artifact_bind_address(), "10.0.0.1:81");
        assert_eq!(parse(&["--program-fs-addr=:80"]).completed(variable).artifact_bind_address(), ":80");
        assert_eq!(parse(&[]).completed(|_| None).artifact_bind_address(), ":9090");
    }

    #[rstest]
    #[case::on_all_interfaces(":9090", "localhost:9090")]
    #[case::on_all_of_ipv4("0.0.0.0:9090", "pod-1:9090")]
    #[case::on_one("10.0.0.1:80", "10.0.0.1:80")]
    #[case::on_one_of_ipv6("[fd00::1]:80", "[fd00::1]:80")]
    fn the_advertised_address_follows_from_the_other(#[case] bind: &str, #[case] advertised: &str) {
        let flags = parse(&[&format!("--program-fs-addr={bind}")]);
        assert_eq!(flags.artifact_address(|| "pod-1".to_owned()), advertised);
    }

    #[test]
    fn explaining_beside_an_operator_takes_its_addresses() {
        let address = |first: &str| parse(&[]).beside(first.as_bytes()).artifact_address(|| panic!());
        assert_eq!(address("/tini\0--\0/manager\0--leader-elect\0--program-fs-adv-addr=a:80\0"), "a:80");
        assert_eq!(address("/manager\0-program-fs-adv-addr\0a:80\0"), "a:80");
        assert_eq!(address("/sbin/init\0--program-fs-adv-addr=a:80\0"), "localhost:9090");
    }

    #[test]
    fn objects_can_be_explained_by_kind_and_name() {
        let cli = Cli::try_parse_from(["manager", "explain", "stack", "team/web"]).unwrap();
        assert!(
            matches!(cli.command, Some(Command::Explain { kind: ExplainKind::Stack, object }) if object == "team/web")
        );
    }
}
