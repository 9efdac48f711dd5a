//! Whether a path that a page names, such as `ghostlight::behaviors::React::new`, is really public:
//! it follows `pub mod`, `pub use` (renames, globs, other packages of the workspace) and looks for
//! fields, variants, methods and associated items of types.

use std::collections::BTreeSet;

use crate::sources::{SourceFile, Workspace};

/// Re-exports that lead in a circle end here.
const DEEPEST: usize = 16;

/// What a module holds, wherever its items stand.
#[derive(Clone, Copy)]
struct Module<'a> {
    package: &'a str,
    path: &'a [String],
    items: &'a [syn::Item],
}

/// The module tree of some packages, open to questions about public paths.
pub(crate) struct PublicItems<'a> {
    packages: &'a [String],
    modules: Vec<OwnedModule<'a>>,
}

struct OwnedModule<'a> {
    package: &'a str,
    path: Vec<String>,
    items: &'a [syn::Item],
}

impl<'a> PublicItems<'a> {
    pub(crate) fn of(workspace: &'a Workspace) -> Self {
        let files: Vec<&SourceFile> = workspace
            .files
            .iter()
            .filter(|file| file.in_library)
            .collect();
        Self::new(&workspace.packages, &files)
    }

    fn new(packages: &'a [String], files: &[&'a SourceFile]) -> Self {
        let mut modules = Vec::new();
        for file in files {
            gather(
                &file.package,
                file.module.clone(),
                &file.syntax.items,
                &mut modules,
            );
        }
        Self { packages, modules }
    }

    /// Whether `path` (`package::module::Item`, with `::member` if wanted) can be named by a user.
    pub(crate) fn has(&self, path: &str) -> bool {
        let segments: Vec<&str> = path.trim_end_matches("()").split("::").collect();
        let Some((package, rest)) = segments.split_first() else {
            return false;
        };
        self.packages.iter().any(|known| known == package)
            && self.reachable(package, &[], rest, 0, 0)
    }

    /// The names that the public modules of a package declare or re-export, each with its path; a glob stands as `*`.
    pub(crate) fn names(&self, package: &str) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        self.collect(package, &[], &mut names);
        names
    }

    fn collect(&self, package: &str, at: &[String], names: &mut BTreeSet<String>) {
        let Some(module) = self.module(package, at) else {
            return;
        };
        let path: String = at.iter().map(|part| format!("{part}::")).collect();
        let mut add = |name: &str| names.insert(format!("{package}::{path}{name}"));
        let mut below = Vec::new();
        for item in module.items {
            match item {
                syn::Item::Mod(inner) if is_public(&inner.vis) => {
                    below.push([at, &[inner.ident.to_string()]].concat());
                }
                syn::Item::Use(used) if is_public(&used.vis) => used_names(&used.tree, &mut add),
                item => {
                    if let Some((ident, visibility)) = declared(item)
                        && is_public(visibility)
                    {
                        add(&ident.to_string());
                    }
                }
            }
        }
        for module in below {
            self.collect(package, &module, names);
        }
    }

    /// Looks for `rest` below the module `at`. The first `private` of its names need not be `pub`:
    /// they stand in a `pub use`, which may go through what only its own crate sees.
    fn reachable(
        &self,
        package: &str,
        at: &[String],
        rest: &[&str],
        private: usize,
        depth: usize,
    ) -> bool {
        let Some((name, below)) = rest.split_first() else {
            return true;
        };
        let Some(module) = self.module(package, at) else {
            return false;
        };
        let public = private == 0;
        depth < DEEPEST
            && module.items.iter().any(|item| match item {
                syn::Item::Mod(inner) => {
                    inner.ident == name
                        && (is_public(&inner.vis) || !public)
                        && self.reachable(
                            package,
                            &[at, &[inner.ident.to_string()]].concat(),
                            below,
                            private.saturating_sub(1),
                            depth + 1,
                        )
                }
                syn::Item::Use(used) => {
                    (is_public(&used.vis) || !public)
                        && self.through_use(module, &mut Vec::new(), &used.tree, rest, depth)
                }
                _ => {
                    named_as(item, name, public)
                        && match below {
                            [] => true,
                            [member] => self.has_member(package, item, name, member),
                            _ => false,
                        }
                }
            })
    }

    fn through_use(
        &self,
        module: Module<'_>,
        prefix: &mut Vec<String>,
        tree: &syn::UseTree,
        rest: &[&str],
        depth: usize,
    ) -> bool {
        let found = |last: Option<&syn::Ident>, rest: &[&str]| {
            let mut target = prefix.clone();
            // `use x::{self}` means `x`.
            target.extend(last.map(ToString::to_string).filter(|last| last != "self"));
            self.resolve(module, &target, rest, depth)
        };
        match tree {
            syn::UseTree::Name(name) => {
                let visible = if name.ident == "self" {
                    prefix.last().cloned().unwrap_or_default()
                } else {
                    name.ident.to_string()
                };
                rest[0] == visible && found(Some(&name.ident), &rest[1..])
            }
            syn::UseTree::Rename(rename) => {
                rename.rename == rest[0] && found(Some(&rename.ident), &rest[1..])
            }
            syn::UseTree::Glob(_) => found(None, rest),
            syn::UseTree::Path(path) => {
                prefix.push(path.ident.to_string());
                let found = self.through_use(module, prefix, &path.tree, rest, depth);
                prefix.pop();
                found
            }
            syn::UseTree::Group(group) => group
                .items
                .iter()
                .any(|tree| self.through_use(module, prefix, tree, rest, depth)),
        }
    }

    /// Follows the path `used` of a `use` that stands in `module`, then `rest` from there.
    fn resolve(&self, module: Module<'_>, used: &[String], rest: &[&str], depth: usize) -> bool {
        let mut at = module.path.to_vec();
        let mut used: Vec<&str> = used.iter().map(String::as_str).collect();
        match used.first().copied() {
            Some("crate") => {
                at.clear();
                used.remove(0);
            }
            Some("self") => drop(used.remove(0)),
            Some("super") => {
                while used.first() == Some(&"super") {
                    at.pop();
                    used.remove(0);
                }
            }
            Some(package) if self.packages.iter().any(|known| known == package) => {
                used.remove(0);
                let path = [used.as_slice(), rest].concat();
                return self.reachable(package, &[], &path, 0, depth + 1);
            }
            // A name that this module does not have belongs to a crate that we cannot read.
            Some(child) if !self.declares(module, child) => return true,
            _ => {}
        }
        let path = [used.as_slice(), rest].concat();
        self.reachable(module.package, &at, &path, used.len(), depth + 1)
    }

    fn declares(&self, module: Module<'_>, name: &str) -> bool {
        module.items.iter().any(|item| match item {
            syn::Item::Mod(inner) => inner.ident == name,
            other => named_as(other, name, false),
        })
    }

    fn module(&self, package: &str, path: &[String]) -> Option<Module<'_>> {
        self.modules
            .iter()
            .find(|module| module.package == package && module.path == path)
            .map(|module| Module {
                package: module.package,
                path: &module.path,
                items: module.items,
            })
    }

    /// Whether the type or trait `item` has `member`; inherent impls may stand in any module.
    fn has_member(&self, package: &str, item: &syn::Item, name: &str, member: &str) -> bool {
        let own = match item {
            syn::Item::Enum(item) => item.variants.iter().any(|part| part.ident == member),
            syn::Item::Struct(item) => item.fields.iter().any(|field| {
                is_public(&field.vis) && field.ident.as_ref().is_some_and(|ident| ident == member)
            }),
            syn::Item::Trait(item) => item.items.iter().any(|part| match part {
                syn::TraitItem::Fn(function) => function.sig.ident == member,
                syn::TraitItem::Const(constant) => constant.ident == member,
                syn::TraitItem::Type(alias) => alias.ident == member,
                _ => false,
            }),
            _ => false,
        };
        own || self
            .modules
            .iter()
            .filter(|module| module.package == package)
            .flat_map(|module| module.items)
            .any(|item| matches!(item, syn::Item::Impl(block) if impl_has(block, name, member)))
    }
}

