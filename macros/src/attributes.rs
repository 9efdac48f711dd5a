//! The settings in the parentheses of `#[tool(..)]`.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::{
    Error, LitBool, LitInt, LitStr, Path, Result, Token,
    meta::ParseNestedMeta,
    parse::{Parse, Parser},
};

/// The settings of a tool, each checked by itself.
#[derive(Default)]
pub(crate) struct Settings {
    pub(crate) name: Option<LitStr>,
    pub(crate) description: Option<LitStr>,
    pub(crate) approval: Option<LitStr>,
    pub(crate) reconcile: Option<Path>,
    effect: Option<(Span, &'static str)>,
    in_doubt: Option<(Span, &'static str)>,
    timeout_ms: Option<u64>,
    concurrency: Option<u32>,
    output_limit: Option<u32>,
    ends_step: bool,
}

const KNOWN: &str = "name, description, effect, in_doubt, reconcile, approval, timeout, \
                     concurrency, output_limit, ends_step";

impl Settings {
    pub(crate) fn parse(tokens: TokenStream) -> Result<Self> {
        let mut settings = Self::default();
        let mut seen: Vec<String> = Vec::new();
        let parser = syn::meta::parser(|meta| {
            let key = match meta.path.get_ident() {
                Some(key) => key.to_string(),
                None => return Err(meta.error(format!("unknown setting; there are: {KNOWN}"))),
            };
            if seen.contains(&key) {
                return Err(meta.error(format!("`{key}` is set twice")));
            }
            settings.set(&key, &meta)?;
            seen.push(key);
            Ok(())
        });
        parser.parse2(tokens)?;
        settings.check()?;
        Ok(settings)
    }

    fn set(&mut self, key: &str, meta: &ParseNestedMeta<'_>) -> Result<()> {
        match key {
            "name" => self.name = Some(tool_name(value(meta)?)?),
            "description" => self.description = Some(value(meta)?),
            "approval" => self.approval = Some(value(meta)?),
            "reconcile" => self.reconcile = Some(value(meta)?),
            "effect" => {
                let words = [
                    ("read", "Read"),
                    ("idempotent", "Idempotent"),
                    ("once", "Once"),
                ];
                self.effect = Some(one_of(meta, &words)?);
            }
            "in_doubt" => {
                let words = [
                    ("tell_model", "TellModel"),
                    ("ask_person", "AskPerson"),
                    ("fail", "Fail"),
                ];
                self.in_doubt = Some(one_of(meta, &words)?);
            }
            "timeout" => self.timeout_ms = Some(duration_ms(&value(meta)?)?),
            "concurrency" => self.concurrency = Some(positive(meta)?),
            "output_limit" => self.output_limit = Some(positive(meta)?),
            "ends_step" if meta.input.peek(Token![=]) => {
                self.ends_step = value::<LitBool>(meta)?.value;
            }
            "ends_step" => self.ends_step = true,
            _ => {
                return Err(meta.error(format!("unknown setting `{key}`; there are: {KNOWN}")));
            }
        }
        Ok(())
    }

    fn check(&self) -> Result<()> {
        let once = matches!(self.effect, None | Some((_, "Once")));
        if let (false, Some((span, _))) = (once, self.in_doubt) {
            let message = "`in_doubt` concerns `once` tools alone: any other call is repeated";
            return Err(Error::new(span, message));
        }
        if let (false, Some(path)) = (once, &self.reconcile) {
            let message = "`reconcile` concerns `once` tools alone: any other call is repeated";
            return Err(Error::new_spanned(path, message));
        }
        Ok(())
    }

    /// The setter calls on a `ToolDefinition`.
    pub(crate) fn setters(&self) -> TokenStream {
        let mut setters = TokenStream::new();
        if let Some((_, effect)) = self.effect {
            let effect = syn::Ident::new(effect, Span::call_site());
            setters.extend(quote!(.effect(::ghostlight::__private::Effect::#effect)));
        }
        if let Some((_, in_doubt)) = self.in_doubt {
            let in_doubt = syn::Ident::new(in_doubt, Span::call_site());
            setters.extend(quote!(.in_doubt(::ghostlight::__private::InDoubt::#in_doubt)));
        }
        if let Some(prompt) = &self.approval {
            setters.extend(quote!(.approval(#prompt)));
        }
        if let Some(ms) = self.timeout_ms {
            setters.extend(quote!(.timeout(::core::time::Duration::from_millis(#ms))));
        }
        if let Some(calls) = self.concurrency {
            setters.extend(quote!(.concurrency(#calls)));
        }
        if let Some(characters) = self.output_limit {
            setters.extend(quote!(.output_limit(#characters)));
        }
        if self.ends_step {
            setters.extend(quote!(.ends_step()));
        }
        setters
    }
}

fn value<T: Parse>(meta: &ParseNestedMeta<'_>) -> Result<T> {
    meta.value()?.parse()
}

fn one_of(
    meta: &ParseNestedMeta<'_>,
    words: &[(&str, &'static str)],
) -> Result<(Span, &'static str)> {
    let literal: LitStr = value(meta)?;
    let text = literal.value();
    match words.iter().find(|(word, _)| *word == text) {
        Some((_, variant)) => Ok((literal.span(), variant)),
        None => {
            let words: Vec<String> = words.iter().map(|(w, _)| format!("\"{w}\"")).collect();
            let message = format!("expected one of {}", words.join(", "));
            Err(Error::new(literal.span(), message))
        }
    }
}

fn positive<N>(meta: &ParseNestedMeta<'_>) -> Result<N>
where
    N: std::str::FromStr + Default + PartialEq,
    N::Err: std::fmt::Display,
{
    let literal: LitInt = value(meta)?;
    let number: N = literal.base10_parse()?;
    if number == N::default() {
        return Err(Error::new(literal.span(), "must be at least 1"));
    }
    Ok(number)
}

/// Checks that a name is one that every provider accepts.
fn tool_name(literal: LitStr) -> Result<LitStr> {
    let name = literal.value();
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if name.is_empty() || name.len() > 64 || !name.chars().all(fits) {
        let message = "a tool's name has 1 to 64 of the characters a-z, A-Z, 0-9, _ and -";
        return Err(Error::new(literal.span(), message));
    }
    Ok(literal)
}

fn duration_ms(literal: &LitStr) -> Result<u64> {
    let text = literal.value();
    let digits = text.chars().take_while(char::is_ascii_digit).count();
    let factor = match text[digits..].trim_start() {
        "ms" => Some(1),
        "s" => Some(1000),
        "m" => Some(60_000),
        "h" => Some(3_600_000),
        _ => None,
    };
    let number: Option<u64> = text[..digits].parse().ok();
    let product = number.zip(factor).and_then(|(n, f)| n.checked_mul(f));
    product.filter(|ms| *ms > 0).ok_or_else(|| {
        let message = "expected a time such as \"500ms\", \"30s\", \"5m\" or \"1h\"";
        Error::new(literal.span(), message)
    })
}
