//! Where the parameters of a connection come from, as in libpq's programs: the address itself, a section of a service
//! file, variables of the environment, and a password file; the first that has a parameter decides.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    str::FromStr as _,
};

use ghostlight_safety::percent_decoded;
use tokio_postgres::{Config, config::Host};

use crate::fault;

/// The variables, and the parameter that each stands for.
const VARIABLES: [(&str, &str); 18] = [
    ("PGAPPNAME", "application_name"),
    ("PGCHANNELBINDING", "channel_binding"),
    ("PGCONNECT_TIMEOUT", "connect_timeout"),
    ("PGDATABASE", "dbname"),
    ("PGHOST", "host"),
    ("PGHOSTADDR", "hostaddr"),
    ("PGLOADBALANCEHOSTS", "load_balance_hosts"),
    ("PGOPTIONS", "options"),
    ("PGPASSFILE", "passfile"),
    ("PGPASSWORD", "password"),
    ("PGPORT", "port"),
    ("PGSSLCERT", "sslcert"),
    ("PGSSLKEY", "sslkey"),
    ("PGSSLMODE", "sslmode"),
    ("PGSSLNEGOTIATION", "sslnegotiation"),
    ("PGSSLROOTCERT", "sslrootcert"),
    ("PGTARGETSESSIONATTRS", "target_session_attrs"),
    ("PGUSER", "user"),
];

/// The variables that say where files are.
const PLACES: [&str; 4] = ["HOME", "PGSERVICE", "PGSERVICEFILE", "PGSYSCONFDIR"];

/// The names of all variables that are looked at.
pub(crate) fn variables() -> impl Iterator<Item = &'static str> {
    let parameters = VARIABLES.iter().map(|(variable, _)| *variable);
    parameters.chain(PLACES)
}

/// The parameters of a connection.
pub(crate) struct Parameters {
    values: BTreeMap<String, String>,
    home: Option<PathBuf>,
}

impl Parameters {
    /// The parameters of an address, with those that the environment adds. An error is in words, without any secret.
    pub(crate) fn read(
        address: &str,
        variables: &BTreeMap<String, String>,
    ) -> Result<Self, String> {
        let variable = |name: &str| variables.get(name).filter(|value| !value.is_empty());
        let mut values = match ["postgres://", "postgresql://"]
            .iter()
            .any(|scheme| address.starts_with(scheme))
        {
            true => of_url(address)?,
            false => of_words(address)?,
        };
        let home = variable("HOME").map(PathBuf::from);
        let service = values.remove("service");
        if let Some(service) = service.as_ref().or(variable("PGSERVICE")) {
            let own = match variable("PGSERVICEFILE") {
                Some(file) => Some(PathBuf::from(file)),
                None => home.as_ref().map(|home| home.join(".pg_service.conf")),
            };
            let of_all = variable("PGSYSCONFDIR").map(|at| Path::new(at).join("pg_service.conf"));
            let files: Vec<PathBuf> = own.into_iter().chain(of_all).collect();
            for (key, value) in of_service(service, &files)? {
                values.entry(key).or_insert(value);
            }
        }
        for (name, key) in VARIABLES {
            if let Some(value) = variable(name) {
                values.entry(key.to_owned()).or_insert(value.clone());
            }
        }
        Ok(Self { values, home })
    }

    /// Takes a parameter that tokio-postgres does not know.
    pub(crate) fn take(&mut self, key: &str) -> Option<String> {
        self.values.remove(key)
    }

    /// The file of a parameter. One that is named must be there; the usual one of the user's home may be missing.
    pub(crate) fn file(&mut self, key: &str, usual: &str) -> Option<PathBuf> {
        let named = self.take(key).map(PathBuf::from);
        named.or_else(|| {
            let usual = self.home.as_ref()?.join(usual);
            usual.exists().then_some(usual)
        })
    }