fn gather<'a>(
    package: &'a str,
    path: Vec<String>,
    items: &'a [syn::Item],
    modules: &mut Vec<OwnedModule<'a>>,
) {
    for item in items {
        if let syn::Item::Mod(syn::ItemMod {
            ident,
            content: Some((_, items)),
            ..
        }) = item
        {
            let inner = [path.as_slice(), &[ident.to_string()]].concat();
            gather(package, inner, items, modules);
        }
    }
    modules.push(OwnedModule {
        package,
        path,
        items,
    });
}

fn is_public(visibility: &syn::Visibility) -> bool {
    matches!(visibility, syn::Visibility::Public(_))
}

/// The names that a `use` makes visible.
fn used_names(tree: &syn::UseTree, add: &mut impl FnMut(&str) -> bool) {
    match tree {
        syn::UseTree::Name(name) => drop(add(&name.ident.to_string())),
        syn::UseTree::Rename(rename) => drop(add(&rename.rename.to_string())),
        syn::UseTree::Glob(_) => drop(add("*")),
        syn::UseTree::Path(path) => used_names(&path.tree, add),
        syn::UseTree::Group(group) => group.items.iter().for_each(|tree| used_names(tree, add)),
    }
}

/// The name that an item declares, and who sees it.
fn declared(item: &syn::Item) -> Option<(&syn::Ident, &syn::Visibility)> {
    Some(match item {
        syn::Item::Const(item) => (&item.ident, &item.vis),
        syn::Item::Enum(item) => (&item.ident, &item.vis),
        syn::Item::Fn(item) => (&item.sig.ident, &item.vis),
        syn::Item::Static(item) => (&item.ident, &item.vis),
        syn::Item::Struct(item) => (&item.ident, &item.vis),
        syn::Item::Trait(item) => (&item.ident, &item.vis),
        syn::Item::Type(item) => (&item.ident, &item.vis),
        syn::Item::Union(item) => (&item.ident, &item.vis),
        _ => return None,
    })
}

