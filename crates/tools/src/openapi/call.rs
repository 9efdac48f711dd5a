//! A call of an operation.

use std::sync::Arc;

use ghostlight_actors::{
    contract::{Tool, ToolContext, ToolError, ToolOutput},
    vocabulary::{Arguments, Effect, ToolDefinition},
};
use reqwest::{StatusCode, Url, header::HeaderName};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, Value};

use super::{
    operation::Operation,
    request::{Draft, encoded},
    security::Credentials,
    settings::Reveal,
};
use crate::web::{Ask, Client, told_of_page};

/// The server of the operations.
#[derive(Debug)]
pub(super) struct Api {
    pub(super) client: Client,
    pub(super) base: Url,
    pub(super) credentials: Credentials,
    pub(super) headers: Vec<(HeaderName, SecretString)>,
    pub(super) max_output: usize,
    pub(super) reveal: Option<Reveal>,
}

impl Api {
    fn reveal(&self, secret: &SecretString) -> Result<SecretString, String> {
        match &self.reveal {
            Some(Reveal(look_up)) => look_up(secret.expose_secret()),
            None => Ok(secret.clone()),
        }
    }
}

/// Removes secrets from an answer: a server may repeat what it was sent, and a model never reads a credential.
fn without_secrets(mut told: String, secrets: &[SecretString]) -> String {
    let secrets = secrets.iter().map(ExposeSecret::expose_secret);
    let written = secrets.flat_map(|secret| [secret.to_owned(), encoded(secret)]);
    let mut written: Vec<String> = written.collect();
    // One may be a part of another, whose rest would stay.
    written.sort_unstable_by_key(|text| std::cmp::Reverse(text.len()));
    for text in written {
        // A shorter secret could be a word of any answer.
        if text.len() >= 6 && told.contains(&text) {
            told = told.replace(&text, "***");
        }
    }
    told
}

#[derive(Debug)]
pub(super) struct OperationTool {
    pub(super) api: Arc<Api>,
    pub(super) operation: Operation,
}

impl Tool for OperationTool {
    fn definition(&self) -> ToolDefinition {
        self.operation.definition.clone()
    }

    async fn call(&self, arguments: Arguments, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let none = Map::new();
        let given = arguments.value().map_err(ToolError::new)?;
        let given = given.as_object().unwrap_or(&none);
        let (ask, secrets) = self.ask(given, &cx).map_err(ToolError::new)?;
        let page = self.api.client.ask(ask).await?;
        let status = page.status;
        let told = told_of_page(page, self.api.max_output).await?;
        self.judged(status, without_secrets(told, &secrets))
    }
}

impl OperationTool {
    /// The request, and the secrets in it.
    fn ask(
        &self,
        given: &Map<String, Value>,
        cx: &ToolContext,
    ) -> Result<(Ask, Vec<SecretString>), String> {
        let Self { api, operation } = self;
        let mut draft = Draft::fill(operation, &api.base, given)?;
        if operation.definition.effect != Effect::Read && cx.origin().is_some() {
            // Servers that know this header ignore a repeated request.
            let name = HeaderName::from_static("idempotency-key");
            draft.secret_header(name, &cx.idempotency_key())?;
        }
        let mut secrets = Vec::new();
        for credential in operation.demand.credentials(&api.credentials) {
            let secret = api.reveal(&credential.secret)?;
            credential.sign(&mut draft, secret.expose_secret())?;
            secrets.push(secret);
        }
        for (name, value) in &api.headers {
            let secret = api.reveal(value)?;
            draft.secret_header(name.clone(), secret.expose_secret())?;
            secrets.push(secret);
        }
        let (url, headers, body) = draft.complete()?;
        let ask = Ask {
            method: operation.method.clone(),
            url,
            headers,
            body,
        };
        Ok((ask, secrets))
    }

    fn judged(&self, status: StatusCode, mut told: String) -> Result<ToolOutput, ToolError> {
        if status.is_success() {
            return Ok(ToolOutput::text(told));
        }
        if let (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, Some(missing)) =
            (status, &self.operation.demand.missing)
        {
            told.push_str(&format!(
                "\n\n(The API asks for a credential that this team has not set: {missing}.)"
            ));
        }
        let answer_was_lost = matches!(
            status,
            StatusCode::BAD_GATEWAY | StatusCode::GATEWAY_TIMEOUT | StatusCode::REQUEST_TIMEOUT
        );
        match answer_was_lost && self.operation.definition.effect == Effect::Once {
            true => Err(ToolError::in_doubt(told)),
            false => Err(ToolError::new(told)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_that_begins_with_another_one_is_taken_out_whole() {
        let secrets = ["hunter2", "hunter2-and-more"].map(SecretString::from);
        let told = without_secrets("a hunter2-and-more b".to_owned(), &secrets);
        assert_eq!(told, "a *** b");
    }
}
