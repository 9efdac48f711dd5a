//! The code of the workspace: its packages, and the modules that each of them really declares.

use std::collections::BTreeSet;
use std::fs;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::sync::{LazyLock, Mutex};
use std::thread;

use serde::Deserialize;

/// The parsed workspace.
pub(crate) struct Workspace {
    /// The folder of the root manifest.
    pub(crate) root: PathBuf,
    /// The packages, by the name under which code names them (`ghostlight_actors`).
    pub(crate) packages: Vec<String>,
    /// Every module file that a package's library or binary declares.
    pub(crate) files: Vec<SourceFile>,
}

/// One module file, at its place in the module tree.
pub(crate) struct SourceFile {
    /// The package, as code names it.
    pub(crate) package: String,
    /// Whether it belongs to the package's library and not to a binary.
    pub(crate) in_library: bool,
    /// The module path below the crate root; empty for the root itself.
    pub(crate) module: Vec<String>,
    /// Where it stands, relative to the workspace.
    pub(crate) path: PathBuf,
    /// Whether it is compiled for tests only.
    pub(crate) test_only: bool,
    /// What it says.
    pub(crate) syntax: syn::File,
}

#[derive(Deserialize)]
struct RootManifest {
    workspace: WorkspaceTable,
}

#[derive(Deserialize)]
struct WorkspaceTable {
    members: Vec<String>,
}

#[derive(Deserialize)]
struct PackageManifest {
    package: PackageTable,
}

#[derive(Deserialize)]
struct PackageTable {
    name: String,
}

/// Something that looks at the workspace.
type Look = Box<dyn FnOnce(&Workspace) + Send>;

/// Shows the workspace to this, and gives what it makes of it. It is read once, since that takes seconds,
/// by a thread that has it from then on: what is parsed cannot leave the thread that parsed it.
#[track_caller]
pub(crate) fn with_workspace<T: Send + 'static>(
    look: impl FnOnce(&Workspace) -> T + Send + 'static,
) -> T {
    static READER: LazyLock<Mutex<Sender<Look>>> = LazyLock::new(|| {
        let (sender, looks) = channel::<Look>();
        thread::spawn(move || {
            let workspace = Workspace::read();
            looks.iter().for_each(|look| look(&workspace));
        });
        Mutex::new(sender)
    });
    let (sender, seen) = channel();
    let look: Look = Box::new(move |workspace| {
        let seen = panic::catch_unwind(AssertUnwindSafe(|| look(workspace)));
        sender.send(seen).expect("whoever looks waits for it");
    });
    READER
        .lock()
        .unwrap()
        .send(look)
        .expect("the workspace is read");
    match seen.recv().expect("the workspace can be read") {
        Ok(seen) => seen,
        Err(failed) => panic::resume_unwind(failed),
    }
}

impl Workspace {
    /// Reads the workspace that this test was compiled in.
    fn read() -> Self {
        let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
        let manifest: RootManifest = read_toml(&root.join("Cargo.toml"));
        let mut workspace = Self {
            root: root.clone(),
            packages: Vec::new(),
            files: Vec::new(),
        };
        workspace.add_package(&root);
        for member in &manifest.workspace.members {
            // Of patterns there is only the one for all folders of a place.
            match member.strip_suffix("/*") {
                Some(place) => folders_in(&root.join(place))
                    .iter()
                    .filter(|folder| folder.join("Cargo.toml").is_file())
                    .for_each(|folder| workspace.add_package(folder)),
                None => workspace.add_package(&root.join(member)),
            }
        }
        workspace
    }

    fn add_package(&mut self, folder: &Path) {
        let manifest: PackageManifest = read_toml(&folder.join("Cargo.toml"));
        let package = manifest.package.name.replace('-', "_");
        let source = folder.join("src");
        let mut binaries = rust_files(&source.join("bin"));
        binaries.push(source.join("main.rs"));
        self.add_crate(&package, true, &source.join("lib.rs"));
        for binary in binaries {
            self.add_crate(&package, false, &binary);
        }
        self.packages.push(package);
    }