    /// The configuration of a connection with all parameters that are left.
    pub(crate) fn config(&self) -> Result<Config, String> {
        let quoted = |text: &str| text.replace('\\', "\\\\").replace('\'', "\\'");
        let words = self.values.iter();
        let words: Vec<String> = words
            .map(|(key, value)| format!("{key}='{}'", quoted(value)))
            .collect();
        let config = Config::from_str(&words.join(" ")).map_err(|error| fault::in_words(&error))?;
        match config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            true => Err(
                "it names no host: write postgres://USER@HOST/DATABASE, or set PGHOST".to_owned(),
            ),
            false => Ok(config),
        }
    }
}

/// The parameters of a URL: those of its query, and those that have a place of their own.
fn of_url(url: &str) -> Result<BTreeMap<String, String>, String> {
    let (place, query) = url.split_once('?').unwrap_or((url, ""));
    let config = Config::from_str(place).map_err(|error| fault::in_words(&error))?;
    let decoded = |text: &str| {
        String::from_utf8(percent_decoded(text).into_owned())
            .map_err(|_| "a parameter is not UTF-8".to_owned())
    };
    let mut values = BTreeMap::new();
    for word in query.split('&').filter(|word| !word.is_empty()) {
        let (key, value) = word
            .split_once('=')
            .ok_or("a parameter of its query has no value")?;
        values.insert(decoded(key)?, decoded(value)?);
    }
    let mut set = |key: &str, value: Option<String>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            values.insert(key.to_owned(), value);
        }
    };
    let password = config
        .get_password()
        .map(|password| String::from_utf8(password.to_vec()));
    let password = password
        .transpose()
        .map_err(|_| "its password is not UTF-8")?;
    set("password", password);
    set("user", config.get_user().map(str::to_owned));
    set("dbname", config.get_dbname().map(str::to_owned));
    let hosts: Vec<String> = config.get_hosts().iter().map(host).collect();
    if !hosts.is_empty() {
        let ports: Vec<String> = config.get_ports().iter().map(u16::to_string).collect();
        // The parser adds the usual port where there is none, which would outdo that of a service.
        if place_has_port(place) {
            set("port", Some(ports.join(",")));
        }
        set("host", Some(hosts.join(",")));
    }
    Ok(values)
}

/// Whether a URL says the port of a host.
fn place_has_port(place: &str) -> bool {
    let after_user = place.rsplit_once('@').map_or(place, |(_, rest)| rest);
    let hosts = after_user.split("://").last().unwrap_or_default();
    let hosts = hosts.split('/').next().unwrap_or_default();
    let names = hosts
        .split(',')
        .map(|host| host.rsplit(']').next().unwrap_or(host));
    names.into_iter().any(|name| name.contains(':'))
}

pub(crate) fn host(host: &Host) -> String {
    match host {
        Host::Tcp(name) => name.clone(),
        #[cfg(unix)]
        Host::Unix(path) => path.display().to_string(),
    }
}

/// The parameters of a list of words, `key=value`, where a value may stand between single quotes.
fn of_words(text: &str) -> Result<BTreeMap<String, String>, String> {
    let mut values = BTreeMap::new();
    let mut left = text.trim_start();
    while !left.is_empty() {
        let (key, rest) = left.split_once('=').ok_or(
            "it is neither a URL, such as postgres://USER@HOST/DATABASE, nor a list of words KEY=VALUE",
        )?;
        let mut letters = rest.trim_start().char_indices().peekable();
        let rest = rest.trim_start();
        let is_quoted = letters.next_if(|(_, letter)| *letter == '\'').is_some();
        let (mut value, mut end, mut is_closed) = (String::new(), rest.len(), !is_quoted);
        while let Some((at, letter)) = letters.next() {
            match letter {
                '\\' => value.extend(letters.next().map(|(_, escaped)| escaped)),
                '\'' if is_quoted => {
                    (end, is_closed) = (at + 1, true);
                    break;
                }
                blank if blank.is_whitespace() && !is_quoted => {
                    end = at;
                    break;
                }
                other => value.push(other),
            }
        }
        if !is_closed {
            return Err(format!(
                "the value of `{}` has no closing quote",
                key.trim()
            ));
        }
        values.insert(key.trim().to_owned(), value);
        left = rest[end..].trim_start();
    }
    Ok(values)
}

