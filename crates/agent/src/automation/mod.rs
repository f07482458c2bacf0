//! The service that PKO's operator calls, over the same runs. Here a client that goes away cancels its operation, as
//! PKO's operator expects.

mod errors;
mod stream;

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use pko_proto::agent::{
    AddEnvironmentsRequest, AddEnvironmentsResult, DestroyRequest, DestroyResult, DestroyStream, InfoRequest,
    InfoResult, InstallRequest, InstallResult, PreviewRequest, PreviewResult, PreviewStream, PulumiVersionRequest,
    PulumiVersionResult, RefreshRequest, RefreshResult, RefreshStream, SelectStackRequest, SelectStackResult,
    SetAllConfigRequest, SetAllConfigResult, StackSummary, UpRequest, UpResult, UpStream, WhoAmIRequest, WhoAmIResult,
    automation_service_server::AutomationService as Service, destroy_stream, preview_stream, refresh_stream, up_stream,
};
use pko_pulumi::{Call, Class, Ended, StackListed, Wiring, classify, plan_config, selected_of_list};
use tonic::{Request, Response, Status, async_trait};

use self::{
    errors::{auto_error, cannot, known_kind, no_token},
    stream::{Kinds, Streaming},
};
use crate::{
    runs::{Registry, config_values, config_values::BadValue, entry::timestamp, prepare, work::Work},
    workspace::Workspace,
};

#[derive(Debug)]
pub(crate) struct AutomationService {
    registry: Arc<Registry>,
    selected: Mutex<Option<String>>,
    /// Quick calls of the CLI change the same files, so they take turns.
    turn: Arc<tokio::sync::Mutex<()>>,
    count: AtomicU64,
}

impl AutomationService {
    pub(crate) fn new(registry: Arc<Registry>) -> Self {
        Self { registry, selected: Mutex::default(), turn: Arc::default(), count: AtomicU64::default() }
    }

    fn workspace(&self) -> &Workspace {
        &self.registry.workspace
    }

    async fn call(&self, call: &Call<'_>, stdin: Option<String>) -> Result<Ended, Status> {
        let turn = Arc::clone(&self.turn).lock_owned().await;
        let name = call.name();
        self.workspace().log_in().await.map_err(|error| no_token(name, &error))?;
        let running = self.workspace().cli.start(call, stdin, Wiring::Pipes).map_err(|error| cannot(name, &error))?;
        // A client that goes away ends this call, but not the CLI, which has its turn to the end.
        let waiting = tokio::spawn(async move {
            let ended = running.wait().await;
            drop(turn);
            ended
        });
        let ended = waiting.await.map_err(|error| Status::internal(error.to_string()))?;
        let ended = ended.map_err(|error| cannot(name, &error))?;
        if !ended.succeeded() && classify(&ended.stderr) == Class::InvalidAccessToken {
            self.workspace().log_out().await;
        }
        Ok(ended)
    }

    fn select(&self, stack: Option<String>) {
        *self.selected.lock().unwrap_or_else(PoisonError::into_inner) = stack;
    }

    /// The stack that a client has selected, or that the CLI has selected before this agent was there.
    async fn stack(&self) -> Result<String, Status> {
        if let Some(stack) = self.selected.lock().unwrap_or_else(PoisonError::into_inner).clone() {
            return Ok(stack);
        }
        let ended = self.call(&Call::SelectedStack, None).await?;
        let stack = ended.stdout.trim().to_owned();
        if !ended.succeeded() || stack.is_empty() {
            return Err(Status::failed_precondition("no stack is selected"));
        }
        self.select(Some(stack.clone()));
        Ok(stack)
    }

    /// What the backend knows of the selected stack. Where it does not say, the name is all there is.
    async fn summary(&self, stack: String) -> Result<StackSummary, Status> {
        let ended = self.call(&Call::ListStacks, None).await?;
        let named = StackListed { name: stack, ..StackListed::default() };
        let listed = selected_of_list(&ended.stdout).unwrap_or(named);
        Ok(StackSummary {
            name: listed.name,
            last_update: listed.last_update.map(timestamp),
            update_in_progress: listed.update_in_progress,
            resource_count: listed.resource_count,
            url: Some(listed.url),
        })
    }