/// Whether this item declares `name`.
fn named_as(item: &syn::Item, name: &str, public: bool) -> bool {
    match (item, declared(item)) {
        (syn::Item::Macro(item), _) => macro_declares(item, name),
        (_, Some((ident, visibility))) => ident == name && (is_public(visibility) || !public),
        _ => false,
    }
}

/// An exported `macro_rules!`, or a call that is handed the name and so may well write the item
/// (`text_id! { RunId }`); what it expands to cannot be seen from here.
fn macro_declares(item: &syn::ItemMacro, name: &str) -> bool {
    if let Some(ident) = &item.ident {
        return ident == name
            && item
                .attrs
                .iter()
                .any(|attribute| attribute.path().is_ident("macro_export"));
    }
    mentions_ident(item.mac.tokens.clone(), name)
}

fn mentions_ident(tokens: proc_macro2::TokenStream, name: &str) -> bool {
    tokens.into_iter().any(|token| match token {
        proc_macro2::TokenTree::Ident(ident) => ident == name,
        proc_macro2::TokenTree::Group(group) => mentions_ident(group.stream(), name),
        _ => false,
    })
}

fn impl_has(block: &syn::ItemImpl, name: &str, member: &str) -> bool {
    let syn::Type::Path(of) = &*block.self_ty else {
        return false;
    };
    block.trait_.is_none()
        && of
            .path
            .segments
            .last()
            .is_some_and(|last| last.ident == name)
        && block.items.iter().any(|item| match item {
            syn::ImplItem::Fn(function) => function.sig.ident == member && is_public(&function.vis),
            syn::ImplItem::Const(constant) => constant.ident == member && is_public(&constant.vis),
            _ => false,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENGINE: &str = "
        pub mod contract;
        mod hidden { pub struct Inner; pub struct Kept; pub(crate) struct Secret; }
        pub use hidden::Inner;
        pub use hidden::Kept as Renamed;
        pub use contract::Model;
        #[macro_export] macro_rules! exported { () => {} }
        macro_rules! local { () => {} }
        text_id! { RunId, SessionId }
        pub(crate) use contract::Store;
        pub use contract as pledges;
    ";
    const CONTRACT: &str = "
        pub trait Model { fn name(&self) -> String; }
        pub trait Store {}
        pub struct Limits { pub steps: u32, secret: u32 }
        impl Limits { pub fn tight() -> Self { todo() } fn private() {} }
        pub enum Effect { Read, Once }
        struct Private;
        pub mod reserved { pub fn slot() {} }
    ";
    const FACE: &str = "
        pub use ghostlight_actors::{Inner as Shown, contract::{self, Limits}};
        pub use ractor;
        pub mod prelude { pub use crate::topic::*; pub use super::topic::Thing as Other; }
        pub mod topic;
    ";
    const TOPIC: &str = "pub struct Thing; struct Hidden; pub use self::round::*; mod round { pub use super::round::*; }";

    fn has(path: &str) -> bool {
        let packages = ["ghostlight".to_owned(), "ghostlight_actors".to_owned()];
        let files = [
            SourceFile::snippet("ghostlight_actors", "", ENGINE),
            SourceFile::snippet("ghostlight_actors", "contract", CONTRACT),
            SourceFile::snippet("ghostlight", "", FACE),
            SourceFile::snippet("ghostlight", "topic", TOPIC),
        ];
        PublicItems::new(&packages, &files.iter().collect::<Vec<_>>()).has(path)
    }

    #[test]
    fn public_items_are_found_along_modules_and_re_exports() {
        for path in [
            "ghostlight_actors::contract::Model",
            "ghostlight_actors::Model",
            "ghostlight_actors::Inner",
            "ghostlight_actors::Renamed",
            "ghostlight_actors::contract::reserved::slot",
            "ghostlight_actors::exported",
            "ghostlight_actors::pledges::Model",
            "ghostlight_actors::RunId",
            "ghostlight::Shown",
            "ghostlight::contract::Model",
            "ghostlight::Limits",
            "ghostlight::topic::Thing",
            "ghostlight::prelude::Thing",
            "ghostlight::prelude::Other",
            "ghostlight::ractor::Actor",
        ] {
            assert!(has(path), "{path}");
        }
    }

    #[test]
    fn members_of_types_are_found() {
        for path in [
            "ghostlight_actors::contract::Limits::steps",
            "ghostlight_actors::contract::Limits::tight",
            "ghostlight_actors::contract::Effect::Once",
            "ghostlight_actors::Model::name",
            "ghostlight::Limits::tight()",
        ] {
            assert!(has(path), "{path}");
        }
    }

    #[test]
    fn what_is_private_or_absent_is_not_found() {
        for path in [
            "ghostlight_actors::hidden::Inner",
            "ghostlight_actors::Kept",
            "ghostlight_actors::Secret",
            "ghostlight_actors::Store",
            "ghostlight_actors::local",
            "ghostlight_actors::contract::Private",
            "ghostlight_actors::pledges::Private",
            "ghostlight_actors::contract::Limits::secret",
            "ghostlight_actors::contract::Limits::private",
            "ghostlight_actors::contract::Effect::Idempotent",
            "ghostlight::topic::Hidden",
            "ghostlight::prelude::Absent",
            "ghostlight::Inner",
            "elsewhere::Thing",
        ] {
            assert!(!has(path), "{path}");
        }
    }
}
