//! The login of clients: SASL/PLAIN and SCRAM, with the server's users and passwords.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

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

use crate::base::sync::lock;

/// The mechanisms, by their names in the protocol.
pub(crate) const MECHANISMS: [&str; 3] = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"];
static KNOWN: &[Mechanism] = &[PLAIN, SCRAM_SHA256, SCRAM_SHA512];
/// The number of iterations of SCRAM, as in Kafka (`ScramMechanism`).
const ITERATIONS: u32 = 4096;

/// Users with their passwords.
pub(crate) struct Users {
    known: Arc<Known>,
    config: Arc<SASLConfig>,
}

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
        let known = Arc::new(Known::new(passwords.into_iter().collect()));
        let config = SASLConfig::builder()
            .with_registry(Registry::with_mechanisms(KNOWN))
            .with_callback(Callback(Arc::clone(&known)))
            .map_err(std::io::Error::other)?;
        Ok(Self { known, config })
    }

    /// Hashes the passwords for SCRAM, which takes milliseconds for each user. Otherwise, the first client that uses
    /// SCRAM waits for this.
    pub(crate) fn hash_passwords(&self) {
        self.known.of_scram();
    }

    /// Starts the login of a client; None if the mechanism is unknown.
    pub(crate) fn begin(&self, mechanism: &str) -> Option<Authenticating> {
        let name = MECHANISMS.iter().find(|known| **known == mechanism)?;
        let name = Mechname::parse(name.as_bytes()).ok()?;
        let server = SASLServer::<User>::new(Arc::clone(&self.config));
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

/// The stored forms of all passwords.
///
/// A client cannot see whether a user exists. A user that does not exist has a salt and keys too, and each login takes
/// the same steps: all users are hashed at once, not each one at its first login.
struct Known {
    /// New at each start.
    seed: [u8; 32],
    /// Salted hashes for PLAIN.
    plain: HashMap<String, [u8; 32]>,
    /// Users and passwords, until they are hashed for SCRAM.
    passwords: Mutex<Vec<(String, String)>>,
    of_scram: OnceLock<HashMap<String, Keys>>,
}

/// The keys of a user, for SHA-256 and for SHA-512.
struct Keys {
    sha256: StoredKeys,
    sha512: StoredKeys,
}

/// The stored key and the server key of SCRAM (RFC 5802).
struct StoredKeys(Vec<u8>, Vec<u8>);

/// The bytes that are derived from the seed and the name of a user.
#[derive(Clone, Copy)]
enum Derived {
    Salt = 0,
    StoredKey = 1,
    ServerKey = 2,
}

impl Known {
    fn new(passwords: Vec<(String, String)>) -> Self {
        let mut seed = [0; 32];
        for half in seed.chunks_exact_mut(16) {
            half.copy_from_slice(uuid::Uuid::new_v4().as_bytes());
        }
        let mut known = Self {
            seed,
            plain: HashMap::new(),
            passwords: Mutex::default(),
            of_scram: OnceLock::new(),
        };
        let hashed = |(user, password): &(String, String)| {
            (user.clone(), known.plain_hash(user, password.as_bytes()))
        };
        known.plain = passwords.iter().map(hashed).collect();
        known.passwords = Mutex::new(passwords);
        known
    }

    /// The keys of all users. The first call hashes the passwords and drops them.
    fn of_scram(&self) -> &HashMap<String, Keys> {
        self.of_scram.get_or_init(|| {
            let passwords = std::mem::take(&mut *lock(&self.passwords));
            let hashed = |(user, password): (String, String)| {
                let keys = Keys::new(&password, &self.salt(&user));
                (user, keys)
            };
            passwords.into_iter().map(hashed).collect()
        })
    }

    /// Random bytes that stay the same for a user.
    fn derived(&self, kind: Derived, user: &str) -> [u8; 64] {
        Sha512::new()
            .chain_update(self.seed)
            .chain_update([kind as u8])
            .chain_update(user)
            .finalize()
            .into()
    }

    fn salt(&self, user: &str) -> [u8; 16] {
        let mut salt = [0; 16];
        let derived = self.derived(Derived::Salt, user);
        for (byte, derived) in salt.iter_mut().zip(derived) {
            *byte = derived;
        }
        salt
    }

    /// Keys that belong to no password, of the length of a mechanism's keys.
    fn keys_of_nobody(&self, user: &str, length: usize) -> StoredKeys {
        let key = |kind| self.derived(kind, user).into_iter().take(length).collect();
        StoredKeys(key(Derived::StoredKey), key(Derived::ServerKey))
    }

    fn plain_hash(&self, user: &str, password: &[u8]) -> [u8; 32] {
        Sha256::new()
            .chain_update(self.salt(user))
            .chain_update(password)
            .finalize()
            .into()
    }
}

impl Keys {
    fn new(password: &str, salt: &[u8]) -> Self {
        let mut salted256 = GenericArray::default();
        hash_password::<Sha256>(password.as_bytes(), ITERATIONS, salt, &mut salted256);
        let (client256, server256) = derive_keys::<Sha256>(&salted256);
        let mut salted512 = GenericArray::default();
        hash_password::<Sha512>(password.as_bytes(), ITERATIONS, salt, &mut salted512);
        let (client512, server512) = derive_keys::<Sha512>(&salted512);
        Self {
            sha256: StoredKeys(Sha256::digest(client256).to_vec(), server256.to_vec()),
            sha512: StoredKeys(Sha512::digest(client512).to_vec(), server512.to_vec()),
        }
    }
}

struct Callback(Arc<Known>);

impl SessionCallback for Callback {
    fn callback(
        &self,
        session: &SessionData,
        context: &Context<'_>,
        request: &mut Request<'_>,
    ) -> Result<(), SessionError> {
        let Some(user) = context.get_ref::<AuthId>() else {
            return Ok(());
        };
        let is_512 = session.mechanism().mechanism.as_str() == "SCRAM-SHA-512";
        let salt = self.0.salt(user);
        let of_nobody = self.0.keys_of_nobody(user, if is_512 { 64 } else { 32 });
        let keys = self.0.of_scram().get(user).map_or(&of_nobody, |keys| {
            if is_512 { &keys.sha512 } else { &keys.sha256 }
        });
        let stored = ScramStoredPassword::new(ITERATIONS, &salt, &keys.0, &keys.1);
        request.satisfy::<ScramStoredPassword<'_>>(&stored)?;
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
        let stored = self.0.plain.get(user);
        let is_right = match session.mechanism().mechanism.as_str() {
            "PLAIN" => context.get_ref::<Password>().is_some_and(|password| {
                // The hash of no password: it is compared all the same.
                let stored = stored.unwrap_or(&[0; 32]);
                self.0.plain_hash(user, password).ct_eq(stored).into()
            }),
            // The exchange itself has shown that the client has the password.
            _ => true,
        };
        let is_right = is_right && stored.is_some();
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

    /// The first answer of SCRAM to a user: its salt, and its number of iterations.
    fn offered(users: &Users, mechanism: &str, user: &str) -> (String, String) {
        let mut login = users.begin(mechanism).unwrap();
        let first = format!("n,,n={user},r=nonce-of-the-client");
        let step = login.step(first.as_bytes());
        assert!(matches!(step, Step::GoOn(_)), "{user} is refused at once");
        let Step::GoOn(answer) = step else {
            return Default::default();
        };
        let answer = String::from_utf8(answer).unwrap();
        let part = |name: &str| {
            let mut parts = answer.split(',');
            parts
                .find_map(|part| part.strip_prefix(name))
                .unwrap()
                .to_owned()
        };
        let proof = format!("c=biws,r={},p={}", part("r="), "A".repeat(43) + "=");
        assert_eq!(login.step(proof.as_bytes()), Step::Refused);
        (part("s="), part("i="))
    }

    #[test]
    fn scram_does_not_tell_whether_a_user_exists() {
        let users = users();
        for mechanism in ["SCRAM-SHA-256", "SCRAM-SHA-512"] {
            let (salt, iterations) = offered(&users, mechanism, "ann");
            let (other_salt, other_iterations) = offered(&users, mechanism, "bob");
            assert_eq!(
                (iterations, salt.len()),
                (other_iterations, other_salt.len())
            );
            // A salt that changed would tell that nothing is stored.
            assert_eq!(offered(&users, mechanism, "ann").0, salt);
            assert_eq!(offered(&users, mechanism, "bob").0, other_salt);
            assert_ne!(salt, other_salt);
        }
        assert_ne!(
            offered(&self::users(), "SCRAM-SHA-256", "ann"),
            offered(&users, "SCRAM-SHA-256", "ann")
        );
    }

    #[test]
    fn passwords_are_hashed_for_scram_at_its_first_use_and_not_kept() {
        let users = users();
        users.begin("PLAIN").unwrap().step(b"\0ann\0secret");
        let mut login = users.begin("SCRAM-SHA-256").unwrap();
        assert!(users.known.of_scram.get().is_none());
        login.step(b"n,,n=bob,r=nonce-of-the-client");
        assert_eq!(users.known.of_scram.get().unwrap().len(), 1);
        assert!(lock(&users.known.passwords).is_empty());
    }

    #[test]
    fn other_mechanisms_are_not_known() {
        assert!(users().begin("GSSAPI").is_none());
        assert!(users().begin("").is_none());
    }
}
