//! A team whose agents do what was drawn, and what they use.

use std::{sync::Arc, time::Duration};

use ghostlight_actors::{
    run::{Agent, RunContext},
    testing::{EffectLog, ScriptedModel},
    vocabulary::{
        AgentError, Answer, Budget, Effect, Message, ModelResponse, Outcome, Role, ToolDefinition,
        Transfer,
    },
};

use crate::{
    drawing::{End, Node, Plan},
    drawn::Counting,
    functions::{Work, call, follow},
};

const TOOLS: [(&str, Effect, u64); 4] = [
    ("look", Effect::Read, 10),
    ("put", Effect::Idempotent, 30),
    ("charge", Effect::Once, 40),
    ("wipe", Effect::Once, 20),
];

/// Asks for two tools, and then answers. What it says depends on the conversation alone.
pub(crate) fn model() -> ScriptedModel {
    let model = ScriptedModel::from_fn(|request, _| {
        let messages = request.conversation.messages();
        let since = messages.iter().rev().take_while(|m| m.role != Role::User);
        let turns = since.filter(|m| m.role == Role::Assistant).count();
        let place = messages.len();
        Ok(match turns {
            0 => ModelResponse::tool_calls([
                call(&format!("m{place}"), "look"),
                call(&format!("n{place}"), "charge"),
            ]),
            _ => ModelResponse::text(format!("after {place}")),
        })
    });
    model.delay(Duration::from_millis(20))
}

/// The team as the code of one life has it.
pub(crate) fn team(plan: &Plan, log: &EffectLog, is_changed: bool) -> Agent {
    let agent = |name, node: &Node, end| {
        let agent = function(name, node.clone(), end, (log.clone(), is_changed));
        match plan.is_watched {
            true => agent.policy("counting", Counting::default),
            false => agent,
        }
    };
    let member = |name, node, end| {
        let agent = agent(name, node, end);
        TOOLS
            .iter()
            .fold(agent, |agent, (tool, ..)| agent.tool_named(*tool))
    };
    let lead = agent("lead", &plan.lead, plan.end);
    let lead = TOOLS.iter().fold(lead, |agent, (name, effect, millis)| {
        let definition = ToolDefinition::new(*name, "is logged").effect(*effect);
        let definition = match *name {
            "wipe" => definition.approval("Wipe {id}?"),
            _ => definition,
        };
        agent.tool(log.tool(definition, Duration::from_millis(*millis)))
    });
    let lead = lead.budget(Budget {
        tool_calls: plan.is_bounded.then_some(25),
        wall_time: plan.wall_time_ms.map(Duration::from_millis),
        ..Budget::default()
    });
    lead.agent(member("one", &plan.one, plan.one_end))
        .agent(member("two", &plan.two, End::Answer))
        .agent(member("closer", &plan.closer, End::Answer))
}

fn function(name: &'static str, node: Node, end: End, code: (EffectLog, bool)) -> Agent {
    Agent::from_fn(name, move |cx: RunContext| {
        let (node, (log, is_changed)) = (node.clone(), code.clone());
        async move {
            let part = format!("{name} {:?}", cx.returned_by());
            let work = Work::new(is_changed, log, part);
            let said = follow(&cx, &node, &work).await?;
            let is_first = !cx.input().content().starts_with("on:") && cx.returned_by().is_none();
            Ok(match end {
                End::Transfer => Outcome::Transfer(to_closer(name)),
                End::Returning if is_first => Outcome::Transfer(to_closer(name).returning()),
                End::GoOn if is_first => cx.continue_as("on:"),
                End::Fail => return Err(AgentError::failed("drawn")),
                _ => {
                    let messages = vec![Arc::new(Message::assistant(said.clone()).by(name))];
                    Outcome::Answer(Answer::text(said).with_messages(messages))
                }
            })
        }
    })
}

fn to_closer(by: &str) -> Transfer {
    let said = vec![Arc::new(Message::assistant("one moment").by(by))];
    Transfer::to("closer").with_messages(said).request("close")
}
