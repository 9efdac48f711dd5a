//! The `#[tool]` attribute of Ghostlight: it makes a typed tool of a function.
//!
//! Use it as `ghostlight::tool`; what it generates names nothing but `::ghostlight`.

mod attributes;
mod expand;
mod parameters;

use proc_macro::TokenStream;

// The example is tested in ghostlight. A dependency on ghostlight for this test would compile it, the engine and all
// dependencies a second time, because cargo builds what a macro needs apart from what a program needs.
#[cfg_attr(not(doctest), doc = include_str!("tool.md"))]
#[proc_macro_attribute]
pub fn tool(settings: TokenStream, function: TokenStream) -> TokenStream {
    expand::tool(settings.into(), function.into())
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}
