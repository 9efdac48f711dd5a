//! The parameters of a tool's function: the arguments and the context.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{Attribute, Error, Expr, FnArg, Ident, Meta, Pat, PatType, Result, Type, ext::IdentExt};

/// The kind of one parameter.
pub(crate) enum Parameter {
    /// An argument that the model gives.
    Argument(Argument),
    /// The call's context, by value or by reference.
    Context { by_reference: bool },
}

/// A field of the generated argument struct.
pub(crate) struct Argument {
    pub(crate) name: Ident,
    ty: Box<Type>,
    /// Doc comments and attributes for serde and schemars.
    attributes: Vec<Attribute>,
    default: Option<DefaultValue>,
}

enum DefaultValue {
    OfType,
    Value(Box<Expr>),
}

impl Parameter {
    /// Reads one parameter, and removes the attributes that are for this macro.
    pub(crate) fn take(parameter: &mut FnArg) -> Result<Self> {
        let parameter = match parameter {
            FnArg::Typed(typed) => typed,
            FnArg::Receiver(receiver) => {
                let message = "a tool is a free function: it has no `self`; implement \
                               `ghostlight::contract::Tool` for a type that carries state, or \
                               use `ghostlight::tools::tool_fn` with a closure";
                return Err(Error::new_spanned(receiver, message));
            }
        };
        let attributes = std::mem::take(&mut parameter.attrs);
        if let Some(by_reference) = context(&parameter.ty) {
            if let Some(attribute) = attributes.first() {
                let message =
                    "the context is not an argument of the model, so nothing describes it";
                return Err(Error::new_spanned(attribute, message));
            }
            return Ok(Self::Context { by_reference });
        }
        Ok(Self::Argument(Argument::new(parameter, attributes)?))
    }
}

impl Argument {
    fn new(parameter: &PatType, attributes: Vec<Attribute>) -> Result<Self> {
        let name = match &*parameter.pat {
            Pat::Ident(name) if name.by_ref.is_none() && name.subpat.is_none() => &name.ident,
            other => {
                let message = "a tool's parameter is a plain name, since the model calls it by it";
                return Err(Error::new_spanned(other, message));
            }
        };
        match &*parameter.ty {
            Type::Reference(reference) => {
                let message = "a tool's arguments are owned: take `String` instead of `&str`, \
                               `Vec<T>` instead of `&[T]`, `T` instead of `&T`";
                return Err(Error::new_spanned(reference, message));
            }
            Type::ImplTrait(generic) => {
                let message = "a tool's arguments have a concrete type, which gives their schema";
                return Err(Error::new_spanned(generic, message));
            }
            _ => {}
        }
        let mut argument = Self {
            name: name.clone(),
            ty: parameter.ty.clone(),
            attributes: Vec::new(),
            default: None,
        };
        for attribute in attributes {
            argument.add(attribute)?;
        }
        Ok(argument)
    }

    fn add(&mut self, attribute: Attribute) -> Result<()> {
        let path = attribute.path();
        let kept = ["doc", "serde", "schemars"];
        if kept.iter().any(|known| path.is_ident(known)) {
            self.attributes.push(attribute);
            return Ok(());
        }
        if !path.is_ident("default") {
            let message = "a tool's parameter takes doc comments, `#[default]`, `#[default(..)]`, \
                           `#[serde(..)]` and `#[schemars(..)]`";
            return Err(Error::new_spanned(attribute, message));
        }
        if self.default.is_some() {
            return Err(Error::new_spanned(attribute, "there is a default already"));
        }
        self.default = Some(match &attribute.meta {
            Meta::Path(_) => DefaultValue::OfType,
            Meta::List(list) => DefaultValue::Value(Box::new(list.parse_args()?)),
            Meta::NameValue(pair) => DefaultValue::Value(Box::new(pair.value.clone())),
        });
        Ok(())
    }

    /// The field of the argument struct.
    pub(crate) fn field(&self) -> TokenStream {
        let (name, ty, attributes) = (&self.name, &self.ty, &self.attributes);
        let default = match &self.default {
            None => None,
            Some(DefaultValue::OfType) => Some(quote!(#[serde(default)])),
            Some(DefaultValue::Value(_)) => {
                let function = self.default_function().to_string();
                Some(quote!(#[serde(default = #function)]))
            }
        };
        quote!(#(#attributes)* #default #name: #ty)
    }

    /// The function that serde calls for a value that is left out.
    pub(crate) fn default_item(&self) -> Option<TokenStream> {
        let Some(DefaultValue::Value(value)) = &self.default else {
            return None;
        };
        let (function, ty) = (self.default_function(), &self.ty);
        // The literal of a `String` parameter is a `&str`.
        let value = match &**value {
            Expr::Lit(literal) if matches!(literal.lit, syn::Lit::Str(_)) => {
                quote!(::core::convert::From::from(#value))
            }
            value => quote!(#value),
        };
        Some(quote!(fn #function() -> #ty { #value }))
    }

    fn default_function(&self) -> Ident {
        format_ident!("__default_{}", self.name.unraw())
    }
}

/// Whether a type is the context, and whether it is taken by reference.
fn context(ty: &Type) -> Option<bool> {
    let named = |ty: &Type| match ty {
        Type::Path(path) => {
            let last = path.path.segments.last();
            last.is_some_and(|segment| segment.ident == "ToolContext")
        }
        _ => false,
    };
    match ty {
        Type::Reference(reference) if reference.mutability.is_none() => {
            named(&reference.elem).then_some(true)
        }
        other => named(other).then_some(false),
    }
}
