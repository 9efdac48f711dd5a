//! Messengers: what people write is a turn or an answer, and how they react confirms or refutes what was done.
//!
//! A bridge stands between a messenger and this server. What it posts here ([`Incoming`]) and what is posted to it (see
//! `deliveries`) is all that it must know: it receives, sends and reacts.

#[cfg(feature = "memory")]
pub(crate) mod episodes;
mod heard;
pub(crate) mod telegram;

use std::{sync::Arc, time::Duration};

use axum::{
    Json,
    extract::{Request, State},
    http::{Method, StatusCode},
    response::{IntoResponse as _, Response},
};
use ghostlight_actors::{
    actor::SystemError,
    contract::StoreError,
    session::Turn,
    vocabulary::{Digest, QuestionKind, RunId, SessionId},
};
use ghostlight_safety::unambiguous_json;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{
    address::Path,
    api::{Asked, PATIENCE, Unsaid},
    body,
    caller::{Caller, Holder},
    compatible::answer_of,
    deliveries::{ChatRecipient, SentTurn},
    endpoint::{Access, Endpoints},
    problem::Problem,
    served::{Messenger, MessengerForm, WebhookSignature},
    server::Shared,
    webhooks::verified,
};
use heard::Heard;

/// The most bytes of an id, a person's or chat's name, and of a text.
const MAX_NAME: usize = 128;
const MAX_TEXT: usize = 64 << 10;

/// The news that a bridge tells of its messenger.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
enum Incoming {
    /// Somebody wrote something.
    Message {
        /// The message's id, the same whenever the bridge posts it.
        id: String,
        /// The chat.
        chat: String,
        /// Its writer, as the messenger has checked.
        sender: String,
        /// The text.
        text: String,
    },
    /// Somebody reacted to a message of the team.
    Reaction {
        /// The chat.
        chat: String,
        /// The person who reacted.
        sender: String,
        /// The team's message: the `webhook-id` with which it was posted to the bridge.
        message: String,
        /// The emoji.
        emoji: String,
        /// Whether the reaction was taken back.
        #[serde(default)]
        removed: bool,
    },
}

/// The result of a message.
#[derive(Debug, Serialize, JsonSchema)]
struct Taken {
    /// The run that works on it.
    run: String,
}

pub(crate) fn endpoints(endpoints: Endpoints) -> Endpoints {
    endpoints
        .add(
            Method::POST,
            "/messengers/{team}/{name}",
            // The signature of the body authenticates the bridge.
            Access::Public,
            "What a person wrote in a messenger, or how they reacted, signed by Standard Webhooks.",
            receive,
        )
        .takes::<Incoming>()
        .gives::<Taken>()
}

async fn receive(
    State(state): State<Shared>,
    Path((team, name)): Path<(String, String)>,
    posted: Request,
) -> Result<Response, Problem> {
    let unknown = || Problem::not_found(format!("messenger {name:?} of a team {team:?}"));
    let messengers = state.served(&team)?.ok_or_else(unknown)?.messengers;
    let mut messengers = messengers.into_iter();
    let messenger = messengers.find(|messenger| messenger.name == name);
    let messenger = messenger.ok_or_else(unknown)?;
    let secret = messenger.secret_variable().unwrap_or_default();
    if messenger.form == MessengerForm::Telegram {
        return of_telegram(&state, &team, messenger, posted).await;
    }
    let form = WebhookSignature::Standard;
    let (_, body) = verified(&name, secret, form, posted, &state).await?;
    let incoming: Incoming =
        unambiguous_json(&body).map_err(|error| Problem::invalid(format!("the body: {error}")))?;
    match incoming {
        Incoming::Message {
            id,
            chat,
            sender,
            text,
        } => {
            named("id", &id)?;
            if text.trim().is_empty() || text.len() > MAX_TEXT {
                let detail = format!("`text` is 1 to {MAX_TEXT} bytes");
                return Err(Problem::invalid(detail));
            }
            let person = Person::new(&state, &team, messenger, &chat, &sender)?;
            person.hear(&id, &text).await
        }
        Incoming::Reaction {
            chat,
            sender,
            message,
            emoji,
            removed,
        } => {
            named("message", &message)?;
            named("emoji", &emoji)?;
            let person = Person::new(&state, &team, messenger, &chat, &sender)?;
            person.react(&message, &emoji, removed).await
        }
    }
}

/// An update of a bot of Telegram. One that says nothing to a team is taken, since Telegram would send it again.
async fn of_telegram(
    state: &Shared,
    team: &str,
    messenger: Messenger,
    posted: Request,
) -> Result<Response, Problem> {
    let secret = messenger.secret_variable().unwrap_or_default();
    let secret = state.variables.secret(secret);
    if secret.is_empty() || !telegram::is_genuine(posted.headers(), &secret) {
        let detail = "the update does not show the secret that Telegram was given with the address";
        return Err(Problem::new(StatusCode::UNAUTHORIZED, "signature", detail));
    }
    let (body, _room) = body::unverified(posted, state).await?;
    let text =
        telegram::text_of(&body).map_err(|error| Problem::invalid(format!("the body: {error}")))?;
    let said = text.filter(|said| !said.text.trim().is_empty() && said.text.len() <= MAX_TEXT);
    match said {
        Some(said) => {
            let person = Person::new(state, team, messenger, &said.chat, &said.sender)?;
            person.hear(&said.id, &said.text).await
        }
        None => Ok(StatusCode::OK.into_response()),
    }
}

