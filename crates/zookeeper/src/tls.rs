//! TLS: the authority that servers are checked against, and the client's own certificate.

use std::error::Error as StdError;
use std::io;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tidelock_core::backend::TlsCertificates;
use tidelock_core::{Error, ErrorKind, Result};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use zookeeper_client::{Connector, TlsOptions};

/// The parsed value, or why it cannot be parsed.
type Read<T> = std::result::Result<T, Box<dyn StdError + Send + Sync>>;

/// Parsed certificates, for the library and for our own connections.
#[derive(Clone)]
pub(crate) struct Tls {
    options: TlsOptions,
    connector: TlsConnector,
}

impl Tls {
    pub(crate) fn of(certificates: &TlsCertificates) -> Result<Self> {
        // A choice of the program wins. Without any, the library would panic if two providers are available.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let options = options(certificates).map_err(|said| unreadable().because(said))?;
        let config = config(certificates).map_err(|said| unreadable().because(said))?;
        Ok(Self { options, connector: Arc::new(config).into() })
    }

    /// Makes the library use these certificates.
    pub(crate) fn equip(&self, library: Connector) -> Connector {
        library.with_tls(self.options.clone())
    }

    /// Our own connection to `HOST:PORT`.
    pub(crate) async fn connect(&self, host: &str) -> io::Result<TlsStream<TcpStream>> {
        let name = server_name(host).ok_or(io::ErrorKind::InvalidInput)?;
        self.connector.connect(name, TcpStream::connect(host).await?).await
    }
}

/// Why client and server did not accept each other's certificates, if that is the error.
pub(crate) fn mistrust(error: &io::Error) -> Option<String> {
    match error.get_ref()?.downcast_ref::<rustls::Error>()? {
        rustls::Error::InvalidMessage(_) => None, // that was no TLS
        why => Some(why.to_string()),
    }
}

/// The name that the certificate of the server at `HOST:PORT` must have. None: no certificate can have it.
pub(crate) fn server_name(host: &str) -> Option<ServerName<'static>> {
    let (name, _) = host.rsplit_once(':')?;
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    ServerName::try_from(bare.unwrap_or(name)).ok().map(|name| name.to_owned())
}

fn options(certificates: &TlsCertificates) -> Read<TlsOptions> {
    let text = |pem: &[u8]| String::from_utf8(pem.to_vec());
    let options = TlsOptions::new().with_pem_ca(&text(&certificates.root_cert)?)?;
    Ok(match &certificates.client_tls {
        Some(client) => options.with_pem_identity(&text(&client.client_cert)?, &text(&client.client_key)?)?,
        None => options,
    })
}

fn config(certificates: &TlsCertificates) -> Read<ClientConfig> {
    let mut roots = RootCertStore::empty();
    for root in CertificateDer::pem_slice_iter(&certificates.root_cert) {
        roots.add(root?)?;
    }
    let config = ClientConfig::builder().with_root_certificates(roots);
    Ok(match &certificates.client_tls {
        Some(client) => {
            let chain = CertificateDer::pem_slice_iter(&client.client_cert)
                .collect::<std::result::Result<Vec<_>, _>>()?;
            config.with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(&client.client_key)?)?
        }
        None => config.with_no_client_auth(),
    })
}

fn unreadable() -> Error {
    Error::new(ErrorKind::InvalidOption, "the certificates cannot be read")
}