    fn add_crate(&mut self, package: &str, in_library: bool, entry: &Path) {
        if entry.is_file() {
            let mut walk = ModuleWalk {
                root: &self.root,
                package,
                in_library,
                files: Vec::new(),
            };
            walk.file(entry, Vec::new(), false, &entry.with_file_name(""));
            self.files.append(&mut walk.files);
        }
    }

    /// The module files of a package's library.
    pub(crate) fn library(&self, package: &str) -> impl Iterator<Item = &SourceFile> {
        self.files
            .iter()
            .filter(move |file| file.in_library && file.package == package)
    }

    /// Every Rust file in the repository, declared by a module or not, relative to the root.
    pub(crate) fn rust_paths(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        for folder in self.top_folders() {
            found.extend(rust_files(&folder));
        }
        found
            .into_iter()
            .map(|path| path.strip_prefix(&self.root).unwrap_or(&path).to_path_buf())
            .collect()
    }

    /// The folders of the repository that can hold code of ours.
    fn top_folders(&self) -> Vec<PathBuf> {
        let not_ours = ["target", "node_modules"];
        folders_in(&self.root)
            .into_iter()
            .filter(|folder| {
                let name = folder
                    .file_name()
                    .unwrap_or_default()
                    .to_string_lossy()
                    .into_owned();
                !name.starts_with('.') && !not_ours.contains(&name.as_str())
            })
            .collect()
    }

    /// The paths of all declared module files.
    pub(crate) fn declared_paths(&self) -> BTreeSet<PathBuf> {
        self.files.iter().map(|file| file.path.clone()).collect()
    }
}

/// Follows `mod` declarations from a crate root downwards.
struct ModuleWalk<'a> {
    root: &'a Path,
    package: &'a str,
    in_library: bool,
    files: Vec<SourceFile>,
}

impl ModuleWalk<'_> {
    /// `children` is the folder in which the files of this file's child modules stand.
    fn file(&mut self, path: &Path, module: Vec<String>, test_only: bool, children: &Path) {
        let text = fs::read_to_string(path).expect("a declared module file can be read");
        let shown = path.strip_prefix(self.root).unwrap_or(path).to_path_buf();
        let syntax = syn::parse_file(&text)
            .unwrap_or_else(|error| panic!("{}: cannot be parsed: {error}", shown.display()));
        self.children(&syntax.items, &module, test_only, path, children);
        self.files.push(SourceFile {
            package: self.package.to_owned(),
            in_library: self.in_library,
            module,
            path: shown,
            test_only,
            syntax,
        });
    }

    fn children(
        &mut self,
        items: &[syn::Item],
        module: &[String],
        test_only: bool,
        path: &Path,
        folder: &Path,
    ) {
        for item in items {
            let syn::Item::Mod(declared) = item else {
                continue;
            };
            let name = declared.ident.to_string();
            let mut inner = module.to_vec();
            inner.push(name.clone());
            let test_only = test_only || is_test_only(&declared.attrs);
            if let Some((_, items)) = &declared.content {
                self.children(items, &inner, test_only, path, &folder.join(&name));
                continue;
            }
            let given = path_attribute(&declared.attrs).map(|p| path.with_file_name("").join(p));
            let own_folder = folder.join(&name);
            let candidates = [
                given,
                Some(folder.join(format!("{name}.rs"))),
                Some(own_folder.join("mod.rs")),
            ];
            // A module without a file does not compile, which rustc says better than we could.
            if let Some(file) = candidates.into_iter().flatten().find(|file| file.is_file()) {
                self.file(&file, inner, test_only, &own_folder);
            }
        }
    }
}

/// Whether these attributes compile what they stand on for tests only: `#[test]`, `#[cfg(test)]`,
/// or a `cfg(all(..))` with `test` in it. `any(test, feature = "..")` is not: it ships.
pub(crate) fn is_test_only(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute
            .path()
            .segments
            .last()
            .is_some_and(|last| last.ident == "test")
            || (attribute.path().is_ident("cfg")
                && attribute
                    .parse_args::<syn::Meta>()
                    .is_ok_and(|meta| requires_test(&meta)))
    })
}

