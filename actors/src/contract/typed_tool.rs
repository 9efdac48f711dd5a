//! Closures with typed arguments as tools.

use std::{future::Future, marker::PhantomData};

use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use super::{Tool, ToolContext, ToolError, ToolHandle, ToolOutput};
use crate::vocabulary::{Arguments, ToolDefinition};

impl ToolHandle {
    /// A tool of a closure. Its argument type gives the schema, which replaces the one in the definition.
    pub fn typed<A, F, Fut>(definition: ToolDefinition, run: F) -> Self
    where
        A: DeserializeOwned + JsonSchema + Send + 'static,
        F: Fn(A, ToolContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<ToolOutput, ToolError>> + Send + 'static,
    {
        Self::new(TypedTool {
            definition: definition.parameters_of::<A>(),
            run,
            arguments: PhantomData,
        })
    }
}

struct TypedTool<A, F> {
    definition: ToolDefinition,
    run: F,
    arguments: PhantomData<fn(A)>,
}

impl<A, F, Fut> Tool for TypedTool<A, F>
where
    A: DeserializeOwned + JsonSchema + Send + 'static,
    F: Fn(A, ToolContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<ToolOutput, ToolError>> + Send + 'static,
{
    fn definition(&self) -> ToolDefinition {
        self.definition.clone()
    }

    async fn call(&self, arguments: Arguments, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        (self.run)(arguments.read()?, cx).await
    }

    fn reads(&self, arguments: &Arguments) -> Result<(), ToolError> {
        arguments.read::<A>().map(drop)
    }
}

impl Arguments {
    /// Like [`parse`](Self::parse), with an error for the model. The executor has checked the arguments against the tool's
    /// schema; this serves callers by hand, and types that are stricter than their schema.
    ///
    /// # Errors
    /// The fault.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, ToolError> {
        self.parse()
            .map_err(|fault| ToolError::new(format!("the arguments do not fit: {fault}")))
    }
}
