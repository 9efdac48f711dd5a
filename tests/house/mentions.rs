//! Finds every path in a file that names something of this workspace: paths that begin with
//! `crate`, `self`, `super` or the name of a package, wherever they stand, not only in `use`.

use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};
use syn::visit::{self, Visit};

use crate::sources::{SourceFile, is_test_only};

/// One path, made absolute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mention {
    /// The line on which it stands, from 1.
    pub(crate) line: usize,
    /// The module of the file (inline modules included) in which it stands.
    pub(crate) within: Vec<String>,
    /// The package that it leads to.
    pub(crate) package: String,
    /// Where in that package, from its root. A glob ends in `*`.
    pub(crate) path: Vec<String>,
    /// Whether it gives a crate root another name, under which it could not be followed.
    pub(crate) renames_root: bool,
    /// Whether it shows the name as one of its own.
    pub(crate) re_exports: bool,
}

/// All mentions outside code that is compiled for tests only.
pub(crate) fn mentions(file: &SourceFile, packages: &[String]) -> Vec<Mention> {
    if file.test_only {
        return Vec::new();
    }
    let mut finder = Finder {
        packages,
        package: &file.package,
        module: file.module.clone(),
        below: modules_below(&file.syntax),
        re_exports: false,
        found: Vec::new(),
    };
    finder.visit_file(&file.syntax);
    finder.found
}

struct Finder<'a> {
    packages: &'a [String],
    package: &'a str,
    module: Vec<String>,
    /// The modules that the file declares.
    below: Vec<String>,
    /// Whether what is being read is a `pub use`.
    re_exports: bool,
    found: Vec<Mention>,
}

/// The modules that stand in files of their own below this one.
fn modules_below(file: &syn::File) -> Vec<String> {
    let module = |item: &syn::Item| match item {
        syn::Item::Mod(module) if module.content.is_none() => Some(module.ident.to_string()),
        _ => None,
    };
    file.items.iter().filter_map(module).collect()
}

