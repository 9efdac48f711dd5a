//! Webhooks: turns that other programs post to an address.

use std::{fmt, time::Duration};

use ghostlight_actors::vocabulary::seconds;
use ghostlight_safety::sole_reference;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{is_default, template_function};

/// A turn that is said when another program posts JSON to the server: what happened there, put into words by
/// [`say`](Self::say).
///
/// The server (`ghostlight serve --listen`) has it at `/hooks/TEAM/NAME`. Every request is signed with the
/// [`secret`](Self::secret); one that comes twice, by a retry or by somebody who recorded it, is one turn.
///
/// Functions change such a value: `{body.name | trim | or nobody}`, with `upper`, `lower`, `trim`, `json`, `url`, `cut NUMBER`
/// and `or TEXT` (where the value is missing).
///
/// `say` and `session` may hold values of the request in braces: `{body.issue.title}` and `{body.labels.0}` of its JSON (or
/// the fields of its form), `{header.x-github-event}`, `{query.name}`; `{body}` is the whole, and `{{` is a brace. `session`
/// and `callback` hold signed values alone: those of the body, and of the headers that the sender signs.
///
/// ```
/// use ghostlight_server::{Webhook, WebhookSignature};
///
/// let issues = Webhook::new("issues", "${GITHUB_SECRET}")
///     .signature(WebhookSignature::Github)
///     .say("Sort this issue: {body.issue.title}")
///     .session("issue-{body.issue.number}");
/// assert!(issues.check().is_ok());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Webhook {
    /// The name: letters, digits, `_` and `-`, unique in the team.
    pub name: String,
    /// A reference to the environment variable that holds the secret which the sender signs with, such as
    /// `${GITHUB_SECRET}`.
    pub secret: String,
    /// How the sender signs.
    #[serde(skip_serializing_if = "is_default")]
    pub signature: WebhookSignature,
    /// The turn's text, with values of the request; the whole body when it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub say: Option<String>,
    /// The key of the session to which it is said, with signed values of the request; the webhook's name when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The owner who says it, in a session that belongs to somebody.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// How long the sender's request waits for the answer, 30 seconds at the most; without it the sender hears at once that
    /// the turn is recorded, and which run it is.
    #[serde(
        rename = "wait_s",
        with = "seconds",
        skip_serializing_if = "is_default"
    )]
    #[schemars(with = "f64")]
    pub wait: Duration,
    /// Where the answer is posted, with signed values of the request, such as `{body.response_url}`. It is signed with the
    /// webhook's secret by Standard Webhooks, and posted as a [`Notification`](super::Notification) is; to Slack, as the text
    /// of a message. The server says which hosts a request may name. It may hold references to environment variables, such
    /// as `${REPLY_TOKEN}`, which are looked up when it is used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub callback: Option<String>,
    /// The methods of HTTP with which a request may come; POST when left out. Requests with a method that has no body are
    /// not taken, because it is the body that is signed.
    #[serde(skip_serializing_if = "is_default")]
    pub methods: Vec<WebhookMethod>,
    /// Whether requests are taken; they are when it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}

/// A method of HTTP with which a webhook's request may come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
#[non_exhaustive]
pub enum WebhookMethod {
    /// POST.
    Post,
    /// PUT.
    Put,
    /// PATCH.
    Patch,
}

impl WebhookMethod {
    /// The method's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
        }
    }
}

/// Where a request has its signature, and what is signed. Each is an HMAC-SHA-256 under the shared secret.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum WebhookSignature {
    /// [Standard Webhooks](https://www.standardwebhooks.com): `webhook-id`, `webhook-timestamp` and `webhook-signature`; a
    /// secret that begins with `whsec_` is base64.
    #[default]
    Standard,
    /// GitHub, and many after it: `X-Hub-Signature-256` over the body alone. Without a time in it a request that was
    /// recorded can be sent again for ever, and is the same turn for ever.
    Github,
    /// Slack: `X-Slack-Signature` and `X-Slack-Request-Timestamp`. Each attempt is signed anew; the same body is the same turn.
    Slack,
    /// Stripe: `Stripe-Signature`, with the time inside. Each attempt is signed anew; the same body is the same turn.
    Stripe,
    /// Ghostlight: `Ghostlight-Signature` and `Ghostlight-Timestamp`.
    Ghostlight,
}

