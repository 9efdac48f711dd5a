//! Closures as tools.

use std::future::Future;

use ghostlight_actors::{
    contract::{ToolContext, ToolError, ToolHandle, ToolOutput},
    vocabulary::ToolDefinition,
};
use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};

/// Makes a tool of a closure. Its argument type gives the schema, which replaces the one in the
/// definition; what it returns reaches the model as text or JSON.
///
/// For a function that stands alone, [`#[tool]`](crate::tool) is shorter. This is for what
/// captures something, such as a connection, or is made while the program runs.
///
/// ```
/// use ghostlight::tools::tool_fn;
/// use ghostlight_actors::vocabulary::{Effect, ToolDefinition};
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Lookup {
///     /// The customer's number.
///     customer: u64,
/// }
///
/// let prices = [(7, 12.5), (8, 9.0)];
/// let definition = ToolDefinition::new("price", "Looks up a customer's price.");
/// let price = tool_fn(definition.effect(Effect::Read), move |lookup: Lookup| async move {
///     let found = prices.iter().find(|(customer, _)| *customer == lookup.customer);
///     Ok(found.map(|(_, price)| *price))
/// });
/// assert_eq!(price.definition().name, "price");
/// ```
pub fn tool_fn<A, F, Fut, T>(definition: ToolDefinition, run: F) -> ToolHandle
where
    A: DeserializeOwned + JsonSchema + Send + 'static,
    F: Fn(A) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<T, ToolError>> + Send + 'static,
    T: Serialize,
{
    tool_fn_with_context(definition, move |arguments, _| {
        let running = run(arguments);
        async move { ToolOutput::of(&running.await?) }
    })
}

/// Like [`tool_fn`], for a closure that wants the call's [`ToolContext`] and makes its
/// [`ToolOutput`] itself.
pub fn tool_fn_with_context<A, F, Fut>(definition: ToolDefinition, run: F) -> ToolHandle
where
    A: DeserializeOwned + JsonSchema + Send + 'static,
    F: Fn(A, ToolContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<ToolOutput, ToolError>> + Send + 'static,
{
    ToolHandle::typed(definition, run)
}