/// The parameters of a service, from the first file that has it.
fn of_service(service: &str, files: &[PathBuf]) -> Result<Vec<(String, String)>, String> {
    let mut looked_at = Vec::new();
    for file in files {
        let text = match fs::read_to_string(file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                looked_at.push(format!("{} (which does not exist)", file.display()));
                continue;
            }
            Err(error) => return Err(unreadable("service file", file, &error)),
        };
        looked_at.push(file.display().to_string());
        if let Some(found) = section(service, &text, file)? {
            return Ok(found);
        }
    }
    Err(match looked_at.is_empty() {
        true => format!("the service {service} is in no file: name one in PGSERVICEFILE"),
        false => format!(
            "there is no section [{service}] in {}",
            looked_at.join(", nor in ")
        ),
    })
}

/// The parameters below a section's head.
fn section(
    service: &str,
    text: &str,
    file: &Path,
) -> Result<Option<Vec<(String, String)>>, String> {
    let mut found: Option<Vec<(String, String)>> = None;
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if line.starts_with('[') {
            if found.is_some() {
                break;
            }
            if line
                .strip_prefix('[')
                .and_then(|name| name.strip_suffix(']'))
                == Some(service)
            {
                found = Some(Vec::new());
            }
        } else if let Some(found) = &mut found {
            let at = || format!("{}, line {number}", file.display());
            // Nothing of the line is shown: it may be a password.
            let (key, value) = line
                .split_once('=')
                .ok_or_else(|| format!("{} is not a KEY=VALUE", at()))?;
            if key.trim() == "service" {
                return Err(format!("{}: a service cannot name another one", at()));
            }
            found.push((key.trim().to_owned(), value.trim().to_owned()));
        }
    }
    Ok(found)
}

/// The password for a connection, from the first line of a password file that fits it: host, port, database, user and
/// password with colons between them, where `*` fits everything.
pub(crate) fn password(file: &Path, config: &Config) -> Result<Option<String>, String> {
    only_for_its_user("password file", file)?;
    let text =
        fs::read_to_string(file).map_err(|error| unreadable("password file", file, &error))?;
    let user = config.get_user().unwrap_or_default();
    let database = config.get_dbname().unwrap_or(user);
    let ports = config.get_ports();
    let hosts = config.get_hosts().iter().map(|at| match host(at) {
        socket if socket.starts_with('/') => "localhost".to_owned(),
        name => name,
    });
    let addresses = config.get_hostaddrs().iter().map(ToString::to_string);
    let places: Vec<String> = hosts.chain(addresses).collect();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let fields = fields(line);
        let [of_host, of_port, of_database, of_user, password] = fields.as_slice() else {
            continue;
        };
        let fits = |field: &str, value: &str| field == "*" || field == value;
        let is_place = places.iter().enumerate().any(|(number, place)| {
            let port = ports.get(number).or(ports.first()).copied().unwrap_or(5432);
            fits(of_host, place) && fits(of_port, &port.to_string())
        });
        if is_place && fits(of_database, database) && fits(of_user, user) {
            return Ok(Some(password.clone()));
        }
    }
    Ok(None)
}

/// The five fields of a line; a backslash stands before a colon or a backslash that belongs to a field.
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => fields
                .last_mut()
                .into_iter()
                .for_each(|field| field.extend(letters.next())),
            ':' if fields.len() < 5 => fields.push(String::new()),
            other => fields
                .last_mut()
                .into_iter()
                .for_each(|field| field.push(other)),
        }
    }
    fields
}

pub(crate) fn unreadable(kind: &str, file: &Path, error: &io::Error) -> String {
    format!("the {kind} {} cannot be read: {error}", file.display())
}

/// Refuses a file with a secret that others may read.
#[cfg(unix)]
pub(crate) fn only_for_its_user(kind: &str, file: &Path) -> Result<(), String> {
    use std::os::unix::fs::MetadataExt as _;

    let found = fs::metadata(file).map_err(|error| unreadable(kind, file, &error))?;
    // As with libpq, a group may read what belongs to root.
    let others = if found.uid() == 0 { 0o027 } else { 0o077 };
    match found.is_file() && found.mode() & others != 0 {
        true => Err(format!(
            "the {kind} {0} can be read by others: chmod 600 {0}",
            file.display()
        )),
        false => Ok(()),
    }
}