impl WebhookSignature {
    /// Whether the sender signs this header as well as the body. No sender signs the address.
    fn signs(self, header: &str) -> bool {
        let signed: &[&str] = match self {
            Self::Standard => &["webhook-id", "webhook-timestamp"],
            Self::Slack => &["x-slack-request-timestamp"],
            Self::Ghostlight => &["ghostlight-timestamp"],
            Self::Github | Self::Stripe => &[],
        };
        signed.iter().any(|name| header.eq_ignore_ascii_case(name))
    }
}

impl Webhook {
    /// The longest that a sender's request waits, in seconds.
    pub const MAX_WAIT: Duration = Duration::from_secs(30);

    /// A webhook whose body is the turn's text. The secret is a reference, such as `${GITHUB_SECRET}`.
    pub fn new(name: impl Into<String>, secret: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            secret: secret.into(),
            ..Self::default()
        }
    }

    /// Sets how the sender signs.
    #[must_use]
    pub fn signature(mut self, signature: WebhookSignature) -> Self {
        self.signature = signature;
        self
    }

    /// Sets the turn's text.
    #[must_use]
    pub fn say(mut self, text: impl Into<String>) -> Self {
        self.say = Some(text.into());
        self
    }

    /// Sets the key of the session to which it is said.
    #[must_use]
    pub fn session(mut self, key: impl Into<String>) -> Self {
        self.session = Some(key.into());
        self
    }

    /// Sets the owner who sends it.
    #[must_use]
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.owner = Some(owner.into());
        self
    }

    /// Sets how long the sender's request waits for the answer.
    #[must_use]
    pub fn wait(mut self, time: Duration) -> Self {
        self.wait = time;
        self
    }

    /// Sets where the answer is posted.
    #[must_use]
    pub fn callback(mut self, address: impl Into<String>) -> Self {
        self.callback = Some(address.into());
        self
    }

    /// Sets the methods with which a request may come.
    #[must_use]
    pub fn methods(mut self, methods: impl IntoIterator<Item = WebhookMethod>) -> Self {
        self.methods = methods.into_iter().collect();
        self
    }

    /// Sets whether requests are taken.
    #[must_use]
    pub fn enabled(mut self, enabled: bool) -> Self {
        self.enabled = Some(enabled);
        self
    }

    /// Whether a request with this method is taken.
    pub fn takes(&self, method: &str) -> bool {
        let methods = match self.methods.is_empty() {
            true => &[WebhookMethod::Post][..],
            false => &self.methods,
        };
        self.enabled.unwrap_or(true) && methods.iter().any(|known| known.as_str() == method)
    }

    /// The turn's text, with places for values of the request.
    pub fn text(&self) -> &str {
        self.say.as_deref().unwrap_or("{body}")
    }

    /// The key of the session, with places for values of the request.
    pub fn session_key(&self) -> &str {
        self.session.as_deref().unwrap_or(&self.name)
    }

    /// The name of the environment variable that holds the secret.
    pub fn secret_variable(&self) -> Option<&str> {
        sole_reference(&self.secret)
    }

    /// Checks that the webhook has a secret, and that its texts can be filled in.
    ///
    /// # Errors
    /// The fault.
    pub fn check(&self) -> Result<(), String> {
        if self.secret_variable().is_none() {
            return Err(
                "it has no secret: name the environment variable that holds it, such as \
                 `secret: ${GITHUB_SECRET}`"
                    .to_owned(),
            );
        }
        if self.wait > Self::MAX_WAIT {
            let most = Self::MAX_WAIT.as_secs();
            return Err(format!(
                "a request waits {most} seconds at the most (`wait_s`)"
            ));
        }
        let callback = self.callback.as_deref().map(|text| ("callback", text));
        // The parts that a request or the environment fills in are checked when they come.
        let begins = callback.and_then(|(_, text)| text.split(['{', '$']).next());
        if begins.is_some_and(|text| !text.trim().is_empty() && !is_of_http(text)) {
            return Err(
                "`callback` is not an address: it begins with https:// or http://".to_owned(),
            );
        }
        let texts = [("say", self.text()), ("session", self.session_key())];
        for (what, text) in texts.into_iter().chain(callback) {
            if text.trim().is_empty() {
                return Err(format!("`{what}` is empty"));
            }
            let pieces = WebhookPiece::all(text).map_err(|reason| format!("`{what}` {reason}"))?;
            // A recorded request that is sent again with another value would be another turn, or be answered elsewhere.
            let unsigned = pieces.into_iter().find(|piece| !self.is_signed(*piece));
            if let Some(piece) = unsigned.filter(|_| what != "say") {
                return Err(format!(
                    "`{what}` has {{{piece}}}, which the sender does not sign, so that whoever recorded a request could \
                     change it: use values of the body"
                ));
            }
        }
        Ok(())
    }

    fn is_signed(&self, piece: WebhookPiece<'_>) -> bool {
        match piece {
            WebhookPiece::Text(_) | WebhookPiece::Body(_) | WebhookPiece::Through(_) => true,
            WebhookPiece::Header(name) => self.signature.signs(name),
            WebhookPiece::Query(_) => false,
        }
    }
}

