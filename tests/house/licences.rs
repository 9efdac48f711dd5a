//! What comes in from outside, judged by `deny.toml` as cargo-deny judges it, as far as that needs
//! no advisory database: licences, sources and banned crates. So the rules hold also where
//! cargo-deny is not installed.

use std::path::Path;
use std::process::Command;

use serde::Deserialize;

/// The part of `deny.toml` that is read here.
#[derive(Debug, Deserialize)]
struct Rules {
    licenses: LicenceRules,
    bans: BanRules,
}

#[derive(Debug, Deserialize)]
struct LicenceRules {
    allow: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct BanRules {
    deny: Vec<Ban>,
}

#[derive(Debug, Deserialize)]
struct Ban {
    #[serde(rename = "crate")]
    name: String,
    reason: String,
}

/// The part of `cargo metadata` that is read here.
#[derive(Debug, Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Debug, Deserialize)]
struct Package {
    name: String,
    version: String,
    license: Option<String>,
    /// Absent for packages that stand in a folder.
    source: Option<String>,
}

/// How cargo writes a registry, also where a mirror stands in for the public one. Which one it is
/// is cargo-deny's to check; what comes from a git repository or an archive is ours to refuse.
const REGISTRY: &str = "registry+";

fn findings(packages: &[Package], rules: &Rules) -> Vec<String> {
    packages
        .iter()
        .filter_map(|package| {
            let why = licence_problem(package, &rules.licenses.allow)
                .or_else(|| source_problem(package))
                .or_else(|| ban_problem(package, &rules.bans.deny))?;
            Some(format!("{} {}: {why}", package.name, package.version))
        })
        .collect()
}

fn licence_problem(package: &Package, allowed: &[String]) -> Option<String> {
    let Some(written) = &package.license else {
        return Some("names no licence".to_owned());
    };
    // Old manifests write `MIT/Apache-2.0`, which the lax mode reads as "or".
    let expression = match spdx::Expression::parse_mode(written, spdx::ParseMode::LAX) {
        Ok(expression) => expression,
        Err(error) => return Some(format!("`{written}` is no licence expression: {error}")),
    };
    let fits = expression.evaluate(|licence| allowed.contains(&licence.to_string()));
    (!fits).then(|| format!("`{written}` is not allowed by deny.toml"))
}

fn source_problem(package: &Package) -> Option<String> {
    let source = package.source.as_deref()?;
    (!source.starts_with(REGISTRY)).then(|| format!("comes from {source}"))
}

fn ban_problem(package: &Package, bans: &[Ban]) -> Option<String> {
    let ban = bans.iter().find(|ban| ban.name == package.name)?;
    Some(format!("is banned: {}", ban.reason))
}

fn rules(root: &Path) -> Rules {
    let text = std::fs::read_to_string(root.join("deny.toml")).expect("deny.toml can be read");
    toml::from_str(&text).expect("deny.toml is as cargo-deny wants it")
}

/// The packages that are built on this machine with all features.
fn metadata(root: &Path) -> Metadata {
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--format-version",
            "1",
            "--all-features",
            "--locked",
        ])
        .args(["--filter-platform", host().as_str()])
        .current_dir(root)
        .output()
        .expect("cargo can be started");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON")
}

fn host() -> String {
    let output = Command::new("rustc")
        .arg("-vV")
        .output()
        .expect("rustc can be started");
    let text = String::from_utf8(output.stdout).expect("rustc prints UTF-8");
    let line = text.lines().find_map(|line| line.strip_prefix("host: "));
    line.expect("rustc says its host").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(licence: Option<&str>, source: Option<&str>) -> Package {
        Package {
            name: "thing".to_owned(),
            version: "1.0.0".to_owned(),
            license: licence.map(str::to_owned),
            source: source.map(str::to_owned),
        }
    }

    fn problems(package: Package) -> Vec<String> {
        findings(&[package], &rules(Path::new(env!("CARGO_MANIFEST_DIR"))))
    }

    #[test]
    fn every_dependency_is_one_that_we_agreed_to() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let packages = metadata(root).packages;
        assert!(packages.len() > 10, "cargo metadata lists the dependencies");
        crate::assert_none(&findings(&packages, &rules(root)), "refused by deny.toml:");
    }

    #[test]
    fn licences_are_read_as_expressions() {
        for fine in [
            "MIT",
            "MIT/Apache-2.0",
            "GPL-3.0-only OR MIT",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception",
        ] {
            assert_eq!(
                problems(package(Some(fine), None)),
                Vec::<String>::new(),
                "{fine}"
            );
        }
        for refused in ["AGPL-3.0-only", "MIT AND GPL-3.0-only", "whatever", ""] {
            assert_eq!(problems(package(Some(refused), None)).len(), 1, "{refused}");
        }
        assert_eq!(problems(package(None, None)).len(), 1, "no licence at all");
    }

    #[test]
    fn only_the_public_registry_and_our_own_folders_are_sources() {
        assert!(problems(package(Some("MIT"), Some(REGISTRY))).is_empty());
        let git = "git+https://example.org/thing?branch=main#0123";
        assert_eq!(problems(package(Some("MIT"), Some(git))).len(), 1);
    }

    #[test]
    fn banned_crates_are_refused_with_the_reason() {
        let mut banned = package(Some("MIT"), Some(REGISTRY));
        banned.name = "openssl-sys".to_owned();
        let found = problems(banned);
        assert!(found[0].contains("needs a system library"), "{found:?}");
    }
}
