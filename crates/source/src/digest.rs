//! Digests as Flux writes them: `sha256:<hex>`, or hexadecimal digits alone, which mean sha256.

use std::{fmt, str::FromStr};

use sha2::digest::DynDigest;

/// What an archive's bytes must add up to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Digest {
    algorithm: Algorithm,
    hex: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Algorithm {
    Sha256,
    Sha384,
    Sha512,
}

/// Why a text is no digest that we can check.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DigestError {
    #[error("no digest is given; an archive that cannot be verified is not used")]
    Missing,
    #[error("digests of the kind {0:?} are not supported; sha256, sha384 and sha512 are")]
    Algorithm(String),
    #[error("{given:?} is not a {algorithm} digest, which has {digits} hexadecimal digits")]
    Digits { given: String, algorithm: &'static str, digits: usize },
}

impl Algorithm {
    const ALL: [Self; 3] = [Self::Sha256, Self::Sha384, Self::Sha512];

    fn name(self) -> &'static str {
        ["sha256", "sha384", "sha512"][self as usize]
    }

    fn digits(self) -> usize {
        [64, 96, 128][self as usize]
    }
}

impl FromStr for Digest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, DigestError> {
        if text.is_empty() {
            return Err(DigestError::Missing);
        }
        let (name, hex) = text.split_once(':').unwrap_or((Algorithm::Sha256.name(), text));
        let algorithm = Algorithm::ALL
            .into_iter()
            .find(|a| a.name() == name)
            .ok_or_else(|| DigestError::Algorithm(name.to_owned()))?;
        if hex.len() != algorithm.digits() || !hex.bytes().all(|b| b.is_ascii_hexdigit()) {
            let (algorithm, digits) = (algorithm.name(), algorithm.digits());
            return Err(DigestError::Digits { given: text.to_owned(), algorithm, digits });
        }
        Ok(Self { algorithm, hex: hex.to_ascii_lowercase() })
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.algorithm.name(), self.hex)
    }
}

impl Digest {
    /// Something that adds bytes up in the way of this digest.
    pub(crate) fn hasher(&self) -> Hasher {
        let state: Box<dyn DynDigest + Send> = match self.algorithm {
            Algorithm::Sha256 => Box::new(sha2::Sha256::default()),
            Algorithm::Sha384 => Box::new(sha2::Sha384::default()),
            Algorithm::Sha512 => Box::new(sha2::Sha512::default()),
        };
        Hasher { algorithm: self.algorithm, state }
    }
}

pub(crate) struct Hasher {
    algorithm: Algorithm,
    state: Box<dyn DynDigest + Send>,
}

impl Hasher {
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.state.update(bytes);
    }

    pub(crate) fn finish(self) -> Digest {
        use fmt::Write as _;
        let mut hex = String::new();
        for byte in self.state.finalize() {
            let _ = write!(hex, "{byte:02x}");
        }
        Digest { algorithm: self.algorithm, hex }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABC_256: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    fn of(kind: &str, bytes: &[u8]) -> String {
        let digits = kind.parse::<Digest>().unwrap();
        let mut hasher = digits.hasher();
        hasher.update(bytes);
        hasher.finish().to_string()
    }

    #[test]
    fn bytes_add_up_as_the_standard_says() {
        let zeros = |name: &str, n| format!("{name}:{}", "0".repeat(n));
        assert_eq!(of(&zeros("sha256", 64), b"abc"), format!("sha256:{ABC_256}"));
        assert_eq!(
            of(&zeros("sha384", 96), b"abc"),
            "sha384:cb00753f45a35e8bb5a03d699ac65007272c32ab0eded1631a8b605a43ff5bed8086072ba1e7cc2358baeca134c825a7"
        );
        assert_eq!(
            of(&zeros("sha512", 128), b"abc"),
            "sha512:ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd\
             454d4423643ce80e2a9ac94fa54ca49f"
        );
    }

    #[test]
    fn digits_alone_mean_sha256_in_either_case() {
        let named: Digest = format!("sha256:{ABC_256}").parse().unwrap();
        assert_eq!(ABC_256.parse::<Digest>().unwrap(), named);
        assert_eq!(ABC_256.to_uppercase().parse::<Digest>().unwrap(), named);
    }

    #[test]
    fn what_cannot_be_checked_is_refused() {
        assert_eq!("".parse::<Digest>(), Err(DigestError::Missing));
        assert_eq!("blake3:00".parse::<Digest>(), Err(DigestError::Algorithm("blake3".to_owned())));
        for text in ["sha256:", "sha256:abc", "sha512:ba78", "zz7816bf", &format!("sha256:{}", "g".repeat(64))] {
            assert!(matches!(text.parse::<Digest>(), Err(DigestError::Digits { .. })), "{text}");
        }
    }
}
