//! Turns a function into a tool.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::{
    Attribute, Error, Expr, ExprLit, ItemFn, Lit, LitStr, Meta, Result, ReturnType, ext::IdentExt,
    spanned::Spanned,
};

use crate::{
    attributes::Settings,
    parameters::{Argument, Parameter},
};

/// Expands `#[tool(settings)] function`.
pub(crate) fn tool(settings: TokenStream, function: TokenStream) -> Result<TokenStream> {
    let settings = Settings::parse(settings)?;
    let mut function: ItemFn = syn::parse2(function).map_err(|error| {
        Error::new(
            error.span(),
            format!("#[tool] stands on a function: {error}"),
        )
    })?;
    check_signature(&function)?;
    let mut parameters = Vec::new();
    for input in &mut function.sig.inputs {
        let parameter = Parameter::take(input)?;
        let context = |p: &Parameter| matches!(p, Parameter::Context { .. });
        if context(&parameter) && parameters.iter().any(context) {
            return Err(Error::new_spanned(input, "one `ToolContext` is enough"));
        }
        parameters.push(parameter);
    }
    let arguments = || {
        parameters.iter().filter_map(|parameter| match parameter {
            Parameter::Argument(argument) => Some(argument),
            Parameter::Context { .. } => None,
        })
    };
    check_approval(&settings, arguments())?;
    let definition = definition(&settings, &function)?;
    let implementation = implementation(&settings, &function, &parameters, &definition);
    let structure = argument_struct(arguments());
    let items = public_items(&function);
    let conditions: Vec<&Attribute> = conditions(&function).collect();
    Ok(quote! {
        #items
        #(#conditions)*
        const _: () = {
            #structure
            #implementation
        };
    })
}

fn check_signature(function: &ItemFn) -> Result<()> {
    let signature = &function.sig;
    if let Some(parameter) = signature.generics.params.first() {
        let message = "a tool has no generic parameters: its arguments' types give its schema";
        return Err(Error::new_spanned(parameter, message));
    }
    let refused = [
        signature
            .unsafety
            .map(|token| Error::new_spanned(token, "a tool is a safe function")),
        signature
            .constness
            .map(|token| Error::new_spanned(token, "a tool is no `const fn`")),
    ];
    match refused.into_iter().flatten().next() {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

/// Checks that every `{name}` of an approval's question is a parameter.
fn check_approval<'a>(
    settings: &Settings,
    mut arguments: impl Iterator<Item = &'a Argument> + Clone,
) -> Result<()> {
    let Some(prompt) = &settings.approval else {
        return Ok(());
    };
    let text = prompt.value();
    let named = text
        .split('{')
        .skip(1)
        .filter_map(|rest| rest.split_once('}'));
    for (name, _) in named {
        if !arguments
            .clone()
            .any(|argument| argument.name.unraw() == name)
        {
            let names: Vec<String> = arguments
                .by_ref()
                .map(|argument| format!("{{{}}}", argument.name.unraw()))
                .collect();
            let names = match names.len() {
                0 => String::from("there are none"),
                _ => format!("there are: {}", names.join(", ")),
            };
            let message = format!("the question names no parameter with {{{name}}}; {names}");
            return Err(Error::new(prompt.span(), message));
        }
    }
    Ok(())
}

/// The expression that makes the `ToolDefinition`.
fn definition(settings: &Settings, function: &ItemFn) -> Result<TokenStream> {
    let ident = &function.sig.ident;
    let name = match &settings.name {
        Some(name) => name.clone(),
        None => LitStr::new(&ident.unraw().to_string(), ident.span()),
    };
    let description = match &settings.description {
        Some(description) => description.value(),
        None => doc_text(&function.attrs),
    };
    if description.trim().is_empty() {
        let message = format!(
            "the tool `{}` has no description: write a doc comment (`/// ...`) above the \
             function, since the model reads it to decide when to call the tool",
            name.value()
        );
        return Err(Error::new(ident.span(), message));
    }
    let setters = settings.setters();
    Ok(quote! {
        ::ghostlight::__private::ToolDefinition::new(#name, #description)
            .parameters_of::<__Arguments>()
            #setters
    })
}

/// The text of the doc comments, as rustdoc would show it.
fn doc_text(attributes: &[Attribute]) -> String {
    let mut lines = Vec::new();
    for attribute in attributes {
        if let Meta::NameValue(pair) = &attribute.meta
            && pair.path.is_ident("doc")
            && let Expr::Lit(ExprLit {
                lit: Lit::Str(text),
                ..
            }) = &pair.value
        {
            let text = text.value();
            lines.extend(
                text.lines()
                    .map(|l| l.strip_prefix(' ').unwrap_or(l).to_owned()),
            );
            if text.is_empty() {
                lines.push(String::new());
            }
        }
    }
    lines.join("\n").trim().to_owned()
}

fn conditions(function: &ItemFn) -> impl Iterator<Item = &Attribute> {
    let conditions = function.attrs.iter();
    conditions.filter(|attribute| attribute.path().is_ident("cfg"))
}

/// The meaning of the name: as a value, the tool; as a type, the owner of the function.
///
/// The value is a function and not a unit struct, because nobody could write
/// `let add_vat = ..` in its module any more.
fn public_items(function: &ItemFn) -> TokenStream {
    let (visibility, name) = (&function.vis, &function.sig.ident);
    let is_doc = |attribute: &&Attribute| attribute.path().is_ident("doc");
    let is_condition = |attribute: &&Attribute| attribute.path().is_ident("cfg");
    let docs: Vec<&Attribute> = function.attrs.iter().filter(is_doc).collect();
    let others = function
        .attrs
        .iter()
        .filter(|a| !is_doc(a) && !is_condition(a));
    let conditions: Vec<&Attribute> = conditions(function).collect();
    let mut signature = function.sig.clone();
    signature.ident = syn::Ident::new("call_fn", name.span());
    let body = &function.block;
    quote! {
        #(#conditions)*
        #(#docs)*
        #[allow(non_camel_case_types)]
        #[derive(Clone, Copy, Debug)]
        #visibility struct #name {}

        #(#conditions)*
        #(#docs)*
        #[allow(dead_code)]
        #visibility fn #name() -> #name {
            #name {}
        }

        #(#conditions)*
        impl #name {
            /// The function that the tool calls.
            #[allow(dead_code)]
            #(#others)*
            #visibility #signature #body
        }
    }
}

