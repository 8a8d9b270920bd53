//! TLS: the authority that members are checked against, and the client's own certificate.

use etcd_client::{Certificate, Error as Said, Identity, TlsOptions};
use tidelock_core::backend::TlsCertificates;
use tidelock_core::{Error, ErrorKind, Result};
use tonic::transport::Endpoint;

/// How every PEM with a certificate says so.
const BEGIN: &[u8] = b"-----BEGIN CERTIFICATE-----";

/// How to check a member's certificate, and which one to show.
#[derive(Clone)]
pub(crate) struct Tls(TlsOptions);

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
        let unreadable = || Error::new(ErrorKind::InvalidOption, "the certificates cannot be read");
        if !are_certificates {
            return Err(unreadable());
        }
        let tls = Self(options);
        let tried = tls.on(Endpoint::from_static("https://localhost"));
        tried.map_err(|said| unreadable().because(said))?;
        Ok(tls)
    }

    pub(crate) fn on(&self, endpoint: Endpoint) -> std::result::Result<Endpoint, Said> {
        endpoint.tls_config(self.0.clone()).map_err(Said::TransportError)
    }
}

fn has_certificate(pem: &[u8]) -> bool {
    pem.windows(BEGIN.len()).any(|part| part == BEGIN)
}
