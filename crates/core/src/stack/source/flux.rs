//! A Flux source, or another object of the Stack's namespace with such an artifact.

use pko_api::{
    messages::stack as message,
    stack::{FluxSource, FluxSourceReference},
};

use super::{Draft, Resolved, Source, unavailable};
use crate::{
    ask::{SourceRef, SourceSeen},
    conditions::joined,
    facts::Facts,
    step::Decision,
};

pub(super) fn resolve(facts: &Facts, draft: &mut Draft, source: &FluxSource) -> Decision<Resolved> {
    let reference = &source.source_ref;
    if let Some(fault) = fault(reference) {
        let text = format!("spec.fluxSource.sourceRef: {}", message::source_reference_invalid(fault));
        return Err(draft.spec_invalid(&text));
    }
    let asked = SourceRef {
        api_version: reference.api_version.clone(),
        kind: reference.kind.clone(),
        name: reference.name.clone(),
    };
    match facts.source(asked)? {
        SourceSeen::Artifact { url, revision, digest } => {
            let dir = source.dir.clone().unwrap_or_default();
            let from = Source::Flux { url: url.clone(), digest: digest.clone(), dir };
            Ok(Resolved { from, commit: revision.clone() })
        }
        SourceSeen::Empty { why } => Err(unavailable(draft, joined(message::FLUX_SOURCE_WITHOUT_ARTIFACT, why))),
        SourceSeen::Missing(why) | SourceSeen::Unreadable(why) => {
            Err(unavailable(draft, message::source_unresolved(why)))
        }
    }
}

/// What is wrong with a reference, whatever there is in the cluster.
fn fault(reference: &FluxSourceReference) -> Option<&'static str> {
    let version = reference.api_version.split('/').collect::<Vec<_>>();
    let well_formed = matches!(version[..], [version] | [_, version] if !version.is_empty());
    if !well_formed || version.iter().any(|part| part.is_empty()) {
        return Some("apiVersion must be a version with its group, such as source.toolkit.fluxcd.io/v1");
    }
    if reference.kind.is_empty() {
        return Some("kind is empty; give one, such as GitRepository");
    }
    reference.name.is_empty().then_some("name is empty; give the name of the source")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("source.toolkit.fluxcd.io/v1", "GitRepository", "web", None)]
    #[case("v1", "ConfigMap", "web", None)]
    #[case("", "GitRepository", "web", Some("apiVersion"))]
    #[case("a/b/c", "GitRepository", "web", Some("apiVersion"))]
    #[case("/v1", "GitRepository", "web", Some("apiVersion"))]
    #[case("source.toolkit.fluxcd.io/", "GitRepository", "web", Some("apiVersion"))]
    #[case("v1", "", "web", Some("kind"))]
    #[case("v1", "A", "", Some("name"))]
    fn a_reference_names_its_fault(
        #[case] version: &str,
        #[case] kind: &str,
        #[case] name: &str,
        #[case] expected: Option<&str>,
    ) {
        let reference =
            FluxSourceReference { api_version: version.to_owned(), kind: kind.to_owned(), name: name.to_owned() };
        let found = fault(&reference);
        assert_eq!(found.is_some(), expected.is_some(), "{found:?}");
        assert!(found.unwrap_or_default().starts_with(expected.unwrap_or_default()), "{found:?}");
    }
}
