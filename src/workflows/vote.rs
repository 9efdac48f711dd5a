//! Agents choose, and the votes decide.

use std::time::Duration;

use ghostlight_actors::{
    definition::AgentSpec,
    run::{Behavior, RunContext},
    vocabulary::{AgentError, ErrorKind, OperationError, Outcome, seconds},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    conversation::with_transcript,
    ends::MemberEnd,
    member::{Part, ask, ask_all, at_least_one, check_members, members, task},
};
use crate::behaviors::Prompt;

const ASK: &str = "\
{task}

Choose one of these and answer with it alone: {options}";

/// Every member votes for one of the options without seeing the other votes. The answer is the
/// option with the most votes.
///
/// A member votes for the option that equals its answer, or else for the only option that its
/// answer mentions, whatever the letters' case. Any other answer, and the failure of a member, is
/// no vote.
///
/// ```yaml
/// behavior: { name: vote, options: [approve, reject], majority: true }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Vote {
    /// The members; all agents below but the one of `tie` when left out.
    pub members: Vec<String>,
    /// The options to choose from.
    pub options: Vec<String>,
    /// The question to a member: `{task}`, `{options}`.
    pub prompt: Prompt,
    /// How many votes must be cast; one when left out.
    pub quorum: u32,
    /// Whether an option needs more than half of the votes cast, and not only the most.
    pub majority: bool,
    /// The rule for a vote in which options are tied, or none has the required majority.
    pub tie: Tie,
    /// How many members vote at once; all when left out.
    pub max_at_once: Option<u32>,
    /// The longest that one vote may take.
    #[serde(rename = "member_timeout_s", with = "seconds")]
    #[schemars(with = "Option<f64>")]
    pub member_timeout: Option<Duration>,
}

impl Default for Vote {
    fn default() -> Self {
        Self {
            members: Vec::new(),
            options: Vec::new(),
            prompt: Prompt::new(ASK),
            quorum: 1,
            majority: false,
            tie: Tie::Fail,
            max_at_once: None,
            member_timeout: None,
        }
    }
}

/// The rule for a [`Vote`] that is tied.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Tie {
    /// The run fails and says how the votes stand.
    #[default]
    Fail,
    /// Of the options with the most votes, the one that stands first in `options`.
    First,
    /// This agent below, which is given the votes, decides.
    Agent(String),
}

impl Vote {
    /// The option that an answer votes for.
    fn choice(&self, answer: &str) -> Option<usize> {
        let answer = answer.trim().trim_end_matches('.').to_lowercase();
        let options = self.options.iter().map(|option| option.to_lowercase());
        let options: Vec<String> = options.collect();
        if let Some(place) = options.iter().position(|option| *option == answer) {
            return Some(place);
        }
        let mut words = options
            .iter()
            .enumerate()
            .filter(|(_, option)| mentions(&answer, option));
        match (words.next(), words.next()) {
            (Some((place, _)), None) => Some(place),
            _ => None,
        }
    }

    /// The options with the most votes, and how many those are.
    fn leaders(votes: &[u32]) -> (Vec<usize>, u32) {
        let most = votes.iter().copied().max().unwrap_or(0);
        let leaders = votes.iter().enumerate();
        let leaders = leaders.filter(|(_, votes)| **votes == most);
        (leaders.map(|(place, _)| place).collect(), most)
    }

    fn judge(&self) -> Option<&str> {
        match &self.tie {
            Tie::Agent(name) => Some(name),
            _ => None,
        }
    }
}

/// Whether a text contains these words as whole words.
fn mentions(text: &str, words: &str) -> bool {
    text.match_indices(words).any(|(at, found)| {
        let before = text[..at].chars().next_back();
        let after = text[at + found.len()..].chars().next();
        let within = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
        !within(before) && !within(after)
    })
}

impl Behavior for Vote {
    async fn run(&self, cx: RunContext) -> Result<Outcome, AgentError> {
        let task = task(&cx);
        let options = self.options.join(", ");
        let texts = [("task", task.as_str()), ("options", &options)];
        let asked = self.prompt.fill(&texts);
        let members = members(cx.spec(), &self.members, &[self.judge()]);
        let parts: Vec<Part> = members
            .iter()
            .map(|member| Part::new(member, asked.as_str()))
            .collect();
        let wait = self.member_timeout;
        let ends = ask_all(&cx, parts, self.max_at_once, wait, MemberEnd::leaves).await?;
        if let Some(end) = ends.ending(MemberEnd::leaves) {
            return end;
        }
        let mut votes = vec![0_u32; self.options.len()];
        for end in ends.iter().filter(|end| end.is_answer()) {
            if let Some(place) = self.choice(&end.told()) {
                votes[place] += 1;
            }
        }
        let counted: Vec<String> = self
            .options
            .iter()
            .zip(&votes)
            .map(|(option, votes)| format!("{option} {votes}"))
            .collect();
        let counted = counted.join(", ");
        cx.emit("votes", &serde_json::json!({ "votes": counted }));
        let cast: u32 = votes.iter().sum();
        let (leaders, most) = Self::leaders(&votes);
        let failed = |what: &str| {
            let message = format!("{what}: {counted}, of {} members", members.len());
            AgentError::from(OperationError::new(ErrorKind::Delegation, message))
        };
        if cast < self.quorum {
            let needed = self.quorum;
            let error = failed(&format!("{cast} votes were cast, and {needed} are needed"));
            return ends.stopped().ok_or(error);
        }
        if leaders.len() == 1 && (!self.majority || most * 2 > cast) {
            return Ok(Outcome::answer(&self.options[leaders[0]]));
        }
        match &self.tie {
            Tie::Fail => ends
                .stopped()
                .ok_or_else(|| failed("the vote decides nothing")),
            Tie::First => Ok(Outcome::answer(&self.options[leaders[0]])),
            Tie::Agent(judge) => {
                let end = ask(&cx, judge, with_transcript(&asked, &ends.told()), wait).await?;
                if !end.is_answer() {
                    return end.into_outcome_after(judge, ends.made());
                }
                match self.choice(&end.told()) {
                    Some(place) => Ok(Outcome::answer(&self.options[place])),
                    None => Err(failed(&format!("{judge} named no option"))),
                }
            }
        }
    }

    fn check(&self, agent: &AgentSpec) -> Result<(), String> {
        if self.options.len() < 2 {
            return Err("options must name at least two".to_owned());
        }
        at_least_one("quorum", Some(self.quorum))?;
        at_least_one("max_at_once", self.max_at_once)?;
        check_members(agent, &self.members, &[("tie", self.judge())], 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vote_is_an_option_alone_or_the_only_one_in_the_answer() {
        let vote = Vote {
            options: vec!["Approve".into(), "reject".into(), "no".into()],
            ..Vote::default()
        };
        for (answer, choice) in [
            ("approve.", Some(0)),
            (" REJECT ", Some(1)),
            ("I would approve it", Some(0)),
            ("approve or reject", None),
            ("I disapprove", None),
            ("nobody knows", None),
            ("no", Some(2)),
        ] {
            assert_eq!(vote.choice(answer), choice, "{answer}");
        }
    }

    #[test]
    fn leaders_are_all_with_the_most_votes() {
        assert_eq!(Vote::leaders(&[1, 2, 2]), (vec![1, 2], 2));
        assert_eq!(Vote::leaders(&[0, 0]), (vec![0, 1], 0));
    }
}