fn argument_struct<'a>(arguments: impl Iterator<Item = &'a Argument> + Clone) -> TokenStream {
    let fields = arguments.clone().map(Argument::field);
    let defaults = arguments.filter_map(Argument::default_item);
    quote! {
        #[derive(
            ::ghostlight::__private::serde::Deserialize,
            ::ghostlight::__private::schemars::JsonSchema,
        )]
        #[serde(crate = "::ghostlight::__private::serde", deny_unknown_fields)]
        #[schemars(crate = "::ghostlight::__private::schemars")]
        struct __Arguments {
            #(#fields,)*
        }

        #(#defaults)*
    }
}

fn implementation(
    settings: &Settings,
    function: &ItemFn,
    parameters: &[Parameter],
    definition: &TokenStream,
) -> TokenStream {
    let name = &function.sig.ident;
    let given = parameters.iter().map(|parameter| match parameter {
        Parameter::Argument(argument) => {
            let name = &argument.name;
            quote!(arguments.#name)
        }
        Parameter::Context { by_reference: true } => quote!(&cx),
        Parameter::Context { .. } => quote!(cx),
    });
    // An error about a value that does not convert points at the return type.
    let at = match &function.sig.output {
        ReturnType::Type(_, ty) => ty.span(),
        ReturnType::Default => name.span(),
    };
    let convert = quote_spanned! {at=>
        #[allow(clippy::let_unit_value)]
        let value = ::ghostlight::__private::Returned(returned).into_result()?;
        ::ghostlight::__private::Returned(value).into_output()
    };
    let wait = function.sig.asyncness.map(|_| quote!(.await));
    let reconcile = settings.reconcile.as_ref().map(|path| {
        quote! {
            async fn reconcile(
                &self,
                call: &::ghostlight::__private::ToolCall,
                cx: ::ghostlight::__private::ToolContext,
            ) -> ::ghostlight::__private::Reconciled {
                #path(call, cx).await
            }
        }
    });
    quote! {
        impl ::ghostlight::__private::Tool for #name {
            fn definition(&self) -> ::ghostlight::__private::ToolDefinition {
                #definition
            }

            #[allow(unused_variables)]
            async fn call(
                &self,
                arguments: ::ghostlight::__private::Arguments,
                cx: ::ghostlight::__private::ToolContext,
            ) -> ::core::result::Result<
                ::ghostlight::__private::ToolOutput,
                ::ghostlight::__private::ToolError,
            > {
                #[allow(unused_imports)]
                use ::ghostlight::__private::{PlainReturn as _, SerializedReturn as _};
                let arguments: __Arguments = arguments.read()?;
                #[allow(clippy::let_unit_value)]
                let returned = #name::call_fn(#(#given),*) #wait;
                #convert
            }

            fn reads(
                &self,
                arguments: &::ghostlight::__private::Arguments,
            ) -> ::core::result::Result<(), ::ghostlight::__private::ToolError> {
                arguments.read::<__Arguments>().map(|_| ())
            }

            #reconcile
        }
    }
}

#[cfg(test)]
mod tests;
