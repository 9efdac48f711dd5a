//! How files are named and how long they may grow.

use std::path::{Path, PathBuf};

/// Names for drawers: what lies in one has no idea in common but that nobody knew where to put it.
const DRAWERS: [&str; 10] = [
    "common",
    "commons",
    "etc",
    "helper",
    "helpers",
    "misc",
    "miscellaneous",
    "stuff",
    "util",
    "utils",
];

/// A file that grows past this is usually two ideas.
const LONGEST: usize = 600;

/// The files that may be longer, each with its own bound and the reason why it stays one file.
const LONGER: [(&str, usize, &str); 2] = [
    (
        "crates/tools/tests/tools_attacks/terminal.rs",
        700,
        "tables of attacks on one toolset",
    ),
    (
        "crates/tools/tests/tools_attacks/web.rs",
        700,
        "tables of attacks on one toolset, and the server that they meet",
    ),
];

/// The names in these paths that stand for a drawer.
fn drawers(paths: &[PathBuf]) -> Vec<String> {
    paths
        .iter()
        .filter_map(|path| {
            let drawer = path
                .components()
                .find_map(|part| drawer_name(part.as_os_str().as_ref()))?;
            Some(format!(
                "{}: `{drawer}` says nothing about what is in it",
                path.display()
            ))
        })
        .collect()
}

fn drawer_name(part: &Path) -> Option<String> {
    let stem = part.file_stem()?.to_string_lossy().to_lowercase();
    DRAWERS.contains(&stem.as_str()).then_some(stem)
}

/// Finds inline modules that are drawers.
fn drawer_modules(path: &Path, items: &[syn::Item]) -> Vec<String> {
    let mut findings = Vec::new();
    for item in items {
        let syn::Item::Mod(module) = item else {
            continue;
        };
        if DRAWERS.contains(&module.ident.to_string().as_str()) {
            let line = module.ident.span().start().line;
            findings.push(format!(
                "{}:{line}: module `{}`",
                path.display(),
                module.ident
            ));
        }
        if let Some((_, items)) = &module.content {
            findings.extend(drawer_modules(path, items));
        }
    }
    findings
}

/// The files that are longer than they may be, and exceptions that nothing needs.
fn too_long(lengths: &[(PathBuf, usize)], exceptions: &[(&str, usize, &str)]) -> Vec<String> {
    let bound = |path: &Path| {
        let named = exceptions.iter().find(|(file, ..)| path == Path::new(file));
        named.map_or(LONGEST, |(_, lines, _)| *lines)
    };
    let long = lengths
        .iter()
        .filter(|(path, lines)| *lines > bound(path))
        .map(|(path, lines)| {
            format!(
                "{}: {lines} lines, at most {}: which two ideas is it?",
                path.display(),
                bound(path)
            )
        });
    let idle = exceptions.iter().filter_map(|(file, _, why)| {
        let lines = lengths
            .iter()
            .find(|(path, _)| path == Path::new(file))
            .map(|(_, lines)| *lines);
        let needed = lines.is_some_and(|lines| lines > LONGEST) && !why.trim().is_empty();
        (!needed).then(|| format!("{file}: the exception is not needed, or gives no reason"))
    });
    long.chain(idle).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::{SourceFile, with_workspace};

    #[test]
    fn no_file_or_module_is_a_drawer_for_leftovers() {
        with_workspace(move |workspace| {
            let mut findings = drawers(&workspace.rust_paths());
            for file in &workspace.files {
                findings.extend(drawer_modules(&file.path, &file.syntax.items));
            }
            crate::assert_none(&findings, "name it after what it does:");
        });
    }

    #[test]
    fn no_file_outgrows_one_idea() {
        with_workspace(move |workspace| {
            let lengths: Vec<(PathBuf, usize)> = workspace
                .rust_paths()
                .into_iter()
                .map(|path| {
                    let text = std::fs::read_to_string(workspace.root.join(&path)).unwrap();
                    (path, text.lines().count())
                })
                .collect();
            crate::assert_none(&too_long(&lengths, &LONGER), "files too long:");
        });
    }

    #[test]
    fn drawers_are_found_as_files_folders_and_modules() {
        let paths = ["src/utils.rs", "tests/common/mod.rs", "src/Misc.rs"].map(PathBuf::from);
        assert_eq!(drawers(&paths).len(), 3);
        let fine = ["src/tools/uncommon.rs", "src/context/compress.rs"].map(PathBuf::from);
        assert_eq!(drawers(&fine), Vec::<String>::new());

        let file = SourceFile::snippet("ghostlight", "tools", "mod a {\n mod helpers {} }");
        let found = drawer_modules(&file.path, &file.syntax.items);
        assert_eq!(found, ["tools.rs:2: module `helpers`"]);
    }

    #[test]
    fn an_exception_holds_up_to_its_own_bound_and_only_while_it_is_needed() {
        let lengths = |lines| [(PathBuf::from("a.rs"), lines)];
        assert!(too_long(&lengths(600), &[]).is_empty());
        assert_eq!(too_long(&lengths(601), &[]).len(), 1);
        let exception = [("a.rs", 700, "one table")];
        assert!(too_long(&lengths(700), &exception).is_empty());
        assert_eq!(too_long(&lengths(701), &exception).len(), 1);
        assert_eq!(
            too_long(&lengths(600), &exception).len(),
            1,
            "not needed any more"
        );
        assert_eq!(
            too_long(&lengths(650), &[("a.rs", 700, " ")]).len(),
            1,
            "no reason"
        );
        assert_eq!(too_long(&[], &exception).len(), 1, "the file is gone");
    }
}
