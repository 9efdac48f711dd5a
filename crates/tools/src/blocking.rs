//! Work that blocks its thread.

use ghostlight_actors::contract::ToolError;

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
