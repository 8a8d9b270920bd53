//! TLS: the authority that members are checked against, and the client's own certificate.

use std::error::Error as StdError;
use std::sync::Arc;
use std::time::Duration;

use etcd_client::{Certificate, Error as Said, Identity, TlsOptions};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tidelock_core::backend::TlsCertificates;
use tidelock_core::{Error, ErrorKind, Result};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic::transport::Endpoint;

/// How long a member may take to say why it refuses a certificate.
const SAYS_WITHIN: Duration = Duration::from_millis(500);

/// The parsed value, or why it cannot be parsed.
type Read<T> = std::result::Result<T, Box<dyn StdError + Send + Sync>>;

/// How every PEM with a certificate says so.
const BEGIN: &[u8] = b"-----BEGIN CERTIFICATE-----";

/// How to check a member's certificate, and which one to show.
#[derive(Clone)]
pub(crate) struct Tls {
    /// For the library.
    options: TlsOptions,
    /// For a connection of our own.
    connector: TlsConnector,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tls")
    }
}

impl Tls {
    pub(crate) fn of(certificates: &TlsCertificates) -> Result<Self> {
        let TlsCertificates { root_cert, client_tls } = certificates;
        let mut options = TlsOptions::new().ca_certificate(Certificate::from_pem(root_cert));
        let mut are_certificates = has_certificate(root_cert);
        if let Some(client) = client_tls {
            are_certificates &= has_certificate(&client.client_cert);
            options = options.identity(Identity::from_pem(&client.client_cert, &client.client_key));
        }
        if !are_certificates {
            return Err(unreadable());
        }
        let config = config(certificates).map_err(|said| unreadable().because(said))?;
        let tls = Self { options, connector: Arc::new(config).into() };
        let tried = tls.on(Endpoint::from_static("https://localhost"));
        tried.map_err(|said| unreadable().because(said))?;
        Ok(tls)
    }

    pub(crate) fn on(&self, endpoint: Endpoint) -> std::result::Result<Endpoint, Said> {
        endpoint.tls_config(self.options.clone()).map_err(Said::TransportError)
    }

    /// Why the member at `HOST:PORT` refuses this client's certificate, or the lack of one. With TLS 1.3 it says so after
    /// the handshake, and closes the connection: what we send then makes the system drop its word. So nothing is sent.
    pub(crate) async fn refusal(&self, host: &str) -> Option<String> {
        let asking = async {
            let tcp = TcpStream::connect(host).await.ok()?;
            let said = match self.connector.connect(server_name(host)?, tcp).await {
                Ok(mut quiet) => quiet.read_u8().await.err()?,
                Err(said) => said,
            };
            match said.get_ref()?.downcast_ref::<rustls::Error>()? {
                why @ rustls::Error::AlertReceived(_) => Some(why.to_string()),
                _ => None,
            }
        };
        tokio::time::timeout(SAYS_WITHIN, asking).await.ok().flatten()
    }
}

fn unreadable() -> Error {
    Error::new(ErrorKind::InvalidOption, "the certificates cannot be read")
}

/// The name that the certificate of the member at `HOST:PORT` must have.
fn server_name(host: &str) -> Option<ServerName<'static>> {
    let (name, _) = host.rsplit_once(':')?;
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    ServerName::try_from(bare.unwrap_or(name)).ok().map(|name| name.to_owned())
}

fn config(certificates: &TlsCertificates) -> Read<ClientConfig> {
    let mut roots = RootCertStore::empty();
    for root in CertificateDer::pem_slice_iter(&certificates.root_cert) {
        roots.add(root?)?;
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots);
    Ok(match &certificates.client_tls {
        Some(client) => {
            let chain = CertificateDer::pem_slice_iter(&client.client_cert)
                .collect::<std::result::Result<Vec<_>, _>>()?;
            config.with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(&client.client_key)?)?
        }
        None => config.with_no_client_auth(),
    })
}

fn has_certificate(pem: &[u8]) -> bool {
    pem.windows(BEGIN.len()).any(|part| part == BEGIN)
}