    /// An operation as a run of its own.
    fn operate<T: Send + 'static>(&self, work: Work, kinds: Kinds<T>) -> Result<Response<Streaming<T>>, Status> {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        let run_id = format!("stream-{}-{count}", jiff::Timestamp::now().as_millisecond());
        let entry = self.registry.start(&run_id, work)?;
        Ok(Response::new(stream::follow(entry, Arc::clone(&self.registry), kinds)))
    }
}

#[async_trait]
impl Service for AutomationService {
    async fn who_am_i(&self, _: Request<WhoAmIRequest>) -> Result<Response<WhoAmIResult>, Status> {
        #[derive(serde::Deserialize)]
        struct Printed {
            user: String,
            #[serde(default)]
            organizations: Vec<String>,
            #[serde(default)]
            url: String,
        }
        let version = self.workspace().version().await.map_err(|error| Status::unknown(error.to_string()))?;
        let json = version.has_whoami_json();
        let ended = self.call(&Call::WhoAmI { json }, None).await?;
        if !ended.succeeded() {
            let text = auto_error("whoami failed: could not determine the user", &ended, "");
            return Err(known_kind(text, classify(&ended.stderr)));
        }
        if !json {
            let user = ended.stdout.trim().to_owned();
            return Ok(Response::new(WhoAmIResult { user, ..WhoAmIResult::default() }));
        }
        let Printed { user, organizations, url } = serde_json::from_str(&ended.stdout)
            .map_err(|error| Status::unknown(format!("whoami failed: the CLI printed no JSON: {error}")))?;
        Ok(Response::new(WhoAmIResult { user, organizations, url }))
    }

    async fn select_stack(&self, request: Request<SelectStackRequest>) -> Result<Response<SelectStackResult>, Status> {
        let SelectStackRequest { stack_name: stack, create, secrets_provider } = request.into_inner();
        if stack.is_empty() {
            return Err(Status::invalid_argument("invalid stack name"));
        }
        let ended = self.call(&Call::SelectStack { stack: &stack }, None).await?;
        if !ended.succeeded() {
            if classify(&ended.stderr) != Class::StackNotFound {
                return Err(Status::unknown(auto_error("failed to select stack", &ended, "")));
            }
            if !create.unwrap_or_default() {
                return Err(Status::not_found("stack not found"));
            }
            let provider = secrets_provider.unwrap_or_default();
            let create = Call::CreateStack { stack: &stack, secrets_provider: &provider };
            let ended = self.call(&create, None).await?;
            if !ended.succeeded() {
                return Err(Status::unknown(auto_error("failed to create stack", &ended, "")));
            }
        }
        self.select(Some(stack.clone()));
        Ok(Response::new(SelectStackResult { summary: Some(self.summary(stack).await?) }))
    }

    async fn info(&self, _: Request<InfoRequest>) -> Result<Response<InfoResult>, Status> {
        let stack = self.stack().await?;
        Ok(Response::new(InfoResult { summary: Some(self.summary(stack).await?) }))
    }

    async fn set_all_config(
        &self,
        request: Request<SetAllConfigRequest>,
    ) -> Result<Response<SetAllConfigResult>, Status> {
        let stack = self.stack().await?;
        let project = self.workspace().project().map_err(|error| Status::unknown(error.to_string()))?;
        let exact = std::collections::HashMap::new();
        let items = config_values::read(&self.workspace().cli, &request.into_inner().config, &exact).map_err(
            |(key, bad)| match bad {
                BadValue::Json { .. } => Status::unknown(format!("config items: {bad}")),
                _ => Status::invalid_argument(format!(
                    "config items: unmarshalling {key:?} config: rpc error: code = InvalidArgument desc = {bad}"
                )),
            },
        )?;
        let steps = plan_config(&project.name, &items).map_err(|error| match error {
            pko_pulumi::ConfigError::PathWithJson(_) => Status::invalid_argument(format!("config items: {error}")),
            _ => Status::unknown(error.to_string()),
        })?;
        for step in &steps {
            let ended = self.call(&step.call(&stack), step.stdin()).await?;
            if !ended.succeeded() {
                return Err(Status::unknown(auto_error("unable to set all config", &ended, "")));
            }
        }
        Ok(Response::new(SetAllConfigResult {}))
    }

