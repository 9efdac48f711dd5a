//! A database that lets in only those who show a certificate and a password, and what users of libpq write for it.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use ghostlight_actors::contract::StoreError;
use ghostlight_postgres::{Options, PostgresStore};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair,
};

use crate::server::{Server, is_left_out, own, versions};

/// Files of an authority that both sides trust, and of one that nobody does.
struct Files {
    folder: PathBuf,
}

impl Files {
    fn new() -> Self {
        let name = format!("gl-identity-{:08x}", rand::random::<u32>());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir(&folder).unwrap();
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Writes a file that its user alone may read.
    fn write(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        readable_by(&path, 0o600);
        path.display().to_string()
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn readable_by(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn authority(name: &str) -> CertifiedIssuer<'static, KeyPair> {
    let mut authority = CertificateParams::new([]).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.distinguished_name.push(DnType::CommonName, name);
    CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap()
}

/// A certificate for this host or this user, and its key.
fn issued(
    authority: &CertifiedIssuer<'static, KeyPair>,
    names: &[&str],
    user: Option<&str>,
) -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names).unwrap();
    params.extended_key_usages = vec![match user {
        Some(_) => ExtendedKeyUsagePurpose::ClientAuth,
        None => ExtendedKeyUsagePurpose::ServerAuth,
    }];
    let name = user.unwrap_or("database");
    params.distinguished_name.push(DnType::CommonName, name);
    let certificate = params.signed_by(&key, authority).unwrap();
    (certificate.pem(), key.serialize_pem())
}

/// Lets in only those who come by TLS with a certificate of their name and the password.
fn guard(server: &Server, files: &Files, authority: &CertifiedIssuer<'static, KeyPair>) {
    server.sql("ALTER ROLE agent PASSWORD 'hunter2'");
    let (certificate, key) = issued(authority, &["localhost"], None);
    for (name, text) in [
        ("ca.pem", authority.pem()),
        ("server.pem", certificate),
        ("server.key", key),
    ] {
        let path = server.data().join(name);
        fs::write(&path, text).unwrap();
        readable_by(&path, 0o600);
        own(&path);
    }
    let configuration = server.data().join("postgresql.conf");
    let mut text = fs::read_to_string(&configuration).unwrap();
    text.push_str(
        "ssl = on\nssl_ca_file = 'ca.pem'\nssl_cert_file = 'server.pem'\nssl_key_file = 'server.key'\n",
    );
    fs::write(&configuration, text).unwrap();
    let rules = "hostssl all agent 127.0.0.1/32 scram-sha-256 clientcert=verify-full\n";
    fs::write(server.data().join("pg_hba.conf"), rules).unwrap();
    server.crash();
    server.restart();
    files.write("root.crt", &authority.pem());
    let (certificate, key) = issued(authority, &[], Some("agent"));
    files.write("agent.crt", &certificate);
    files.write("agent.key", &key);
}

fn with(variables: &[(&str, &str)]) -> Options {
    let variables: BTreeMap<_, _> = variables.iter().copied().collect();
    let read = |name: &str| variables.get(name).map(|value| (*value).to_owned());
    Options::default().variables(read)
}

/// Why the store cannot be opened; no secret is told.
async fn refused(url: &str, variables: &[(&str, &str)]) -> String {
    let refused = PostgresStore::open_with(url, &with(variables)).await;
    let Err(StoreError::Io { place, reason }) = refused else {
        panic!("{refused:?}");
    };
    let told = format!("{place}: {reason}");
    assert!(!told.contains("hunter2"), "{told}");
    told
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_a_password_file_and_a_service_are_shown_as_libpq_would() {
    if is_left_out() {
        return;
    }
    let mut is_tried = false;
    for version in versions() {
        let server = Server::of(version, &crate::server::QUICK);
        let client = server.client().await;
        let library = client.query_one("SHOW ssl_library", &[]).await.unwrap();
        if library.get::<_, &str>(0).is_empty() {
            // The one from PyPI is built without TLS.
            continue;
        }
        is_tried = true;
        let files = Files::new();
        let ours = authority("ours");
        guard(&server, &files, &ours);
        let port = server.port();
        let folder = files.folder.display();
        let certificates = format!(
            "sslmode=verify-full&sslrootcert={folder}/root.crt&sslcert={folder}/agent.crt&sslkey={folder}/agent.key"
        );
        let url = format!("postgres://agent@localhost:{port}/postgres?{certificates}");
        let opens = async |url: &str, variables: &[(&str, &str)]| {
            let store = PostgresStore::open_with(url, &with(variables)).await;
            let store = store.unwrap_or_else(|error| panic!("{url}: {error}"));
            assert_eq!(store.nodes().await.unwrap().len(), 1);
            ghostlight_actors::contract::Store::close(&store)
                .await
                .unwrap();
        };
        // The password: of the address, of the environment, of a file that is named, and of the usual one.
        opens(&url.replace("agent@", "agent:hunter2@"), &[]).await;
        opens(&url, &[("PGPASSWORD", "hunter2")]).await;
        let line = format!("*:1:*:*:wrong\nlocalhost:{port}:postgres:agent:hunter2\n");
        let passwords = files.write("passwords", &line);
        opens(&url, &[("PGPASSFILE", &passwords)]).await;
        opens(&format!("{url}&passfile={passwords}"), &[]).await;
        files.write(".pgpass", &line);
        let home = folder.to_string();
        opens(&url, &[("HOME", &home)]).await;

        // All of it in a service, which is named in the address or in the environment; or as words, or as variables.
        let section = format!(
            "[agents]\nhost=localhost\nport={port}\ndbname=postgres\nuser=agent\npassword=hunter2\n{}\n",
            certificates.replace('&', "\n")
        );
        let services = files.write("services", &section);
        let by_file = ("PGSERVICEFILE", &*services);
        opens("postgres:///?service=agents", &[by_file]).await;
        opens("service=agents", &[by_file]).await;
        opens("postgres://", &[by_file, ("PGSERVICE", "agents")]).await;
        files.write(".pg_service.conf", &section);
        opens("service=agents", &[("HOME", &home)]).await;
        let words = certificates.replace('&', " ");
        let words =
            format!("host=localhost port={port} dbname=postgres password='hunter2' {words}");
        opens(&words, &[("PGUSER", "agent")]).await;
        // The usual files of a home.
        fs::create_dir(files.path(".postgresql")).unwrap();
        for (from, to) in [
            ("root.crt", "root.crt"),
            ("agent.crt", "postgresql.crt"),
            ("agent.key", "postgresql.key"),
        ] {
            let to = files.path(".postgresql").join(to);
            fs::copy(files.path(from), to).unwrap();
        }
        let plain = format!("postgres://agent@localhost:{port}/postgres?sslmode=require");
        opens(&plain, &[("HOME", &home)]).await;

        // A name that the server's certificate has not: `verify-ca` does not look at it.
        let by_number = url.replace("localhost", "127.0.0.1");
        let password = ("PGPASSWORD", "hunter2");
        let told = refused(&by_number, &[password]).await;
        assert!(told.contains("verify-ca"), "{told}");
        opens(&by_number.replace("verify-full", "verify-ca"), &[password]).await;

        // An authority that did not issue it is refused by all modes that use TLS.
        let other = authority("other");
        files.write("other.crt", &other.pem());
        for mode in ["prefer", "require", "verify-ca", "verify-full"] {
            let wrong = url
                .replace("root.crt", "other.crt")
                .replace("verify-full", mode);
            let told = refused(&wrong, &[password]).await;
            assert!(told.contains("sslrootcert=FILE"), "{mode}: {told}");
        }
        // Nobody is let in without a certificate of his own name.
        let without = format!(
            "postgres://agent@localhost:{port}/postgres?sslmode=verify-full&sslrootcert={folder}/root.crt"
        );
        let told = refused(&without, &[password]).await;
        assert!(told.contains("sslcert=FILE"), "{told}");
        let (certificate, key) = issued(&ours, &[], Some("stranger"));
        files.write("stranger.crt", &certificate);
        files.write("stranger.key", &key);
        refused(&url.replace("/agent.", "/stranger."), &[password]).await;
        refused(&url, &[("PGPASSWORD", "hunter3")]).await;
        let told = refused(&url, &[]).await;
        assert!(
            told.contains("PGPASSWORD") && told.contains(".pgpass"),
            "{told}"
        );
    }
    assert!(is_tried, "none of these servers speaks TLS");
}

/// A file that cannot be used is named, with what to do, before any connection is made.
#[tokio::test]
async fn a_file_that_cannot_be_used_is_named_with_what_to_do() {
    let files = Files::new();
    let ours = authority("ours");
    let (certificate, key) = issued(&ours, &[], Some("agent"));
    files.write("root.crt", &ours.pem());
    files.write("agent.crt", &certificate);
    files.write("agent.key", &key);
    files.write("other.key", &issued(&ours, &[], Some("agent")).1);
    files.write("empty.crt", "nothing\n");
    files.write("open.key", &key);
    readable_by(&files.path("open.key"), 0o644);
    let open_passwords = files.write("open", "*:*:*:*:hunter2\n");
    readable_by(&files.path("open"), 0o644);
    let folder = files.folder.display();
    for (query, file, advice) in [
        ("sslmode=verify-all", "", "verify-full"),
        ("sslrootcert=DIR/none.crt", "none.crt", "sslrootcert"),
        (
            "sslrootcert=DIR/empty.crt",
            "empty.crt",
            "BEGIN CERTIFICATE",
        ),
        (
            "sslcert=DIR/none.crt&sslkey=DIR/agent.key",
            "none.crt",
            "sslcert",
        ),
        ("sslcert=DIR/agent.crt", "agent.crt", "sslkey=FILE"),
        (
            "sslcert=DIR/agent.crt&sslkey=DIR/none.key",
            "none.key",
            "sslkey",
        ),
        (
            "sslcert=DIR/agent.crt&sslkey=DIR/open.key",
            "open.key",
            "chmod 600",
        ),
        (
            "sslcert=DIR/agent.crt&sslkey=DIR/agent.crt",
            "agent.crt",
            "PEM file",
        ),
        (
            "sslcert=DIR/agent.crt&sslkey=DIR/other.key",
            "other.key",
            "do not go together",
        ),
        ("passfile=DIR/open", "open", "chmod 600"),
        ("passfile=DIR/none", "none", "password file"),
        ("service=agents", "", "PGSERVICEFILE"),
        ("sslcrl=DIR/root.crl", "", "sslcrl"),
    ] {
        let url = format!("postgres://agent:hunter2@localhost:1/agents?{query}");
        let url = url.replace("DIR", &folder.to_string());
        // A password file is read where there is no password yet.
        let url = match query.starts_with("passfile") {
            true => url.replace(":hunter2", ""),
            false => url,
        };
        let told = refused(&url, &[]).await;
        assert!(
            told.contains(file) && told.contains(advice),
            "{query}: {told}"
        );
    }
    let told = refused("service=agents", &[("PGSERVICEFILE", &open_passwords)]).await;
    assert!(told.contains("[agents]"), "{told}");
    let told = refused("postgres:///agents", &[]).await;
    assert!(told.contains("PGHOST"), "{told}");
}
