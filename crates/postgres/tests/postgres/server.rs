//! Real PostgreSQL servers, each thrown away with its test. `GHOSTLIGHT_POSTGRES` names the folders of `initdb` and
//! `pg_ctl`, as a path; without it they are looked for where Debian has them and on the path.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use tokio_postgres::NoTls;

/// Settings of a server that no test crashes.
pub(crate) const QUICK: [&str; 2] = ["fsync = off", "max_connections = 200"];

/// A server that is stopped and removed when it is dropped.
pub(crate) struct Server {
    programs: PathBuf,
    folder: PathBuf,
    port: u16,
    /// Whether its tables and its log are on a file system of their own, which can be filled.
    is_small: bool,
}

/// `initdb` refuses to run for root, who lends its rights to a user that exists everywhere.
fn as_somebody(program: &Path) -> Command {
    if !is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=nobody", "--regid=nogroup", "--clear-groups"]);
    command.arg(program);
    command
}

fn is_root() -> bool {
    Command::new("id")
        .arg("-u")
        .output()
        .is_ok_and(|output| output.stdout.starts_with(b"0\n"))
}

/// Gives a folder to the user as whom servers run.
pub(crate) fn own(folder: &Path) {
    if is_root() {
        let mut chown = Command::new("chown");
        told(chown.arg("nobody:nogroup").arg(folder).output(), "chown");
    }
}

fn told(output: io::Result<Output>, what: &str) {
    let output = output.unwrap_or_else(|error| panic!("{what}: {error}"));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{what}: {text}");
}

/// Whether these tests are left out; `./test` says so at its end.
pub(crate) fn is_left_out() -> bool {
    let skip = std::env::var_os("GHOSTLIGHT_SKIP_POSTGRES").is_some_and(|skip| skip == "1");
    if skip {
        eprintln!("left out: GHOSTLIGHT_SKIP_POSTGRES=1");
    }
    skip
}

/// The folders of `initdb` and `pg_ctl`, one for each version that is tried.
pub(crate) fn versions() -> Vec<PathBuf> {
    if let Some(folders) = std::env::var_os("GHOSTLIGHT_POSTGRES") {
        return std::env::split_paths(&folders).collect();
    }
    let debian = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let mut found: Vec<PathBuf> = debian
        .flatten()
        .map(|entry| entry.path().join("bin"))
        .collect();
    found.sort();
    let path = std::env::var_os("PATH").unwrap_or_default();
    found.extend(std::env::split_paths(&path).filter(|folder| folder.join("initdb").exists()));
    found.truncate(1);
    assert!(
        !found.is_empty(),
        "PostgreSQL is missing: install it, or name the folders of initdb in GHOSTLIGHT_POSTGRES"
    );
    found
}

/// The folder of `initdb` and `pg_ctl` of a server with pgvector, which `GHOSTLIGHT_PGVECTOR` names or one of
/// [`versions`] has. `None` where these tests are left out; `./test` says so at its end.
pub(crate) fn with_vectors() -> Option<PathBuf> {
    let skip = std::env::var_os("GHOSTLIGHT_SKIP_PGVECTOR").is_some_and(|skip| skip == "1");
    if skip || is_left_out() {
        return None;
    }
    let named = std::env::var_os("GHOSTLIGHT_PGVECTOR").map(PathBuf::from);
    let has_vectors = |programs: &PathBuf| {
        ["../lib/vector.so", "../lib/postgresql/vector.so"]
            .iter()
            .any(|library| programs.join(library).exists())
    };
    let found = named.or_else(|| versions().into_iter().find(has_vectors));
    Some(found.expect(
        "pgvector is missing: name the folder of an initdb with it in GHOSTLIGHT_PGVECTOR, or set \
         GHOSTLIGHT_SKIP_PGVECTOR=1",
    ))
}

impl Server {
    /// Makes a server of the first version; `settings` are lines of its configuration.
    pub(crate) fn start(settings: &[&str]) -> Self {
        Self::of(versions().swap_remove(0), settings)
    }

    /// Makes a server of this version.
    pub(crate) fn of(programs: PathBuf, settings: &[&str]) -> Self {
        Self::made(programs, settings, None)
    }

    /// Makes a server of the first version whose tables and log are on a file system of so many megabytes. `None` where
    /// this process may not mount one.
    pub(crate) fn small(settings: &[&str], megabytes: u64) -> Option<Self> {
        let server = Self::made(versions().swap_remove(0), settings, Some(megabytes));
        server.is_small.then_some(server)
    }

    fn made(programs: PathBuf, settings: &[&str], megabytes: Option<u64>) -> Self {
        let mut server = Self::folder_of(programs);
        if let Some(megabytes) = megabytes {
            server.mount(megabytes);
            if !server.is_small {
                return server;
            }
        }
        let mut initdb = as_somebody(&server.programs.join("initdb"));
        initdb.args([
            "-A",
            "trust",
            "-U",
            "agent",
            "-E",
            "UTF8",
            "--locale=C.UTF-8",
            "--no-sync",
            "-D",
        ]);
        initdb.arg(server.data()).current_dir("/");
        if server.is_small {
            initdb.arg("-X").arg(server.disk().join("log"));
        }
        told(initdb.output(), "initdb");
        let configuration = server.data().join("postgresql.conf");
        let mut text = fs::read_to_string(&configuration).unwrap();
        for setting in settings {
            text.push_str(setting);
            text.push('\n');
        }
        fs::write(configuration, text).unwrap();
        server.control("start");
        if server.is_small {
            let at = server.disk().join("tables");
            server.sql(&format!(
                "CREATE TABLESPACE small LOCATION '{}'",
                at.display()
            ));
            server.sql("ALTER DATABASE postgres SET default_tablespace = small");
        }
        server
    }

