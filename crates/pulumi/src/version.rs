//! The CLI's version, and what depends on it.

use std::fmt;

/// Since this version `config set-all` takes values that are not text.
pub const JSON_CONFIG: semver::Version = semver::Version::new(3, 202, 0);

/// Since this version stacks have environments.
pub const ENVIRONMENTS: semver::Version = semver::Version::new(3, 95, 0);

/// Since this version `whoami` answers in JSON.
const WHOAMI_JSON: semver::Version = semver::Version::new(3, 58, 0);

/// Since this version there is `pulumi install`.
pub const INSTALL: semver::Version = semver::Version::new(3, 91, 0);

/// The oldest version that runs at all.
const OLDEST: semver::Version = semver::Version::new(3, 2, 0);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(semver::Version);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Failed to parse Pulumi version {0:?}")]
pub struct BadVersion(pub String);

impl Version {
    /// With or without a leading v; missing parts are zero.
    pub fn parse(text: &str) -> Result<Self, BadVersion> {
        let bare = text.trim().trim_start_matches('v');
        let numbers = bare.find(['-', '+']).unwrap_or(bare.len());
        let missing = 2_usize.saturating_sub(bare[..numbers].matches('.').count());
        let whole = format!("{}{}{}", &bare[..numbers], ".0".repeat(missing), &bare[numbers..]);
        semver::Version::parse(&whole).map(Self).map_err(|_| BadVersion(text.trim().to_owned()))
    }

    /// Whether it is one of the versions this agent can drive: the third generation, from its beginning.
    pub fn is_supported(&self) -> bool {
        self.0.major == OLDEST.major && (self.0.minor, self.0.patch) >= (OLDEST.minor, OLDEST.patch)
    }

    pub fn has_install(&self) -> bool {
        self.0 >= INSTALL
    }

    pub fn has_json_config(&self) -> bool {
        self.0 >= JSON_CONFIG
    }

    pub fn has_whoami_json(&self) -> bool {
        self.0 >= WHOAMI_JSON
    }

    pub fn has_environments(&self) -> bool {
        self.0 >= ENVIRONMENTS
    }
}

/// Without a leading v.
impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_the_cli_prints_them() {
        for (text, shown, json) in [
            ("v3.259.0\n", "3.259.0", true),
            ("3.202.0", "3.202.0", true),
            ("v3.202.0-alpha.1", "3.202.0-alpha.1", false),
            ("v3.201", "3.201.0", false),
            ("3.260.0-dev+dirty", "3.260.0-dev+dirty", true),
        ] {
            let version = Version::parse(text).unwrap();
            assert_eq!((version.to_string().as_str(), version.has_json_config()), (shown, json));
        }
        for (text, supported, install) in
            [("v3.2.0-alpha", true, false), ("3.91.0", true, true), ("2.25.0", false, false), ("4.0.0", false, true)]
        {
            let version = Version::parse(text).unwrap();
            assert_eq!((version.is_supported(), version.has_install()), (supported, install), "{text}");
        }
        assert_eq!(Version::parse("latest").unwrap_err().to_string(), "Failed to parse Pulumi version \"latest\"");
    }
}