impl Finder<'_> {
    fn add(&mut self, written: &[String], span: Span, renamed: bool) {
        // One word alone is a visibility, the value `self`, or a word in a macro's own language.
        if written.len() < 2 && !renamed {
            return;
        }
        let Some((package, path)) = self.absolute(written) else {
            return;
        };
        self.found.push(Mention {
            line: span.start().line,
            within: self.module.clone(),
            re_exports: self.re_exports,
            renames_root: renamed && path.is_empty(),
            package,
            path,
        });
    }

    /// The package and the path from its root, if `written` begins like a path of ours.
    fn absolute(&self, written: &[String]) -> Option<(String, Vec<String>)> {
        let first = written.first()?;
        let (base, mut rest) = match first.as_str() {
            "crate" => (Vec::new(), &written[1..]),
            "self" => (self.module.clone(), &written[1..]),
            "super" => (self.module.clone(), written),
            name if self.below.iter().any(|below| below == name) => (self.module.clone(), written),
            name if self.packages.iter().any(|package| package == name) => {
                return Some((name.to_owned(), written[1..].to_vec()));
            }
            _ => return None,
        };
        let mut path = base;
        while let Some((head, tail)) = rest.split_first() {
            match head.as_str() {
                "super" => path.pop().map(drop)?,
                "self" => {}
                _ => break,
            }
            rest = tail;
        }
        path.extend(rest.iter().cloned());
        Some((self.package.to_owned(), path))
    }

    fn use_tree(&mut self, prefix: &[String], tree: &syn::UseTree) {
        let with = |name: String| [prefix, &[name]].concat();
        match tree {
            syn::UseTree::Path(path) => self.use_tree(&with(path.ident.to_string()), &path.tree),
            syn::UseTree::Name(name) => {
                self.add(&with(name.ident.to_string()), name.ident.span(), false);
            }
            syn::UseTree::Rename(rename) => {
                self.add(&with(rename.ident.to_string()), rename.ident.span(), true);
            }
            syn::UseTree::Glob(glob) => {
                self.add(&with("*".to_owned()), glob.star_token.span, false)
            }
            syn::UseTree::Group(group) => {
                group
                    .items
                    .iter()
                    .for_each(|item| self.use_tree(prefix, item));
            }
        }
    }

    /// Code that only a macro understands has no syntax tree: read `a::b::{c, d}` off its tokens.
    fn tokens(&mut self, tokens: TokenStream, with_strings: bool) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut at = 0;
        while at < tokens.len() {
            match &tokens[at] {
                TokenTree::Ident(_) => {
                    let end = self.token_path(&tokens, at, &[]);
                    at = end.max(at + 1);
                    continue;
                }
                TokenTree::Group(group) => self.tokens(group.stream(), with_strings),
                TokenTree::Literal(literal) if with_strings => self.string(literal),
                _ => {}
            }
            at += 1;
        }
    }

    /// Reads one path from `start`; returns where it ends.
    fn token_path(&mut self, tokens: &[TokenTree], start: usize, prefix: &[String]) -> usize {
        let mut path = prefix.to_vec();
        let mut at = start;
        while let Some(TokenTree::Ident(ident)) = tokens.get(at) {
            path.push(ident.to_string());
            at += 1;
            if !is_path_separator(tokens, at) {
                break;
            }
            match tokens.get(at + 2) {
                Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
                    let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                    for part in inner.split(|token| is_punct(token, ',')) {
                        self.token_path(part, 0, &path);
                    }
                    return at + 3;
                }
                Some(TokenTree::Ident(_)) => at += 2,
                _ => break,
            }
        }
        if let Some(token) = tokens.get(start) {
            self.add(&path, token.span(), false);
        }
        at
    }

    /// Attributes name functions in strings: `#[serde(with = "crate::vocabulary::text")]`.
    fn string(&mut self, literal: &proc_macro2::Literal) {
        let parsed = syn::parse_str::<syn::LitStr>(&literal.to_string());
        if let Some(path) = parsed
            .ok()
            .and_then(|text| syn::parse_str::<syn::Path>(&text.value()).ok())
        {
            self.add(&segments(&path), literal.span(), false);
        }
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if !is_test_only(item_attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item(&mut self, item: &'ast syn::ImplItem) {
        let test_only = match item {
            syn::ImplItem::Fn(function) => is_test_only(&function.attrs),
            syn::ImplItem::Const(constant) => is_test_only(&constant.attrs),
            _ => false,
        };
        if !test_only {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        self.module.push(module.ident.to_string());
        visit::visit_item_mod(self, module);
        self.module.pop();
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.re_exports = !matches!(item.vis, syn::Visibility::Inherited);
        self.use_tree(&[], &item.tree);
        self.re_exports = false;
    }

    fn visit_item_extern_crate(&mut self, item: &'ast syn::ItemExternCrate) {
        // `extern crate self as name` is how a library lets macros name it from inside.
        if item.ident != "self" {
            self.add(&[item.ident.to_string()], item.ident.span(), true);
        }
    }

    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {
        // It says who may name the item, and names nothing itself.
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if let Some(first) = path.segments.first() {
            self.add(&segments(path), first.ident.span(), false);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.visit_path(&call.path);
        self.tokens(call.tokens.clone(), false);
    }

    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        match &attribute.meta {
            syn::Meta::List(list) => {
                self.visit_path(&list.path);
                self.tokens(list.tokens.clone(), true);
            }
            syn::Meta::NameValue(pair) if pair.path.is_ident("doc") => {}
            _ => visit::visit_attribute(self, attribute),
        }
    }
}

fn segments(path: &syn::Path) -> Vec<String> {
    path.segments
        .iter()
        .map(|segment| segment.ident.to_string())
        .collect()
}

fn is_punct(token: &TokenTree, wanted: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == wanted)
}

fn is_path_separator(tokens: &[TokenTree], at: usize) -> bool {
    [at, at + 1]
        .iter()
        .all(|at| tokens.get(*at).is_some_and(|token| is_punct(token, ':')))
}

fn item_attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Const(item) => &item.attrs,
        syn::Item::Enum(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Macro(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Static(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Trait(item) => &item.attrs,
        syn::Item::Type(item) => &item.attrs,
        syn::Item::Union(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(module: &str, text: &str) -> Vec<String> {
        let packages = ["ghostlight".to_owned(), "ghostlight_actors".to_owned()];
        mentions(
            &SourceFile::snippet("ghostlight_actors", module, text),
            &packages,
        )
        .into_iter()
        .map(|mention| {
            format!(
                "{}:{}::{}",
                mention.line,
                mention.package,
                mention.path.join("::")
            )
        })
        .collect()
    }

    #[test]
    fn paths_are_found_wherever_they_stand() {
        let text = r#"
use crate::vocabulary::{Event, id::RunId};
pub(crate) fn f(x: crate::contract::Clock) -> Option<super::super::run::Scope> {
    let y = ghostlight_actors::session::fold();
    <crate::definition::AgentSpec as Default>::default();
    Vec::<crate::testing::Script>::new();
    None
}
#[serde(with = "crate::vocabulary::text")]
struct S;
"#;
        assert_eq!(
            found("actor::journal", text),
            [
                "2:ghostlight_actors::vocabulary::Event",
                "2:ghostlight_actors::vocabulary::id::RunId",
                "3:ghostlight_actors::contract::Clock",
                "3:ghostlight_actors::run::Scope",
                "4:ghostlight_actors::session::fold",
                "5:ghostlight_actors::definition::AgentSpec",
                "6:ghostlight_actors::testing::Script",
                "9:ghostlight_actors::vocabulary::text",
            ]
        );
    }

    #[test]
    fn paths_inside_macro_calls_and_macro_bodies_are_found() {
        let text = r#"
fn f() { tokio::select! { x = crate::actor::wait() => vec![super::mailbox::take(x)] } }
macro_rules! m { () => { $crate::session::{fold, state::State} } }
"#;
        assert_eq!(
            found("session::turn", text),
            [
                "2:ghostlight_actors::actor::wait",
                "2:ghostlight_actors::session::mailbox::take",
                "3:ghostlight_actors::session::fold",
                "3:ghostlight_actors::session::state::State",
            ]
        );
    }

    #[test]
    fn inline_modules_shift_self_and_super() {
        let text = "mod inner { use super::sibling::X; use self::below::Y; fn f() { g(self.a) } }";
        assert_eq!(
            found("run::scope", text),
            [
                "1:ghostlight_actors::run::scope::sibling::X",
                "1:ghostlight_actors::run::scope::inner::below::Y",
            ]
        );
    }

    #[test]
    fn test_code_is_exempt_and_shipped_code_is_not() {
        let exempt = "#[cfg(test)] mod tests { use crate::actor::System; }
                      #[cfg(test)] use crate::testing::Script;
                      #[test] fn t() { crate::actor::f() }
                      struct S; impl S { #[cfg(test)] fn t() { crate::actor::f() } }";
        assert_eq!(found("run", exempt), Vec::<String>::new());
        let ships = "#[cfg(any(test, feature = \"testing\"))] use crate::testing::Script;";
        assert_eq!(found("run", ships).len(), 1);
    }

    #[test]
    fn renaming_a_crate_root_is_marked() {
        let packages = ["ghostlight".to_owned(), "ghostlight_actors".to_owned()];
        for (text, renames) in [
            ("use ghostlight_actors as engine;", true),
            ("use crate as root;", true),
            ("use crate::session as s;", false),
        ] {
            let file = SourceFile::snippet("ghostlight_actors", "actor", text);
            assert_eq!(
                mentions(&file, &packages)[0].renames_root,
                renames,
                "{text}"
            );
        }
    }

    #[test]
    fn visibilities_and_the_value_self_are_not_mentions() {
        let text = "pub(crate) struct S; pub(super) fn f() {} pub(in crate::run) enum E {} impl S { fn g(&self) { h(self) } }";
        assert_eq!(found("run::scope", text), Vec::<String>::new());
    }
}