    async fn add_environments(
        &self,
        request: Request<AddEnvironmentsRequest>,
    ) -> Result<Response<AddEnvironmentsResult>, Status> {
        let stack = self.stack().await?;
        let version = self.workspace().version().await.map_err(|error| Status::unknown(error.to_string()))?;
        if !version.has_environments() {
            return Err(Status::unknown(format!(
                "AddEnvironments requires Pulumi CLI version >= {}",
                pko_pulumi::ENVIRONMENTS
            )));
        }
        let environments = prepare::missing_environments(self.workspace(), &stack, &request.into_inner().environment);
        if !environments.is_empty() {
            let call = Call::AddEnvironments { stack: &stack, environments: &environments };
            let ended = self.call(&call, None).await?;
            if !ended.succeeded() {
                return Err(Status::unknown(auto_error("unable to add environments", &ended, "")));
            }
        }
        Ok(Response::new(AddEnvironmentsResult {}))
    }

    async fn install(&self, _: Request<InstallRequest>) -> Result<Response<InstallResult>, Status> {
        let installs = self.workspace().project().map_or(true, |project| project.installs);
        if installs {
            let ended = self.call(&Call::Install, None).await?;
            if !ended.succeeded() {
                return Err(Status::aborted(auto_error("could not install dependencies", &ended, "")));
            }
        }
        Ok(Response::new(InstallResult {}))
    }

    async fn pulumi_version(&self, _: Request<PulumiVersionRequest>) -> Result<Response<PulumiVersionResult>, Status> {
        let version = self.workspace().version().await.map_err(|error| Status::unknown(error.to_string()))?;
        Ok(Response::new(PulumiVersionResult { version: version.to_string() }))
    }

    type PreviewStream = Streaming<PreviewStream>;

    async fn preview(&self, request: Request<PreviewRequest>) -> Result<Response<Self::PreviewStream>, Status> {
        use preview_stream::Response::{Event, Result};
        self.operate(
            Work::preview(self.stack().await?, request.into_inner()),
            Kinds {
                failed: "preview failed: failed to run preview",
                event: |event| PreviewStream { response: Some(Event(event)) },
                result: |result| PreviewStream {
                    response: Some(Result(PreviewResult {
                        stdout: result.stdout,
                        stderr: result.stderr,
                        // PKO's operator takes one without a summary for success.
                        summary: None,
                        permalink: result.permalink,
                        project_info: result.project_info,
                    })),
                },
            },
        )
    }

    type RefreshStream = Streaming<RefreshStream>;

    async fn refresh(&self, request: Request<RefreshRequest>) -> Result<Response<Self::RefreshStream>, Status> {
        use refresh_stream::Response::{Event, Result};
        self.operate(
            Work::refresh(self.stack().await?, request.into_inner()),
            Kinds {
                failed: "refresh failed: failed to refresh stack",
                event: |event| RefreshStream { response: Some(Event(event)) },
                result: |result| RefreshStream {
                    response: Some(Result(RefreshResult {
                        stdout: result.stdout,
                        stderr: result.stderr,
                        summary: Some(result.summary),
                        permalink: result.permalink,
                        project_info: result.project_info,
                    })),
                },
            },
        )
    }

    type UpStream = Streaming<UpStream>;

    async fn up(&self, request: Request<UpRequest>) -> Result<Response<Self::UpStream>, Status> {
        use up_stream::Response::{Event, Result};
        self.operate(
            Work::up(self.stack().await?, request.into_inner()),
            Kinds {
                failed: "up failed: failed to run update",
                event: |event| UpStream { response: Some(Event(event)) },
                result: |result| UpStream {
                    response: Some(Result(UpResult {
                        stdout: result.stdout,
                        stderr: result.stderr,
                        summary: Some(result.summary),
                        permalink: result.permalink,
                        outputs: result.outputs,
                        project_info: result.project_info,
                    })),
                },
            },
        )
    }

    type DestroyStream = Streaming<DestroyStream>;

    async fn destroy(&self, request: Request<DestroyRequest>) -> Result<Response<Self::DestroyStream>, Status> {
        use destroy_stream::Response::{Event, Result};
        let request = request.into_inner();
        let stack = self.stack().await?;
        if request.remove.unwrap_or_default() {
            // Removed or not: whoever comes next selects a stack first.
            self.select(None);
        }
        self.operate(
            Work::destroy(stack, request),
            Kinds {
                failed: "destroy failed: failed to destroy stack",
                event: |event| DestroyStream { response: Some(Event(event)) },
                result: |result| DestroyStream {
                    response: Some(Result(DestroyResult {
                        stdout: result.stdout,
                        stderr: result.stderr,
                        summary: Some(result.summary),
                        permalink: result.permalink,
                        project_info: result.project_info,
                    })),
                },
            },
        )
    }
}