/// Elsewhere files have no such permissions.
#[cfg(not(unix))]
pub(crate) fn only_for_its_user(_kind: &str, _file: &Path) -> Result<(), String> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        let pair = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn a_url_and_a_list_of_words_say_the_same() {
        let wanted = map(&[
            ("user", "me"),
            ("password", "s3 cr'et"),
            ("host", "a,b"),
            ("port", "5432,6000"),
            ("dbname", "db"),
            ("sslmode", "verify-full"),
            ("sslcert", "/a b.crt"),
        ]);
        let url = "postgres://me:s3%20cr'et@a,b:6000/db?sslmode=verify-full&sslcert=/a%20b.crt";
        assert_eq!(of_url(url).unwrap(), wanted);
        let words = "user=me password='s3 cr\\'et' host = a,b port=5432,6000 dbname=db \
             sslmode=verify-full sslcert=/a\\ b.crt";
        assert_eq!(of_words(words).unwrap(), wanted);
        for (wrong, why) in [("here", "neither a URL"), ("user='me", "closing quote")] {
            assert!(of_words(wrong).unwrap_err().contains(why));
        }
        assert_eq!(
            of_url("postgresql:///?service=x").unwrap(),
            map(&[("service", "x")])
        );
    }

    #[test]
    fn the_address_outdoes_the_service_and_the_service_the_environment() {
        let folder = std::env::temp_dir().join(format!("gl-libpq-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join("services");
        let text = "# ours\n[other]\nhost=wrong\n[desk]\nhost=db.example\nport=6000\nuser=agent\n\n[last]\nhost=no\n";
        fs::write(&file, text).unwrap();
        let name = file.display().to_string();
        let mut variables = map(&[
            ("PGSERVICEFILE", &name),
            ("PGUSER", "nobody"),
            ("PGDATABASE", "agents"),
        ]);
        let found = Parameters::read("postgres://me@/?service=desk", &variables).unwrap();
        let wanted = [
            ("dbname", "agents"),
            ("host", "db.example"),
            ("port", "6000"),
            ("user", "me"),
        ];
        assert_eq!(found.values, map(&wanted));
        variables.insert("PGSERVICE".to_owned(), "desk".to_owned());
        let found = Parameters::read("postgres://other.example", &variables).unwrap();
        assert_eq!(found.values["host"], "other.example");
        assert_eq!(
            (&*found.values["port"], &*found.values["user"]),
            ("6000", "agent")
        );
        let missing = Parameters::read("service=none", &variables).err().unwrap();
        assert!(
            missing.contains("[none]") && missing.contains(&name),
            "{missing}"
        );
        fs::write(&file, "[desk]\nhunter2\n").unwrap();
        let wrong = Parameters::read("service=desk", &variables).err().unwrap();
        assert!(
            wrong.contains("line 2") && !wrong.contains("hunter2"),
            "{wrong}"
        );
        fs::remove_dir_all(&folder).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn a_password_is_of_the_first_line_that_fits_in_a_file_of_the_users_own() {
        use std::os::unix::fs::PermissionsExt as _;

        let file = std::env::temp_dir().join(format!("gl-pgpass-{}", std::process::id()));
        let text = "# all\nhost:5432:db:other:wrong\nhost:6000:d\\:b:me:a\\:b\\\\c\n*:*:*:me:the last\nlocalhost:*:*:*:socket\n";
        fs::write(&file, text).unwrap();
        let mode = |mode| fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        mode(0o644);
        let config = |text: &str| Config::from_str(text).unwrap();
        let refused = password(&file, &config("host=host user=me")).unwrap_err();
        assert!(refused.contains("chmod 600"), "{refused}");
        mode(0o600);
        let found = |text: &str| password(&file, &config(text)).unwrap();
        assert_eq!(
            found("host=host port=6000 dbname='d:b' user=me").as_deref(),
            Some("a:b\\c")
        );
        assert_eq!(found("host=host user=me").as_deref(), Some("the last"));
        assert_eq!(found("host=/tmp user=you").as_deref(), Some("socket"));
        assert_eq!(found("host=host user=you"), None);
        fs::remove_file(&file).unwrap();
    }
}
