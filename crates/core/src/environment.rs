//! The name of an environment: the place in which a process runs, if it is not this machine.

use serde::{Deserialize, Serialize};

/// The longest name, in bytes.
const LONGEST: usize = 200;

/// The name of an environment, such as `bwrap`, `ssh:build-box` or one that the configuration defines.
///
/// ```
/// # use outlast_core::EnvironmentName;
/// let name: EnvironmentName = "ssh:me@build-box".parse().unwrap();
/// assert_eq!((name.backend(), name.target()), ("ssh", Some("me@build-box")));
/// assert!("no spaces".parse::<EnvironmentName>().is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct EnvironmentName(String);

/// Why a text is not the name of an environment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} cannot name an environment: a name is 1 to 200 of A-Z a-z 0-9 . _ : @ / + = - and does not begin with -")]
pub struct BadEnvironmentName {
    text: String,
}

impl EnvironmentName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What comes before the first colon; without one, the whole name.
    pub fn backend(&self) -> &str {
        self.0.split_once(':').map_or(&self.0, |(backend, _)| backend)
    }

    /// What comes after the first colon.
    pub fn target(&self) -> Option<&str> {
        self.0.split_once(':').map(|(_, target)| target)
    }
}

impl std::fmt::Display for EnvironmentName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::str::FromStr for EnvironmentName {
    type Err = BadEnvironmentName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // A name that begins with a dash would be an option of a program that gets it as an argument.
        let is_plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "._:@/+=-".contains(c));
        let is_one = is_plain && !text.is_empty() && text.len() <= LONGEST && !text.starts_with('-') && !text.contains(":-");
        if is_one { Ok(Self(text.to_owned())) } else { Err(BadEnvironmentName { text: text.to_owned() }) }
    }
}

impl TryFrom<String> for EnvironmentName {
    type Error = BadEnvironmentName;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<EnvironmentName> for String {
    fn from(name: EnvironmentName) -> Self {
        name.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_be_an_option_or_a_path_of_another_kind_is_no_name() {
        for bad in ["", "-x", "ssh:-oProxyCommand=x", "a b", "a\nb", "ssh:$(id)", "é", &"x".repeat(201)] {
            assert!(bad.parse::<EnvironmentName>().is_err(), "{bad:?}");
        }
        for good in ["bwrap", "ssh:me@host", "docker:dev_1", "apptainer:/images/a.sif", "local:/tmp/x"] {
            assert_eq!(good.parse::<EnvironmentName>().unwrap().as_str(), good);
        }
    }
}
