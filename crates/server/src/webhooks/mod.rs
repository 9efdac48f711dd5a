//! Webhooks of teams: the request of another program becomes a turn.

mod signature;
mod slack;

#[cfg(feature = "deliveries")]
pub(crate) use signature::signed;
use signature::{Claim, Refused};

use std::{sync::Arc, time::SystemTime};

use axum::{
    extract::{Request as Posted, State},
    http::{HeaderMap, Method, StatusCode},
    response::Response,
};
use ghostlight_actors::{actor::Run, session::Turn, vocabulary::SessionId};
use ring::digest;
use serde_json::{Map, Value};

#[cfg(feature = "deliveries")]
use crate::deliveries::SentTurn;
use crate::{
    address::{Path, Query},
    api::{Asked, PATIENCE, TurnView, answer},
    body,
    caller::{Caller, Holder},
    endpoint::{Access, Endpoints},
    problem::Problem,
    served::{Webhook, WebhookPiece, WebhookSignature},
    server::Shared,
};

/// The most bytes of the text that a request gives.
const MAX_TEXT: usize = 256 << 10;

pub(crate) fn endpoints(endpoints: Endpoints) -> Endpoints {
    let methods = [Method::POST, Method::PUT, Method::PATCH];
    methods.into_iter().fold(endpoints, |endpoints, method| {
        endpoints
            .add(
                method,
                "/hooks/{team}/{name}",
                // The signature of the body authenticates the sender.
                Access::Public,
                "Says the turn of a team's webhook: JSON or a form, signed as the webhook wants it.",
                receive,
            )
            .takes::<Value>()
            .gives::<TurnView>()
    })
}

async fn receive(
    State(state): State<Shared>,
    Path((team, name)): Path<(String, String)>,
    Query(query): Query<Vec<(String, String)>>,
    posted: Posted,
) -> Result<Response, Problem> {
    let unknown = || Problem::not_found(format!("webhook {name:?} of a team {team:?}"));
    let webhooks = state.served(&team)?.ok_or_else(unknown)?.webhooks;
    let webhook = webhooks.into_iter().find(|webhook| webhook.name == name);
    let method = posted.method().as_str();
    let webhook = webhook.filter(|webhook| webhook.takes(method));
    let webhook = webhook.ok_or_else(unknown)?;
    let secret = webhook.secret_variable().unwrap_or_default();
    let headers = posted.headers().clone();
    let (id, body) = verified(&name, secret, webhook.signature, posted, &state).await?;
    let body = values(&headers, &body)?;
    let is_of_slack = webhook.signature == WebhookSignature::Slack;
    if is_of_slack && let Some(challenge) = slack::challenge(&body) {
        return Ok(challenge);
    }
    let request = Request {
        body: &body,
        headers: &headers,
        query: &query,
    };
    let text = request.fill("say", webhook.text())?;
    let key = request.fill("session", webhook.session_key())?;
    let caller = match &webhook.owner {
        None => Caller::Operator,
        Some(owner) => Caller::Subject(Arc::new(Holder {
            subject: owner.clone(),
            ..Holder::default()
        })),
    };
    let callback = match webhook.callback.as_deref() {
        Some(text) => Some(request.fill_address("callback", text)?),
        None => None,
    };
    if let Some(address) = &callback {
        check_callback(&state, address)?;
    }
    let asked = Asked::by(&state, caller);
    let session = asked.session(&team, &key)?;
    // A request that is sent again gives the same turn.
    let digest = digest::digest(&digest::SHA256, id.as_bytes());
    let digest: String = digest
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let id = format!("hook:{name}:{digest}");
    let turn = Turn::from(text).id(id.clone());
    let run = asked.say_within(PATIENCE, &session, turn).await?;
    if let Some(address) = &callback {
        // The sender hears of the turn when the address is durable, too; until then it sends the request again.
        call_back(&state, &run, (session, id), (address, &webhook)).await?;
    }
    let wait = (!webhook.wait.is_zero()).then_some(webhook.wait);
    match is_of_slack && body::is_form(&headers) {
        true => Ok(slack::answer(&state, &run, wait).await),
        false => answer(&asked, &run, wait).await,
    }
}

/// The values of a signed body: JSON, or the fields of a form. A form of the one field `payload` holds JSON there (GitHub,
/// Slack).
fn values(headers: &HeaderMap, body: &[u8]) -> Result<Value, Problem> {
    let parsed = |json: &[u8]| {
        body::json(json).map_err(|error| Problem::invalid(format!("the body is not JSON: {error}")))
    };
    if !body::is_form(headers) {
        return parsed(body);
    }
    let mut fields = Map::new();
    for (name, value) in form_urlencoded::parse(body) {
        let known = fields.insert(name.to_string(), Value::String(value.into_owned()));
        if known.is_some() {
            let detail = format!("the form gives the field {name:?} more than once");
            return Err(Problem::invalid(detail));
        }
    }
    match fields.get("payload").and_then(Value::as_str) {
        Some(payload) if fields.len() == 1 => parsed(payload.as_bytes()),
        _ => Ok(Value::Object(fields)),
    }
}

