//! Functions that the code of `#[tool]` calls. Nothing here is for people.

pub use ghostlight_actors::{
    contract::{Reconciled, Tool, ToolContext, ToolError, ToolOutput},
    vocabulary::{Arguments, Effect, InDoubt, ToolCall, ToolDefinition},
};
pub use schemars;
pub use serde;

/// The value that a tool's function returned. The inherent methods are found before those of the traits
/// below, so that the compiler picks the conversion by the type.
#[derive(Debug)]
pub struct Returned<T>(pub T);

impl<T, E> Returned<Result<T, E>> {
    /// A result whose error becomes a tool's.
    ///
    /// # Errors
    /// The function's own.
    pub fn into_result(self) -> Result<T, ToolError>
    where
        E: Into<ToolError>,
    {
        self.0.map_err(Into::into)
    }
}

/// A function that cannot fail.
pub trait PlainReturn<T> {
    /// Its value.
    ///
    /// # Errors
    /// Never.
    fn into_result(self) -> Result<T, ToolError>;
}

impl<T> PlainReturn<T> for Returned<T> {
    fn into_result(self) -> Result<T, ToolError> {
        Ok(self.0)
    }
}

impl Returned<ToolOutput> {
    /// The output as it is.
    ///
    /// # Errors
    /// Never.
    pub fn into_output(self) -> Result<ToolOutput, ToolError> {
        Ok(self.0)
    }
}

impl Returned<()> {
    /// A word that tells the model that the call succeeded.
    ///
    /// # Errors
    /// Never.
    pub fn into_output(self) -> Result<ToolOutput, ToolError> {
        Ok(ToolOutput::text("done"))
    }
}

/// A value that is shown as text or JSON.
pub trait SerializedReturn<T> {
    /// The value as text or JSON. The bound stands here and not on the implementation, so that
    /// the compiler says which type does not serialise, and not that a method is missing.
    ///
    /// # Errors
    /// When it does not serialise.
    fn into_output(self) -> Result<ToolOutput, ToolError>
    where
        T: serde::Serialize;
}

impl<T> SerializedReturn<T> for Returned<T> {
    fn into_output(self) -> Result<ToolOutput, ToolError>
    where
        T: serde::Serialize,
    {
        ToolOutput::of(&self.0)
    }
}
