//! A socket of a client, plain or encrypted.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::server::TlsStream;

use crate::base::options::Tls;

/// A socket.
pub(super) enum Socket {
    Plain(TcpStream),
    Encrypted(Box<TlsStream<TcpStream>>),
}

/// Returns the TLS configuration of the sockets.
///
/// # Errors
///
/// The files hold no certificate, or no matching key.
pub(super) fn acceptor(tls: &Tls) -> io::Result<TlsAcceptor> {
    let invalid = |path: &std::path::Path, error: &dyn std::fmt::Display| {
        let text = format!("{}: {error}", path.display());
        io::Error::new(io::ErrorKind::InvalidInput, text)
    };
    let of_certificate = |error: &dyn std::fmt::Display| invalid(&tls.certificate, error);
    let of_key = |error: &dyn std::fmt::Display| invalid(&tls.key, error);
    let chain = CertificateDer::pem_file_iter(&tls.certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| of_certificate(&error))?;
    if chain.is_empty() {
        return Err(of_certificate(&"no certificate in PEM form"));
    }
    let key = PrivateKeyDer::from_pem_file(&tls.key).map_err(|error| of_key(&error))?;
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|error| of_key(&error))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_read(context, buffer),
            Self::Encrypted(socket) => Pin::new(socket).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_write(context, bytes),
            Self::Encrypted(socket) => Pin::new(socket).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_flush(context),
            Self::Encrypted(socket) => Pin::new(socket).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_shutdown(context),
            Self::Encrypted(socket) => Pin::new(socket).poll_shutdown(context),
        }
    }
}
