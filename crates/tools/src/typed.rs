//! Closures with typed arguments as tools.

use std::marker::PhantomData;

use ghostlight_actors::{
    contract::{Tool, ToolContext, ToolError, ToolHandle, ToolOutput},
    vocabulary::{Arguments, ToolDefinition},
};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

/// Makes a tool of a closure whose argument type gives the schema.
pub(crate) fn typed<A, F, Fut>(definition: ToolDefinition, run: F) -> ToolHandle
where
    A: DeserializeOwned + JsonSchema + Send + 'static,
    F: Fn(A, ToolContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<ToolOutput, ToolError>> + Send + 'static,
{
    ToolHandle::new(Typed {
        definition: definition.parameters_of::<A>(),
        run,
        arguments: PhantomData,
    })
}

struct Typed<A, F> {
    definition: ToolDefinition,
    run: F,
    arguments: PhantomData<fn(A)>,
}

impl<A, F, Fut> Tool for Typed<A, F>
where
    A: DeserializeOwned + JsonSchema + Send + 'static,
    F: Fn(A, ToolContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<ToolOutput, ToolError>> + Send + 'static,
{
    fn definition(&self) -> ToolDefinition {
        self.definition.clone()
    }

    async fn call(&self, arguments: Arguments, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        (self.run)(read(&arguments)?, cx).await
    }

    fn reads(&self, arguments: &Arguments) -> Result<(), ToolError> {
        read::<A>(arguments).map(drop)
    }
}

/// The arguments as a type, which may be stricter than the schema against which the executor has checked them.
fn read<A: DeserializeOwned>(arguments: &Arguments) -> Result<A, ToolError> {
    let read = arguments.parse();
    read.map_err(|fault| ToolError::new(format!("the arguments do not fit: {fault}")))
}

/// Runs blocking code on a thread for such code.
pub(crate) async fn blocking<T, F>(work: F) -> Result<T, ToolError>
where
    T: Send + 'static,
    F: FnOnce() -> Result<T, ToolError> + Send + 'static,
{
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(ToolError::new(format!("the work was lost: {error}"))),
    }
}
