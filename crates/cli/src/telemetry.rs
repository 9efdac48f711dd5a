//! The export of what a System does to a collector of OpenTelemetry, where the environment or a `.env` file names one.

use ghostlight_actors::actor::System;

use super::exit::Failure;

/// The exporter of a System's runs, if there is one.
#[cfg(feature = "full")]
pub(super) struct Exporter(Option<ghostlight::opentelemetry::Following>);
#[cfg(not(feature = "full"))]
pub(super) struct Exporter;

#[cfg(feature = "full")]
impl Exporter {
    /// Exports from here on.
    ///
    /// # Errors
    /// A variable that cannot be used; what the store fails with.
    pub(super) async fn begin(system: &System) -> Result<Self, Failure> {
        use ghostlight::opentelemetry::OpenTelemetry;

        let telemetry = OpenTelemetry::where_configured(ghostlight::environment::variable);
        let telemetry = telemetry.map_err(|error| Failure::Usage(error.to_string()))?;
        Ok(Self(match telemetry {
            Some(telemetry) => Some(telemetry.follow(system).await?),
            None => None,
        }))
    }

    /// Exports what is recorded, before the System stops.
    pub(super) async fn end(self) {
        if let Some(following) = self.0 {
            following.shutdown().await;
        }
    }
}

#[cfg(not(feature = "full"))]
#[allow(clippy::unused_async, reason = "with the feature they wait")]
impl Exporter {
    pub(super) async fn begin(_: &System) -> Result<Self, Failure> {
        Ok(Self)
    }

    pub(super) async fn end(self) {}
}
