//! TLS, and the certificates for it.

use etcd_client::{Certificate, Error as Said, Identity, TlsOptions};
use tonic::transport::Endpoint;

/// The certificates of a connection, in PEM.
#[derive(Clone, Debug, Default)]
pub struct TlsCertificates {
    /// The authority that the members' certificates are checked against. None: those of this system are not used, so a
    /// certificate must be given.
    pub root_cert: Vec<u8>,
    /// This client's certificate and its key.
    pub client: Option<(Vec<u8>, Vec<u8>)>,
}

/// How to check a member's certificate, and which one to show.
#[derive(Clone)]
pub(crate) struct Tls(TlsOptions);

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tls")
    }
}

impl Tls {
    pub(crate) fn of(certificates: &TlsCertificates) -> Self {
        let mut options = TlsOptions::new().ca_certificate(Certificate::from_pem(&certificates.root_cert));
        if let Some((certificate, key)) = &certificates.client {
            options = options.identity(Identity::from_pem(certificate, key));
        }
        Self(options)
    }

    pub(crate) fn on(&self, endpoint: Endpoint, _host: &str) -> Result<Endpoint, Said> {
        endpoint.tls_config(self.0.clone()).map_err(Said::TransportError)
    }
}
