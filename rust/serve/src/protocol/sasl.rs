//! The login of clients: SASL/PLAIN and SCRAM, with the server's users and passwords.

use std::collections::HashMap;
use std::sync::Arc;

use rsasl::callback::{Context, Request, SessionCallback, SessionData};
use rsasl::config::SASLConfig;
use rsasl::mechanisms::plain::PLAIN;
use rsasl::mechanisms::scram::properties::ScramStoredPassword;
use rsasl::mechanisms::scram::tools::{derive_keys, hash_password};
use rsasl::mechanisms::scram::{SCRAM_SHA256, SCRAM_SHA512};
use rsasl::mechname::Mechname;
use rsasl::prelude::{Mechanism, Registry, SASLServer, Session, SessionError, State};
use rsasl::property::{AuthId, AuthzId, Password};
use rsasl::validate::{Validate, Validation, ValidationError};
use sha2::digest::generic_array::GenericArray;
use sha2::{Digest, Sha256, Sha512};
use subtle::ConstantTimeEq;

/// The mechanisms, by their names in the protocol.
pub(crate) const MECHANISMS: [&str; 3] = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"];
static KNOWN: &[Mechanism] = &[PLAIN, SCRAM_SHA256, SCRAM_SHA512];
/// The number of iterations of SCRAM, as in Kafka (`ScramMechanism`).
const ITERATIONS: u32 = 4096;

/// Users with their passwords.
pub(crate) struct Users(Arc<SASLConfig>);

/// The login of a client, step by step.
pub(crate) struct Authenticating(Session<User>);

/// The outcome of a step.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Another step is needed: send the bytes to the client.
    GoOn(Vec<u8>),
    /// The client is this user. Send the bytes to the client.
    Done(String, Vec<u8>),
    Refused,
}

struct User;

impl Validation for User {
    type Value = String;
}

impl Users {
    /// `passwords` holds users and passwords.
    ///
    /// # Errors
    ///
    /// The SASL library supports none of the mechanisms.
    pub(crate) fn new(
        passwords: impl IntoIterator<Item = (String, String)>,
    ) -> std::io::Result<Self> {
        let known = passwords
            .into_iter()
            .map(|(user, password)| (user, Secret::new(&password)));
        let callback = Known(known.collect());
        SASLConfig::builder()
            .with_registry(Registry::with_mechanisms(KNOWN))
            .with_callback(callback)
            .map(Self)
            .map_err(std::io::Error::other)
    }

    /// Starts the login of a client; None if the mechanism is unknown.
    pub(crate) fn begin(&self, mechanism: &str) -> Option<Authenticating> {
        let name = MECHANISMS.iter().find(|known| **known == mechanism)?;
        let name = Mechname::parse(name.as_bytes()).ok()?;
        let server = SASLServer::<User>::new(Arc::clone(&self.0));
        server.start_suggested(name).ok().map(Authenticating)
    }
}

impl Authenticating {
    /// Handles the next bytes of the client.
    pub(crate) fn step(&mut self, bytes: &[u8]) -> Step {
        let mut answer = Vec::new();
        match self.0.step(Some(bytes), &mut answer) {
            Ok(State::Running) => Step::GoOn(answer),
            Ok(State::Finished(_)) => match self.0.validation() {
                Some(user) => Step::Done(user, answer),
                None => Step::Refused,
            },
            Err(_) => Step::Refused,
        }
    }
}

/// The stored form of a password. The salt is new at each start.
struct Secret {
    salt: [u8; 16],
    sha256: Keys,
    sha512: Keys,
    plain: [u8; 32],
}

/// The stored key and the server key of SCRAM (RFC 5802).
struct Keys(Vec<u8>, Vec<u8>);

impl Secret {
    fn new(password: &str) -> Self {
        let salt = *uuid::Uuid::new_v4().as_bytes();
        let mut salted256 = GenericArray::default();
        hash_password::<Sha256>(password.as_bytes(), ITERATIONS, &salt, &mut salted256);
        let (client256, server256) = derive_keys::<Sha256>(&salted256);
        let mut salted512 = GenericArray::default();
        hash_password::<Sha512>(password.as_bytes(), ITERATIONS, &salt, &mut salted512);
        let (client512, server512) = derive_keys::<Sha512>(&salted512);
        Self {
            salt,
            sha256: Keys(Sha256::digest(client256).to_vec(), server256.to_vec()),
            sha512: Keys(Sha512::digest(client512).to_vec(), server512.to_vec()),
            plain: Self::plain(&salt, password.as_bytes()),
        }
    }

    fn plain(salt: &[u8], password: &[u8]) -> [u8; 32] {
        Sha256::new()
            .chain_update(salt)
            .chain_update(password)
            .finalize()
            .into()
    }
}

struct Known(HashMap<String, Secret>);

impl SessionCallback for Known {
    fn callback(
        &self,
        session: &SessionData,
        context: &Context<'_>,
        request: &mut Request<'_>,
    ) -> Result<(), SessionError> {
        let secret = context
            .get_ref::<AuthId>()
            .and_then(|user| self.0.get(user));
        if let Some(secret) = secret {
            let keys = match session.mechanism().mechanism.as_str() {
                "SCRAM-SHA-512" => &secret.sha512,
                _ => &secret.sha256,
            };
            let stored = ScramStoredPassword::new(ITERATIONS, &secret.salt, &keys.0, &keys.1);
            request.satisfy::<ScramStoredPassword<'_>>(&stored)?;
        }
        Ok(())
    }

    fn validate(
        &self,
        session: &SessionData,
        context: &Context<'_>,
        validate: &mut Validate<'_>,
    ) -> Result<(), ValidationError> {
        let Some(user) = context.get_ref::<AuthId>() else {
            return Ok(());
        };
        // A user may not act for another one.
        let acts_for = context.get_ref::<AuthzId>().unwrap_or_default();
        let is_own = acts_for.is_empty() || acts_for == user;
        let is_right = match session.mechanism().mechanism.as_str() {
            "PLAIN" => match (self.0.get(user), context.get_ref::<Password>()) {
                (Some(secret), Some(password)) => Secret::plain(&secret.salt, password)
                    .ct_eq(&secret.plain)
                    .into(),
                _ => false,
            },
            // The exchange itself has shown that the client has the password.
            _ => true,
        };
        if is_own && is_right {
            validate.with::<User, _>(|| Ok(user.to_owned()))?;
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn users() -> Users {
        Users::new([("ann".to_owned(), "secret".to_owned())]).unwrap()
    }

    #[test]
    fn only_the_password_of_a_user_is_taken() {
        let step = |bytes: &[u8]| users().begin("PLAIN").unwrap().step(bytes);
        assert_eq!(
            step(b"\0ann\0secret"),
            Step::Done("ann".to_owned(), Vec::new())
        );
        assert_eq!(
            step(b"ann\0ann\0secret"),
            Step::Done("ann".to_owned(), Vec::new())
        );
        for wrong in [
            &b"\0ann\0other"[..],
            b"\0bob\0secret",
            b"bob\0ann\0secret",
            b"\0ann\0",
            b"\0ann\0secret\0",
            b"ann",
            b"",
            b"\xff\0\xff\0\xff",
        ] {
            assert_eq!(step(wrong), Step::Refused, "{wrong:?}");
        }
    }

    #[test]
    fn other_mechanisms_are_not_known() {
        assert!(users().begin("GSSAPI").is_none());
        assert!(users().begin("").is_none());
    }
}
