//! Certificates for TLS, as programs give them to a store.

use std::fmt;

/// Certificates for TLS, in PEM.
#[derive(Clone)]
pub struct TlsCertificates {
    /// The authorities to trust: one or more certificates, and lists of revoked ones.
    pub root_cert: Vec<u8>,
    /// This client's certificate, if the servers ask for one.
    pub client_tls: Option<ClientTlsConfig>,
}

/// A client's certificate and its key, in PEM.
#[derive(Clone)]
pub struct ClientTlsConfig {
    /// The client's certificate, and the chain from it to an authority that the servers trust.
    pub client_cert: Vec<u8>,
    /// Its key.
    pub client_key: Vec<u8>,
}

impl fmt::Debug for TlsCertificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsCertificates").field("client_tls", &self.client_tls).finish_non_exhaustive()
    }
}

impl fmt::Debug for ClientTlsConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientTlsConfig").finish_non_exhaustive()
    }
}