fn requires_test(predicate: &syn::Meta) -> bool {
    match predicate {
        syn::Meta::Path(path) => path.is_ident("test"),
        syn::Meta::List(list) if list.path.is_ident("all") => list
            .parse_args_with(
                syn::punctuated::Punctuated::<syn::Meta, syn::Token![,]>::parse_terminated,
            )
            .is_ok_and(|parts| parts.iter().any(requires_test)),
        _ => false,
    }
}

fn path_attribute(attributes: &[syn::Attribute]) -> Option<String> {
    attributes
        .iter()
        .find_map(|attribute| match &attribute.meta {
            syn::Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
                syn::Expr::Lit(syn::ExprLit {
                    lit: syn::Lit::Str(text),
                    ..
                }) => Some(text.value()),
                _ => None,
            },
            _ => None,
        })
}

pub(crate) fn read_toml<T: serde::de::DeserializeOwned>(path: &Path) -> T {
    let text = fs::read_to_string(path)
        .unwrap_or_else(|error| panic!("{}: cannot be read: {error}", path.display()));
    toml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn folders_in(folder: &Path) -> Vec<PathBuf> {
    sorted_entries(folder)
        .into_iter()
        .filter(|path| path.is_dir())
        .collect()
}

/// The Rust files below a folder; none when there is no such folder yet.
pub(crate) fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in sorted_entries(folder) {
        if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
            found.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

fn sorted_entries(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

impl SourceFile {
    /// A file as it would be parsed, for the tests of the rules.
    pub(crate) fn snippet(package: &str, module: &str, text: &str) -> Self {
        let module: Vec<String> = module
            .split("::")
            .filter(|part| !part.is_empty())
            .map(str::to_owned)
            .collect();
        Self {
            package: package.to_owned(),
            in_library: true,
            path: PathBuf::from(format!("{}.rs", module.join("/"))),
            module,
            test_only: false,
            syntax: syn::parse_file(text).expect("the snippet is Rust"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attributes(text: &str) -> Vec<syn::Attribute> {
        let item: syn::ItemFn = syn::parse_str(&format!("{text} fn f() {{}}")).unwrap();
        item.attrs
    }

    #[test]
    fn only_what_cannot_ship_counts_as_test_only() {
        for exempt in [
            "#[cfg(test)]",
            "#[test]",
            "#[tokio::test]",
            "#[cfg(all(unix, test))]",
        ] {
            assert!(is_test_only(&attributes(exempt)), "{exempt}");
        }
        for ships in [
            "#[cfg(any(test, feature = \"x\"))]",
            "#[cfg(not(test))]",
            "#[inline]",
        ] {
            assert!(!is_test_only(&attributes(ships)), "{ships}");
        }
    }

    #[test]
    fn the_workspace_is_read_from_its_crate_roots() {
        with_workspace(move |workspace| {
            assert!(workspace.packages.contains(&"ghostlight".to_owned()));
            assert!(workspace.packages.contains(&"ghostlight_actors".to_owned()));
            for package in ["ghostlight", "ghostlight_actors"] {
                let roots = workspace
                    .library(package)
                    .filter(|file| file.module.is_empty())
                    .count();
                assert_eq!(roots, 1, "one root of {package}");
            }
            assert!(
                workspace
                    .rust_paths()
                    .contains(&PathBuf::from("tests/house/sources.rs"))
            );
        });
    }

    /// With parallel work a file is easily added and its `mod` line forgotten; nothing else tells.
    #[test]
    fn every_source_file_is_part_of_a_crate() {
        with_workspace(move |workspace| {
            let declared = workspace.declared_paths();
            let orphans: Vec<String> = workspace
                .rust_paths()
                .into_iter()
                .filter(|path| {
                    let shown = path.to_string_lossy();
                    ["src/", "actors/src/", "macros/src/"]
                        .iter()
                        .any(|start| shown.starts_with(start))
                        && !declared.contains(path)
                })
                .map(|path| path.display().to_string())
                .collect();
            crate::assert_none(&orphans, "no `mod` line declares these files:");
        });
    }
}
