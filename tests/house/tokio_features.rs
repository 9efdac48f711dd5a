//! Each package names in its own manifest what it uses of tokio. Cargo unites the features of a dependency over all
//! packages that are built together, so the compiler misses an unnamed one until a user builds the package without
//! the others; and `./test` builds all of them together, to check the features of ours quickly.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::mentions::mentions;
use crate::sources::SourceFile;

/// The part of a manifest that can turn features of tokio on.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Manifest {
    features: BTreeMap<String, Vec<String>>,
    dependencies: BTreeMap<String, toml::Value>,
    target: BTreeMap<String, Target>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Target {
    dependencies: BTreeMap<String, toml::Value>,
}

impl Manifest {
    /// The features of tokio that are on for the package, or that a feature of the package turns on.
    fn of_tokio(&self) -> BTreeSet<&str> {
        let own = self.features.values().flatten();
        let own = own.filter_map(|feature| feature.strip_prefix("tokio/"));
        let tables = self.target.values().map(|target| &target.dependencies);
        let tables = tables.chain([&self.dependencies]);
        let named = tables.filter_map(|table| table.get("tokio")?.get("features")?.as_array());
        own.chain(named.flatten().filter_map(toml::Value::as_str))
            .collect()
    }
}

/// The feature of tokio without which this path does not exist.
fn feature(path: &[String]) -> Option<&'static str> {
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    match path[..] {
        ["fs", ..] => Some("fs"),
        ["net", ..] => Some("net"),
        ["process", ..] => Some("process"),
        ["signal", ..] => Some("signal"),
        ["sync", ..] => Some("sync"),
        ["time", ..] => Some("time"),
        ["runtime", "Builder", "new_multi_thread"] => Some("rt-multi-thread"),
        ["runtime" | "task" | "spawn", ..] => Some("rt"),
        ["select" | "join" | "try_join" | "main" | "test", ..] => Some("macros"),
        ["io", "stdin" | "stdout" | "stderr", ..] => Some("io-std"),
        [
            "io",
            "AsyncBufRead" | "AsyncRead" | "AsyncSeek" | "AsyncWrite" | "ReadBuf",
            ..,
        ] => None,
        ["io", ..] => Some("io-util"),
        _ => None,
    }
}

/// What files use of tokio without a feature that stands in the manifest of their package, as
/// `file:line: path needs feature`.
fn findings(files: &[&SourceFile], manifest_of: &mut dyn FnMut(&Path) -> Manifest) -> Vec<String> {
    let mut manifests: BTreeMap<PathBuf, Manifest> = BTreeMap::new();
    let mut findings = Vec::new();
    for file in files {
        let package: PathBuf = file
            .path
            .iter()
            .take_while(|folder| *folder != "src")
            .collect();
        let manifest = manifests
            .entry(package)
            .or_insert_with_key(|folder| manifest_of(folder));
        let named = manifest.of_tokio();
        for mention in mentions(file, &["tokio".to_owned()]) {
            let needed = feature(&mention.path).filter(|_| mention.package == "tokio");
            if let Some(needed) = needed.filter(|needed| !named.contains(needed)) {
                let place = format!("{}:{}", file.path.display(), mention.line);
                let path = mention.path.join("::");
                findings.push(format!("{place}: tokio::{path} needs {needed}"));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::{read_toml, with_workspace};

    #[test]
    fn a_package_names_the_features_of_tokio_that_it_uses() {
        with_workspace(move |workspace| {
            let files: Vec<&SourceFile> = workspace.files.iter().collect();
            let mut manifest = |folder: &Path| -> Manifest {
                read_toml(&workspace.root.join(folder).join("Cargo.toml"))
            };
            crate::assert_none(
                &findings(&files, &mut manifest),
                "used of tokio, but not named in the package's manifest:",
            );
        });
    }

    #[test]
    fn what_is_not_named_is_found_and_what_is_named_anywhere_is_not() {
        let manifest = r#"
            [features]
            serve = ["tokio/net"]
            [dependencies]
            tokio = { workspace = true, features = ["macros", "sync"] }
            [target.'cfg(unix)'.dependencies]
            tokio = { workspace = true, features = ["fs"] }
        "#;
        let found = |text: &str| {
            let file = SourceFile::snippet("ghostlight", "place", text);
            findings(&[&file], &mut |_| toml::from_str(manifest).unwrap()).len()
        };
        for named in [
            "use tokio::net::TcpListener;",
            "use tokio::{fs, sync::{Mutex, mpsc}};",
            "async fn f() { tokio::select! { () = g() => {} } }",
            "use tokio::io::{AsyncRead, ReadBuf};",
            "fn f() { tokio::pin!(g); }",
            "#[cfg(test)] mod tests { use tokio::process::Command; }",
        ] {
            assert_eq!(found(named), 0, "{named}");
        }
        for unnamed in [
            "use tokio::process::Command;",
            "use tokio::{sync::Mutex, time};",
            "fn f() { tokio::spawn(g()); }",
            "use tokio::io::AsyncReadExt;",
            "fn f() { tokio::io::stdin(); }",
            "fn f() { tokio::runtime::Builder::new_multi_thread(); }",
        ] {
            assert_eq!(found(unnamed), 1, "{unnamed}");
        }
    }
}
