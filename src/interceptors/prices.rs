use ghostlight_actors::{
    contract::{Interceptor, ModelContext, ModelError, NextModel},
    vocabulary::{ModelRequest, ModelResponse, Prices},
};
use serde::Deserialize;

/// Sets the prices of calls to a model whose provider reports none, so that a budget in money holds
/// for it too. The prices apply to the models that it is put around.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(transparent)]
pub struct Pricing(Prices);

impl Pricing {
    /// Charges these prices.
    pub fn at(prices: Prices) -> Self {
        Self(prices)
    }
}

impl Interceptor for Pricing {
    async fn model(
        &self,
        request: ModelRequest,
        cx: ModelContext,
        next: NextModel<'_>,
    ) -> Result<ModelResponse, ModelError> {
        let mut response = next.respond(request, cx).await?;
        if response.usage.cost_micros == 0 {
            response.usage.cost_micros = self.0.cost_micros(&response.usage);
        }
        Ok(response)
    }

    fn prices_models(&self) -> bool {
        true
    }
}
