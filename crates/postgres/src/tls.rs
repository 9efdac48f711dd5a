//! TLS: whom a connection trusts, and the certificate that it shows.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::CryptoProvider,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject as _},
};
use rustls_platform_verifier::Verifier;
use tokio_postgres::config::SslMode;
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::libpq::{Parameters, only_for_its_user};

/// How much of a server's certificate is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Checked {
    /// Its chain and its name.
    All,
    /// Its chain.
    Chain,
}

/// TLS as the parameters of an address ask for it.
pub(crate) struct Tls {
    pub(crate) mode: SslMode,
    pub(crate) connect: MakeRustlsConnect,
}

impl Tls {
    /// Takes the parameters of TLS. A certificate is checked whenever TLS is used: `require` is as strict as `verify-full`.
    pub(crate) fn take(parameters: &mut Parameters) -> Result<Self, String> {
        let roots = parameters.file("sslrootcert", ".postgresql/root.crt");
        let certificate = parameters.file("sslcert", ".postgresql/postgresql.crt");
        let key = parameters.file("sslkey", ".postgresql/postgresql.key");
        let (mode, checked) = match parameters.take("sslmode").as_deref() {
            Some("disable") => (SslMode::Disable, Checked::All),
            None | Some("allow" | "prefer") => (SslMode::Prefer, Checked::All),
            Some("require" | "verify-full") => (SslMode::Require, Checked::All),
            Some("verify-ca") => (SslMode::Require, Checked::Chain),
            Some(other) => {
                return Err(format!(
                    "sslmode={other} is not known: it is one of disable, allow, prefer, require, verify-ca, verify-full"
                ));
            }
        };
        let connect = match mode {
            // Nothing is read that is not used.
            SslMode::Disable => connector(None, Checked::All, None)?,
            _ => connector(roots, checked, certificate.map(|file| (file, key)))?,
        };
        Ok(Self { mode, connect })
    }
}

fn connector(
    roots: Option<PathBuf>,
    checked: Checked,
    own: Option<(PathBuf, Option<PathBuf>)>,
) -> Result<MakeRustlsConnect, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let in_words = |error: rustls::Error| format!("setting up TLS: {error}");
    let verifier = verifier(roots.as_deref(), &provider)?;
    let verifier: Arc<dyn ServerCertVerifier> = match checked {
        Checked::All => verifier,
        Checked::Chain => Arc::new(ChainOnly(verifier)),
    };
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(in_words)?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let config = match own {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let chain = certificates("client certificate (sslcert)", &certificate)?;
            let Some(key) = key else {
                return Err(format!(
                    "the certificate {} has no key: name its file with sslkey=FILE",
                    certificate.display()
                ));
            };
            let own = builder.with_client_auth_cert(chain, private_key(&key)?);
            own.map_err(|error| {
                format!(
                    "the certificate {} and the key {} do not go together: {error}",
                    certificate.display(),
                    key.display()
                )
            })?
        }
    };
    Ok(MakeRustlsConnect::new(config))
}

/// The check of a server's certificate: with the authorities of a file, or with those that the operating system trusts.
fn verifier(
    roots: Option<&Path>,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, String> {
    let Some(file) = roots.filter(|file| *file != Path::new("system")) else {
        let of_system = Verifier::new(provider.clone());
        return match of_system {
            Ok(verifier) => Ok(Arc::new(verifier)),
            Err(error) => Err(format!("setting up TLS: {error}")),
        };
    };
    let wrong = |error: String| {
        let file = file.display();
        format!("the authorities in {file} (sslrootcert) cannot be used: {error}")
    };
    let mut store = RootCertStore::empty();
    for certificate in certificates("authorities (sslrootcert)", file)? {
        store
            .add(certificate)
            .map_err(|error| wrong(error.to_string()))?;
    }
    let built =
        WebPkiServerVerifier::builder_with_provider(Arc::new(store), provider.clone()).build();
    match built {
        Ok(verifier) => Ok(verifier),
        Err(error) => Err(wrong(error.to_string())),
    }
}

fn certificates(kind: &str, file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let wrong = |error: String| format!("the {kind} in {} cannot be read: {error}", file.display());
    let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let read = read.map_err(|error| wrong(error.to_string()))?;
    match read.is_empty() {
        true => Err(wrong("it has no section BEGIN CERTIFICATE".to_owned())),
        false => Ok(read),
    }
}

fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>, String> {
    only_for_its_user("key (sslkey)", file)?;
    PrivateKeyDer::from_pem_file(file).map_err(|error| {
        format!(
            "the key (sslkey) in {} cannot be read: {error}; it must be a PEM file without a passphrase",
            file.display()
        )
    })
}

/// Checks all of a server's certificate but its name, as `verify-ca` says.
#[derive(Debug)]
struct ChainOnly(Arc<dyn ServerCertVerifier>);

impl ServerCertVerifier for ChainOnly {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let checked =
            self.0
                .verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match checked {
            // The name is checked last, when the chain was found good.
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
