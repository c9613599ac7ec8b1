//! The login of clients: by requests or, after version 0 of SaslHandshake, by bare SASL bytes.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::{
    SaslAuthenticateRequest, SaslAuthenticateResponse, SaslHandshakeRequest, SaslHandshakeResponse,
};
use kafka_protocol::protocol::StrBytes;

use crate::answers::call::{Answered, Call, Step, Threads};
use crate::answers::shared::{Login, Peer, Shared, Tokens};
use crate::base::counters::Counters;
use crate::base::sync::lock;
use crate::protocol::sasl::{self, MECHANISMS};
use crate::protocol::wire::{ProtocolError, Reply};

/// The delay before the answer to a wrong password, as `connection.failed.authentication.delay.ms`.
const AFTER_A_WRONG_PASSWORD: Duration = Duration::from_millis(100);

/// Starts the mechanism that a client names.
pub(super) fn handshake(
    call: &Call,
    request: &SaslHandshakeRequest,
) -> Answered<SaslHandshakeResponse> {
    let mut login = lock(&call.peer.login);
    let refused = SaslHandshakeResponse::default()
        .with_error_code(ResponseError::UnsupportedSaslMechanism.code());
    if matches!(*login, Login::Done(_)) {
        return Ok(refused);
    }
    let users = call.shared.users.as_ref();
    let response = match users.and_then(|users| users.begin(&request.mechanism)) {
        Some(begun) => {
            let tokens = match call.version() {
                0 => Tokens::Bare,
                _ => Tokens::InRequests,
            };
            *login = Login::Begun(Box::new(begun), tokens);
            SaslHandshakeResponse::default()
        }
        None => refused,
    };
    let names = MECHANISMS.map(StrBytes::from_static_str);
    Ok(response.with_mechanisms(names.to_vec()))
}

/// Handles a token in a request.
pub(super) fn authenticate(call: Arc<Call>) -> Answered<Step> {
    let refused = |error: ResponseError, text| {
        SaslAuthenticateResponse::default()
            .with_error_code(error.code())
            .with_error_message(Some(StrBytes::from_static_str(text)))
    };
    if matches!(*lock(&call.peer.login), Login::Done(_)) {
        let response = refused(
            ResponseError::IllegalSaslState,
            "the server needs no password, or the client has already logged in",
        );
        return call.request.reply(&response).map(Step::reply);
    }
    let body: SaslAuthenticateRequest = call.request.body()?;
    let (shared, peer) = (Arc::clone(&call.shared), Arc::clone(&call.peer));
    take_token(shared, peer, body.auth_bytes, move |token| {
        let response = match token {
            Some(token) => SaslAuthenticateResponse::default().with_auth_bytes(token),
            None => refused(
                ResponseError::SaslAuthenticationFailed,
                "Authentication failed: invalid user or password",
            ),
        };
        call.request.reply(&response).map(Step::reply)
    })
}

/// Handles a token sent as bare bytes.
pub(super) fn take_bare_token(
    shared: Arc<Shared>,
    peer: Arc<Peer>,
    token: Bytes,
) -> Answered<Step> {
    take_token(shared, peer, token, |token| {
        Ok(Step::Reply(token.map(|token| Reply::bare(&token))))
    })
}

/// Passes a client's token to its mechanism. `answer` is called with the reply; None if the password is wrong.
fn take_token(
    shared: Arc<Shared>,
    peer: Arc<Peer>,
    token: Bytes,
    answer: impl FnOnce(Option<Bytes>) -> Answered<Step> + Send + 'static,
) -> Answered<Step> {
    let begun = std::mem::replace(&mut *lock(&peer.login), Login::Asked);
    let Login::Begun(mut login, tokens) = begun else {
        let text = "a password before a mechanism";
        return Err(ProtocolError::Bytes(text.to_owned()));
    };
    // Comparing a password takes long, and would delay other clients.
    let step = move || match login.step(&token) {
        sasl::Step::GoOn(token) => {
            *lock(&peer.login) = Login::Begun(login, tokens);
            answer(Some(token.into()))
        }
        sasl::Step::Done(user, token) => {
            *lock(&peer.login) = Login::Done(Some(user));
            answer(Some(token.into()))
        }
        sasl::Step::Refused => {
            Counters::add(&shared.counters.not_authenticated, 1);
            *lock(&peer.login) = Login::Refused;
            let answer = Box::new(|| answer(None));
            Ok(Step::Sleep(AFTER_A_WRONG_PASSWORD, answer))
        }
    };
    Ok(Step::Block(Threads::Others, Box::new(step)))
}
