//! The `#[tool]` attribute of Ghostlight: it makes a typed tool of a function.
//!
//! Use it as `ghostlight::tool`; what it generates names nothing but `::ghostlight`.

mod attributes;
mod expand;
mod parameters;

use proc_macro::TokenStream;

/// Makes a tool of a function.
///
/// ```
/// use ghostlight::prelude::*;
///
/// /// Adds VAT to a net price.
/// #[tool(effect = "read")]
/// async fn add_vat(
///     /// The price without VAT.
///     net: f64,
///     /// The rate in percent.
///     #[default(19.0)]
///     percent: f64,
/// ) -> Result<f64, ToolError> {
///     Ok(net * (1.0 + percent / 100.0))
/// }
///
/// let billing = Agent::new("billing").tool(add_vat);
/// ```
///
/// The name `add_vat` now stands for the tool; the function itself is `add_vat::call_fn`.
///
/// # The function
///
/// - It may be `async` or plain. A plain one must not block.
/// - Its doc comment is the description that the model reads; there must be one.
/// - Its parameters become the JSON Schema of the arguments: their types implement
///   `serde::Deserialize` and `schemars::JsonSchema`, and are owned (`String`, not `&str`).
///   Arguments that no parameter names are refused.
/// - A doc comment on a parameter describes it. `Option<T>` may be left out. `#[default]` or
///   `#[default(value)]` says what stands for a parameter that is left out. `#[serde(..)]` and
///   `#[schemars(..)]` go to the generated field, such as `#[schemars(range(min = 1))]`.
/// - A parameter of type `ToolContext` or `&ToolContext` is no argument: it is what the call
///   knows of its surroundings.
/// - It returns a value or a `Result` whose error converts into `ToolError`. The value is a
///   `ToolOutput`, `()` (the model reads `done`), or anything that implements
///   `serde::Serialize`: a string as it is, everything else as JSON.
///
/// # The attribute's settings
///
/// | setting | meaning |
/// |---|---|
/// | `name = "…"` | the tool's name, where it is not the function's |
/// | `description = "…"` | the description, instead of the doc comment |
/// | `effect = "read"`, `"idempotent"`, `"once"` | what repeating a call would do; `once` when it is not said |
/// | `in_doubt = "tell_model"`, `"ask_person"`, `"fail"` | what happens when a `once` call's end was never heard of |
/// | `reconcile = path` | `async fn(&ToolCall, ToolContext) -> Reconciled`, which tells whether a `once` call in doubt happened |
/// | `approval = "Delete {path}?"` | a person is asked first; `{…}` names a parameter |
/// | `timeout = "30s"` (`ms`, `s`, `m`, `h`) or `timeout_ms = 30000` | how long a call may take |
/// | `concurrency = 4` | how many calls may run at once in this process |
/// | `output_limit = 8000` | how many characters of output reach the model |
/// | `ends_step` | a successful call ends the step without another model call |
#[proc_macro_attribute]
pub fn tool(settings: TokenStream, function: TokenStream) -> TokenStream {
    expand::tool(settings.into(), function.into())
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}