fn is_of_http(address: &str) -> bool {
    ["https://", "http://"]
        .iter()
        .any(|scheme| address.starts_with(scheme))
}

/// A part of a webhook's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WebhookPiece<'t> {
    /// Text that is kept unchanged.
    Text(&'t str),
    /// The whole body, or the value at this path of names and numbers.
    Body(&'t str),
    /// A header.
    Header(&'t str),
    /// A parameter of the address.
    Query(&'t str),
    /// Functions that change the value before it, such as `trim | cut 80`; [`through`](Self::through) applies them.
    Through(&'t str),
}

impl fmt::Display for WebhookPiece<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Body("") => f.write_str("body"),
            Self::Body(path) => write!(f, "body.{path}"),
            Self::Header(name) => write!(f, "header.{name}"),
            Self::Query(name) => write!(f, "query.{name}"),
            Self::Through(functions) => write!(f, "| {functions}"),
        }
    }
}

impl<'t> WebhookPiece<'t> {
    /// Splits a text with places in braces into its parts.
    ///
    /// # Errors
    /// The fault.
    pub fn all(text: &'t str) -> Result<Vec<Self>, String> {
        let (mut pieces, mut rest) = (Vec::new(), text);
        while let Some(at) = rest.find(['{', '}']) {
            let (before, from) = rest.split_at(at);
            let is_variable = before.ends_with('$');
            if !before.is_empty() {
                pieces.push(WebhookPiece::Text(before));
            }
            if from.starts_with("{{") || from.starts_with("}}") {
                pieces.push(WebhookPiece::Text(&from[..1]));
                rest = &from[2..];
                continue;
            }
            let inside = from.strip_prefix('{').and_then(|from| from.split_once('}'));
            let Some((name, after)) = inside else {
                return Err("has a brace without its other; write {{ or }} for a brace".to_owned());
            };
            let (name, functions) = match name.split_once('|') {
                Some((name, functions)) => (name.trim(), Some(functions)),
                None => (name, None),
            };
            pieces.push(match name.split_once('.') {
                None if name == "body" => WebhookPiece::Body(""),
                // A reference to an environment variable, in an address.
                None if is_variable && sole_reference(&format!("${{{name}}}")).is_some() => WebhookPiece::Text(&from[..name.len() + 2]),
                Some(("body", path)) if !path.is_empty() => WebhookPiece::Body(path),
                Some(("header", header)) if !header.is_empty() => WebhookPiece::Header(header),
                Some(("query", parameter)) if !parameter.is_empty() => WebhookPiece::Query(parameter),
                _ => {
                    return Err(format!(
                        "has {{{name}}}, which is no value of a request: there are {{body}}, {{body.NAME}}, \
                         {{header.NAME}} and {{query.NAME}}"
                    ));
                }
            });
            if let Some(functions) = functions {
                template_function::check(functions)?;
                pieces.push(WebhookPiece::Through(functions));
            }
            rest = after;
        }
        if !rest.is_empty() {
            pieces.push(WebhookPiece::Text(rest));
        }
        Ok(pieces)
    }

    /// A value after the functions that follow it among the pieces, which are taken out. `None` for a value that is
    /// missing.
    pub fn through(
        pieces: &mut std::iter::Peekable<impl Iterator<Item = Self>>,
        value: Option<String>,
    ) -> Option<String> {
        match pieces.peek() {
            Some(&WebhookPiece::Through(functions)) => {
                pieces.next();
                template_function::apply(functions, value)
            }
            _ => value,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_read_into_its_parts() {
        let text = "{{a}} {body.b.0} {header.X-C}{query.d} {body}!";
        let parts = [
            WebhookPiece::Text("{"),
            WebhookPiece::Text("a"),
            WebhookPiece::Text("}"),
            WebhookPiece::Text(" "),
            WebhookPiece::Body("b.0"),
            WebhookPiece::Text(" "),
            WebhookPiece::Header("X-C"),
            WebhookPiece::Query("d"),
            WebhookPiece::Text(" "),
            WebhookPiece::Body(""),
            WebhookPiece::Text("!"),
        ];
        assert_eq!(WebhookPiece::all(text).unwrap(), parts);
        let of_address = WebhookPiece::all("https://host/${KEY}/${body}").unwrap();
        let parts = [
            WebhookPiece::Text("https://host/$"),
            WebhookPiece::Text("{KEY}"),
            WebhookPiece::Text("/$"),
            WebhookPiece::Body(""),
        ];
        assert_eq!(of_address, parts);
    }

    #[test]
    fn what_cannot_be_used_is_said() {
        let fine = || Webhook::new("w", "${S}");
        fine().check().unwrap();
        for callback in [
            "https://a.example/{body.id}",
            "{body.reply_to}",
            "${ANSWERS}",
        ] {
            fine().callback(callback).check().unwrap();
        }
        let wrong = [
            (Webhook::new("w", ""), "no secret"),
            (Webhook::new("w", "hunter2"), "no secret"),
            (Webhook::new("w", "${a b}"), "no secret"),
            (fine().say(" "), "`say` is empty"),
            (fine().say("{title}"), "no value of a request"),
            (fine().say("{body.a | shout}"), "unknown function `shout`"),
            (fine().session("{query.a | upper}"), "does not sign"),
            (fine().say("{body."), "without its other"),
            (fine().say("a } b"), "without its other"),
            (fine().callback(""), "`callback` is empty"),
            (fine().callback("./answers"), "`callback` is not an address"),
            (
                fine().callback("mail:{body.a}"),
                "`callback` is not an address",
            ),
            (fine().session("{body.}"), "`session` has {body.}"),
            (fine().wait(Duration::from_secs(31)), "30 seconds"),
            (
                fine().session("a-{query.room}"),
                "`session` has {query.room}",
            ),
            (fine().session("{header.x-room}"), "does not sign"),
            (fine().callback("{query.to}"), "`callback` has {query.to}"),
            (
                fine()
                    .signature(WebhookSignature::Github)
                    .session("{header.webhook-id}"),
                "`session` has {header.webhook-id}",
            ),
            (
                fine()
                    .signature(WebhookSignature::Stripe)
                    .session("{header.stripe-signature}"),
                "does not sign",
            ),
        ];
        for (webhook, expected) in wrong {
            let reason = webhook.check().unwrap_err();
            assert!(reason.contains(expected), "{webhook:?}: {reason}");
        }
        let signed = [
            fine().session("{header.Webhook-Id}-{body.room}"),
            fine()
                .signature(WebhookSignature::Slack)
                .session("{header.x-slack-request-timestamp}"),
            fine().say("{header.x-event} {query.from}"),
        ];
        for webhook in signed {
            webhook.check().unwrap();
        }
    }
}