#[cfg(feature = "deliveries")]
fn check_callback(state: &Shared, address: &str) -> Result<(), Problem> {
    let deliveries = state.deliveries()?;
    let revealed = state.variables.reveal(address);
    let revealed = revealed.map_err(|reason| Problem::internal(&reason))?;
    let checked = deliveries.check(&revealed);
    checked.map_err(|error| Problem::invalid(error.to_string()))
}

#[cfg(feature = "deliveries")]
async fn call_back(
    state: &Shared,
    run: &Run,
    (session, id): (SessionId, String),
    (to, webhook): (&str, &Webhook),
) -> Result<(), Problem> {
    let deliveries = state.deliveries()?;
    let turn = SentTurn { session, id };
    let secret = webhook.secret_variable().unwrap_or_default();
    let payload = (webhook.signature == WebhookSignature::Slack).then(slack::message);
    let told = deliveries.call_back(&state.system, (run.id(), &turn), to, (secret, payload));
    Ok(told.await?)
}

#[cfg(not(feature = "deliveries"))]
fn check_callback(_: &Shared, _: &str) -> Result<(), Problem> {
    Err(Problem::no_deliveries())
}

#[cfg(not(feature = "deliveries"))]
async fn call_back(
    _: &Shared,
    _: &Run,
    _: (SessionId, String),
    _: (&str, &Webhook),
) -> Result<(), Problem> {
    Err(Problem::no_deliveries())
}

/// The id and the body of a request to this webhook or messenger, if its signature is valid under the secret of this
/// variable. The body of a request without a recent signature is not read.
pub(crate) async fn verified(
    name: &str,
    variable: &str,
    form: WebhookSignature,
    posted: Posted,
    state: &Shared,
) -> Result<(String, bytes::Bytes), Problem> {
    let secret = state.variables.secret(variable);
    if secret.is_empty() {
        tracing::warn!(%name, %variable, "the secret is not set: requests are refused");
        let detail = "this is not set up: its secret is missing on the server";
        return Err(Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "no-secret",
            detail,
        ));
    }
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now = now.unwrap_or_default().as_secs();
    let unauthorized =
        |refused: Refused| Problem::new(StatusCode::UNAUTHORIZED, "signature", refused.to_string());
    let claim = Claim::read(form, &secret, posted.headers(), now).map_err(unauthorized)?;
    let (body, _room) = body::unverified(posted, state).await?;
    let id = claim.verify(&body).map_err(unauthorized)?;
    Ok((id, body))
}

/// The value at a path of names and numbers, such as `issue.labels.0`; the whole for an empty one.
pub(crate) fn value_at<'v>(value: &'v Value, path: &str) -> Option<&'v Value> {
    let mut names = path.split('.').filter(|name| !name.is_empty());
    names.try_fold(value, |found, name| match found {
        Value::Array(items) => items.get(name.parse::<usize>().ok()?),
        value => value.get(name),
    })
}

/// The source of a webhook's texts.
struct Request<'r> {
    body: &'r Value,
    headers: &'r HeaderMap,
    query: &'r [(String, String)],
}

impl Request<'_> {
    fn fill(&self, what: &str, text: &str) -> Result<String, Problem> {
        self.fill_with(what, text, |value| value)
    }

    /// An address whose variables stay. What looks like one in a value of the request is none.
    fn fill_address(&self, what: &str, text: &str) -> Result<String, Problem> {
        self.fill_with(what, text, |value| value.replace('$', "$$"))
    }

    fn fill_with(
        &self,
        what: &str,
        text: &str,
        written: impl Fn(String) -> String,
    ) -> Result<String, Problem> {
        // The text was checked when the team was read.
        let pieces = WebhookPiece::all(text).map_err(|reason| Problem::internal(&reason))?;
        let mut filled = String::new();
        let mut pieces = pieces.into_iter().peekable();
        while let Some(piece) = pieces.next() {
            let (value, name) = match piece {
                WebhookPiece::Text(text) => (Some(text.to_owned()), text),
                WebhookPiece::Body(path) => (self.in_body(path), path),
                WebhookPiece::Header(name) => (self.in_headers(name), name),
                WebhookPiece::Query(name) => (self.in_query(name), name),
                // They belong to the value before them.
                WebhookPiece::Through(_) => continue,
            };
            let is_text = matches!(piece, WebhookPiece::Text(_));
            let value = WebhookPiece::through(&mut pieces, value);
            let value = match is_text {
                true => value,
                false => value.map(&written),
            };
            let value = value.ok_or_else(|| {
                Problem::invalid(format!(
                    "the webhook's `{what}` wants {name:?}, which the request lacks"
                ))
            })?;
            if filled.len() + value.len() > MAX_TEXT {
                let detail = format!("the webhook's `{what}` comes to more than {MAX_TEXT} bytes");
                return Err(Problem::invalid(detail));
            }
            filled.push_str(&value);
        }
        Ok(filled)
    }

    fn in_body(&self, path: &str) -> Option<String> {
        Some(match value_at(self.body, path)? {
            Value::Null => return None,
            Value::String(text) => text.clone(),
            value => value.to_string(),
        })
    }

    fn in_headers(&self, name: &str) -> Option<String> {
        let value = self.headers.get(name)?.to_str().ok()?;
        Some(value.to_owned())
    }

    fn in_query(&self, name: &str) -> Option<String> {
        let found = self.query.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.clone())
    }
}