fn named(what: &str, name: &str) -> Result<(), Problem> {
    let is_fine = !name.trim().is_empty() && !name.chars().any(char::is_control);
    if is_fine && name.len() <= MAX_NAME {
        return Ok(());
    }
    let detail = format!("`{what}` is 1 to {MAX_NAME} bytes without control characters");
    Err(Problem::invalid(detail))
}

/// A person in a chat, with the session that is theirs there.
struct Person {
    asked: Asked,
    session: SessionId,
    to: ChatRecipient,
    cool_down: Duration,
}

impl Person {
    fn new(
        state: &Shared,
        team: &str,
        messenger: Messenger,
        chat: &str,
        sender: &str,
    ) -> Result<Self, Problem> {
        named("chat", chat)?;
        named("sender", sender)?;
        if sender.contains('/') {
            return Err(Problem::invalid("`sender` holds no `/`"));
        }
        // What people write is not taken where they could not be answered.
        state.deliveries()?;
        // Apart from the subjects of keys and tokens, whose names are not given by the messenger.
        let subject = format!("messenger:{}:{sender}", messenger.name);
        let holder = Holder {
            subject: subject.clone(),
            ..Holder::default()
        };
        let asked = Asked::by(state, Caller::Subject(Arc::new(holder)));
        let session = asked.session(team, chat)?;
        Ok(Self {
            asked,
            session,
            cool_down: messenger.cool_down,
            to: ChatRecipient {
                owner: subject,
                secret: messenger.secret_variable().unwrap_or_default().to_owned(),
                token: messenger.token_variable().map(str::to_owned),
                url: messenger.address().to_owned(),
                messenger: messenger.name,
                chat: chat.to_owned(),
                sender: sender.to_owned(),
                message: String::new(),
                emoji: messenger.react,
            },
        })
    }

    /// Takes a message: a turn, or the answer to what the run under way asks.
    async fn hear(mut self, id: &str, text: &str) -> Result<Response, Problem> {
        let digest = Digest::of(id.as_bytes()).to_string();
        let turn = format!("messenger:{}:{digest}", self.to.messenger);
        let run = RunId::of_turn(&self.session, &turn);
        let store = self.asked.system.store().clone();
        let heard = Heard::in_session(&store, &self.session).await?;
        if let Some(((run, asker), operation, value)) = heard.answer(&digest) {
            // It was taken before, perhaps by a process that died before it answered.
            self.answer(asker, operation, value).await?;
            return Ok(taken(run));
        }
        if store.run(run).await?.is_none() && !self.cool_down.is_zero() {
            let who = format!("{}/{}", self.session.team, self.to.owner);
            let refused = self
                .asked
                .state
                .quotas
                .cool_down(&who, &turn, self.cool_down);
            if let Some(refused) = refused.await? {
                return Ok(refused);
            }
        }
        let sent = SentTurn {
            session: self.session.clone(),
            id: turn.clone(),
        };
        let turn = Turn::text(text).id(turn);
        let said = self.asked.say_within(PATIENCE, &self.session, turn);
        let run = match said.await {
            Ok(run) => run,
            Err(Unsaid::Asking(run)) => {
                let run = self.asked.system.run(run);
                let open = run.questions().await?;
                let Some((asker, operation, question)) = open.into_iter().next() else {
                    return Err(Problem::conflict(
                        "the question was just answered: post it again",
                    ));
                };
                if question.kind == QuestionKind::Authentication {
                    let detail = "a credential is not taken in a message";
                    return Err(Problem::invalid(detail));
                }
                let value = answer_of(&question, text)?;
                // Noted first, so that the same message is never taken for a turn afterwards.
                let noted = heard.note(&store, digest, (run.id(), asker), operation, &value);
                noted.await.map_err(|error| match error {
                    StoreError::Conflict { .. } => {
                        Problem::conflict("another message was heard first: post it again")
                    }
                    error => error.into(),
                })?;
                self.answer(asker, operation, value).await?;
                return Ok(taken(run.id()));
            }
            Err(unsaid) => return Err(unsaid.into()),
        };
        self.to.message = id.to_owned();
        let deliveries = self.asked.state.deliveries()?;
        let reply = deliveries.reply(&self.asked.system, (run.id(), &sent), self.to);
        reply.await?;
        Ok(taken(run.id()))
    }

    async fn answer(
        &self,
        asker: RunId,
        operation: ghostlight_actors::vocabulary::OperationId,
        value: serde_json::Value,
    ) -> Result<(), Problem> {
        match self.asked.system.run(asker).answer(operation, value).await {
            Ok(()) => Ok(()),
            Err(SystemError::Answer { error, .. }) if error.is_settled() => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Counts a reaction. Only those to a message that went to this person in this chat say anything.
    #[cfg(feature = "memory")]
    async fn react(self, message: &str, emoji: &str, removed: bool) -> Result<Response, Problem> {
        let to = (&self.session, &self.to);
        let counted = episodes::react(&self.asked.system, to, message, emoji, removed).await?;
        Ok(Json(json!({ "reaction": counted })).into_response())
    }

    #[cfg(not(feature = "memory"))]
    async fn react(self, _: &str, _: &str, _: bool) -> Result<Response, Problem> {
        Ok(Json(json!({ "reaction": "unknown" })).into_response())
    }
}

fn taken(run: RunId) -> Response {
    let run = run.to_string();
    (StatusCode::ACCEPTED, Json(Taken { run })).into_response()
}