    /// Its own file system.
    fn disk(&self) -> PathBuf {
        self.folder.join("disk")
    }

    fn mount(&mut self, megabytes: u64) {
        let size = format!("size={megabytes}m");
        fs::create_dir(self.disk()).unwrap();
        let mut mount = Command::new("mount");
        mount
            .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
            .arg(self.disk());
        self.is_small = is_root() && mount.output().is_ok_and(|output| output.status.success());
        fs::create_dir(self.disk().join("tables")).unwrap();
        own(&self.disk());
        own(&self.disk().join("tables"));
    }

    /// Leaves no room on the server's file system.
    pub(crate) fn fill(&self) {
        let mut ballast = fs::File::create(self.disk().join("ballast")).unwrap();
        let zeros = vec![0; 1 << 20];
        while io::Write::write_all(&mut ballast, &zeros).is_ok() {}
        while io::Write::write_all(&mut ballast, &[0]).is_ok() {}
    }

    /// Makes room again, and starts the server if it ended for want of it.
    pub(crate) fn make_room(&self) {
        fs::remove_file(self.disk().join("ballast")).unwrap();
        let mut status = as_somebody(&self.programs.join("pg_ctl"));
        status
            .current_dir("/")
            .arg("-D")
            .arg(self.data())
            .arg("status");
        if !status.output().unwrap().status.success() {
            self.restart();
        }
    }

    /// A server that follows this one, with what this one has.
    pub(crate) fn replica(&self) -> Self {
        let mut replica = Self::folder_of(self.programs.clone());
        let mut copy = as_somebody(&self.programs.join("pg_basebackup"));
        copy.args(["-h", "127.0.0.1", "-U", "agent", "-R", "-X", "stream"]);
        copy.args(["--checkpoint=fast", "--no-sync", "-p"]);
        copy.arg(self.port.to_string())
            .arg("-D")
            .arg(replica.data());
        if self.is_small {
            let mount = Command::new("findmnt")
                .args(["-bno", "SIZE"])
                .arg(self.disk())
                .output();
            let size = String::from_utf8(mount.unwrap().stdout).unwrap();
            replica.mount(size.trim().parse::<u64>().unwrap() >> 20);
            let (from, to) = (self.disk(), replica.disk());
            let tables = format!("{}/tables={}/tables", from.display(), to.display());
            copy.arg("--waldir")
                .arg(to.join("log"))
                .arg("-T")
                .arg(tables);
        }
        told(copy.current_dir("/").output(), "pg_basebackup");
        replica.control("start");
        replica
    }

    /// Makes the replica a server of its own.
    pub(crate) fn promote(&self) {
        self.control("promote");
    }

    /// Executes SQL statements.
    pub(crate) fn sql(&self, text: &str) {
        let mut psql = Command::new(self.programs.join("psql"));
        psql.args([
            "-h",
            "127.0.0.1",
            "-U",
            "agent",
            "-d",
            "postgres",
            "-qc",
            text,
        ]);
        told(psql.arg("-p").arg(self.port.to_string()).output(), text);
    }

    fn folder_of(programs: PathBuf) -> Self {
        // The folder of a socket has a short path.
        let number: u32 = rand::random();
        let folder = std::env::temp_dir().join(format!("gl-pg-{number:08x}"));
        fs::create_dir(&folder).unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        own(&folder);
        Self {
            programs,
            folder,
            port,
            is_small: false,
        }
    }

    /// One without syncs, for tests that crash no server.
    pub(crate) fn quick() -> Self {
        Self::start(&QUICK)
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    fn control(&self, act: &str) {
        let mut control = as_somebody(&self.programs.join("pg_ctl"));
        control
            .current_dir("/")
            .arg("-D")
            .arg(self.data())
            .arg("-w")
            .arg(act);
        match act {
            "start" => {
                let options = format!(
                    "-p {} -k {} -c listen_addresses=127.0.0.1",
                    self.port,
                    self.folder.display()
                );
                let log = self.folder.join("data/log");
                control.arg("-l").arg(log).arg("-o").arg(options);
            }
            "promote" => {}
            _ => {
                control.args(["-m", "immediate"]);
            }
        }
        told(control.output(), act);
    }

    /// Ends the server as a crash does, without a checkpoint.
    pub(crate) fn crash(&self) {
        self.control("stop");
    }

    /// Starts it again.
    pub(crate) fn restart(&self) {
        self.control("start");
    }

    pub(crate) fn url(&self) -> String {
        self.url_at(self.port)
    }

    /// Makes a database and gives its address.
    pub(crate) fn database(&self, name: &str) -> String {
        let mut create = Command::new(self.programs.join("createdb"));
        create.args([
            "-h",
            "127.0.0.1",
            "-U",
            "agent",
            "-p",
            &self.port.to_string(),
            name,
        ]);
        told(create.output(), "createdb");
        self.url().replace("/postgres?", &format!("/{name}?"))
    }

    /// The address through a port that leads to the server.
    pub(crate) fn url_at(&self, port: u16) -> String {
        format!("postgres://agent@127.0.0.1:{port}/postgres?sslmode=disable")
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// A client beside the store, for looking and meddling.
    pub(crate) async fn client(&self) -> tokio_postgres::Client {
        let (client, connection) = tokio_postgres::connect(&self.url(), NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let mut control = as_somebody(&self.programs.join("pg_ctl"));
        control.current_dir("/").arg("-D").arg(self.data());
        let _ = control.args(["-w", "-m", "immediate", "stop"]).output();
        if self.is_small {
            let _ = Command::new("umount").arg(self.disk()).output();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}
