//! The meaning of the built-in names of a team file, in a few words each.

/// Behaviors.
pub(super) const BEHAVIORS: &[(&str, &str)] = &[
    ("simple", "one model call"),
    (
        "function_calling",
        "native tool calling over several turns; the default",
    ),
    ("react", "tools by text, for models without tool calling"),
    ("reflection", "draft, judge, revise, keep the best"),
    (
        "rewoo",
        "plan all calls at once, carry them out side by side, answer",
    ),
    (
        "adaptive",
        "one of the others, by a rule or the task's complexity",
    ),
    (
        "plan_and_solve",
        "plan, do the steps one after the other, answer",
    ),
    (
        "sequential",
        "one after the other, each sees what was said before",
    ),
    (
        "pipeline",
        "one after the other, each gets the answer of the one before",
    ),
    (
        "loop",
        "the same agents again and again, until a condition holds",
    ),
    (
        "parallel",
        "all at once, their answers under their names or put together",
    ),
    ("fallback", "one after the other, until one answers"),
    ("for_each", "one agent for each item of a list"),
    (
        "fan_out",
        "a planner divides the task, workers do the parts, an aggregator answers",
    ),
    (
        "graph",
        "nodes and ways between them, by rules over named values",
    ),
    ("remote", "an agent elsewhere, over Agent2Agent"),
    (
        "remote_process",
        "an agent in a process of its own, over the Agent Client Protocol",
    ),
    ("router", "the agent that fits the task"),
    (
        "round_robin",
        "a conversation in which the agents take turns",
    ),
    ("role_play", "one agent instructs, another one does"),
    ("debate", "agents argue over rounds, and a judge decides"),
    ("vote", "agents choose, the votes decide"),
    (
        "coordinator",
        "a model hands out work to the others over rounds",
    ),
    (
        "orchestrator",
        "a model plans tasks that depend on each other, which are then done",
    ),
    (
        "reactree",
        "a tree of goals that the model divides under sequence, fallback and parallel nodes",
    ),
    ("tool_chain", "tools one after the other, without a model"),
    (
        "code",
        "a program that a model wrote, confined, which calls the agent's tools",
    ),
];

/// Policies.
pub(super) const POLICIES: &[(&str, &str)] = &[
    (
        "cited_answers",
        "holds an answer's citations to what was found in its run",
    ),
    ("memory", "remembers from one run to the next"),
    (
        "recall_documents",
        "adds to a request the passages of an index that fit it",
    ),
    (
        "context",
        "keeps requests in bounds: see `context` in `ghostlight team schema`",
    ),
    (
        "planning",
        "the tool `create_tasks`, a least number of plan revisions, and a reflection when the plan stagnates",
    ),
    (
        "recovery",
        "has the model reflect on a failed call, and make it good or mention it in the answer",
    ),
    (
        "synthesis",
        "has the answer written once more from what the tools found, with citations",
    ),
    (
        "verification",
        "asks for enough distinct evidence of enough weight before an answer",
    ),
    (
        "repetition",
        "notices when the agent goes round in circles, tells its model, and ends it",
    ),
    (
        "self_reflection",
        "tells the model of patterns in what the agent really did",
    ),
    (
        "todos",
        "the tool `todo_write`, whose list lives in the session",
    ),
    ("control", "the tools `exit_loop` and `escalate`"),
    (
        "instructions",
        "instructions as templates over state and artifacts, a provider, the order of their parts",
    ),
    ("input_files", "keeps the files of a turn as artifacts"),
    (
        "output_key",
        "keeps the answer in state, where other agents can read it",
    ),
    (
        "end_when",
        "ends the agent's own loop when a condition holds",
    ),
    (
        "keep_state",
        "keeps what agents below wrote beyond their tree",
    ),
    (
        "throttle",
        "holds back messages that come too soon after another one, and tells the agent so",
    ),
    (
        "tool_search",
        "puts only the fitting ones of many tools into a request",
    ),
    (
        "soft_budget",
        "warns the model, or has it answer, before a budget stops the run",
    ),
    (
        "board",
        "the tool `board`, whose entries all agents of a tree share",
    ),
    (
        "skill_tools",
        "allows only the tools that a skill names while it is in use",
    ),
    (
        "tool_limits",
        "bounds how often single tools are called in a run",
    ),
];

/// Providers of models.
pub(super) const PROVIDERS: &[(&str, &str)] = &[
    ("anthropic", "Anthropic's Messages API"),
    ("bedrock", "models in Amazon Bedrock, by its Converse"),
    (
        "fallback",
        "several models, one after the other until one answers",
    ),
    ("gemini", "Google's Gemini API"),
    (
        "offline",
        "built in, without a network and without a neural network",
    ),
    (
        "openai",
        "OpenAI's chat completions, or a server that is compatible with them",
    ),
    (
        "openai_responses",
        "OpenAI's Responses, also at Azure and on servers that speak the same",
    ),
];

/// Kinds of tools.
pub(super) const TOOL_KINDS: &[(&str, &str)] = &[
    ("a2a", "an agent elsewhere, for a member with `remote`"),
    (
        "acp",
        "an agent in a process, for a member with `remote: { command }`",
    ),
    (
        "anp_presence",
        "announces a service to a registry of the Agent Network Protocol, with its health and load",
    ),
    (
        "anp_registry",
        "asks a registry of the Agent Network Protocol for services",
    ),
    (
        "approval_webhook",
        "asks a server for approval, and waits for its answer",
    ),
    (
        "document_editor",
        "puts documents into an index and removes them, for `document_search` to find",
    ),
    (
        "document_search",
        "searches the documents of a folder, a database or the web",
    ),
    (
        "terminal",
        "tools that run programs without a shell, confined to a folder",
    ),
    (
        "files",
        "several tools for the files of one folder: reads and searches them and, with `write: true`, changes them",
    ),
    ("mcp", "the tools of a server of the Model Context Protocol"),
    ("openapi", "the operations of an OpenAPI document as tools"),
    (
        "skills",
        "tools that read skills, which are folders with a SKILL.md",
    ),
    (
        "web",
        "tools that read pages of the web, from public addresses only",
    ),
];

/// Interceptors.
pub(super) const INTERCEPTORS: &[(&str, &str)] = &[
    ("audit", "writes each call and its end to a file"),
    ("authorization", "decides which agents may call which tools"),
    (
        "cache",
        "answers a call of a model or a `read` tool from an earlier one that was the same",
    ),
    (
        "circuit_breaker",
        "refuses calls for a while after several failures",
    ),
    (
        "guard",
        "judges input, answers and results of tools by named sets of rules",
    ),
    ("logging", "logs each call"),
    ("metrics", "counts calls, failures, tokens and times"),
    (
        "personal_data",
        "replaces, refuses or reports personal data in what goes out and comes in",
    ),
    ("prices", "sets what tokens cost, for budgets in money"),
    (
        "rate_limit",
        "bounds the calls or tokens within a time; others wait",
    ),
    (
        "retry",
        "repeats failed calls, but never those of `once` tools",
    ),
    (
        "sanitize",
        "removes hidden characters and forged marks from what people and tools say",
    ),
    ("timeout", "ends a call that takes too long"),
    ("tracing", "makes each call a span of `tracing`"),
    (
        "validation",
        "refuses texts that are too long or match a pattern",
    ),
];

/// The description of a built-in name; empty if the program itself registered it.
pub(super) fn about(table: &[(&str, &'static str)], name: &str) -> &'static str {
    let found = table.iter().find(|(known, _)| *known == name);
    found.map_or("", |(_, about)| about)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_name_says_what_it_stands_for() {
        let registry = ghostlight::builtin();
        for (table, names) in [
            (BEHAVIORS, registry.behavior_names()),
            (POLICIES, registry.policy_names()),
            (PROVIDERS, registry.provider_names()),
            (INTERCEPTORS, registry.interceptor_kind_names()),
            (TOOL_KINDS, registry.tool_kind_names()),
            (TOOL_KINDS, registry.toolset_kind_names()),
        ] {
            for name in names {
                assert!(!about(table, name).is_empty(), "{name} has no words");
            }
        }
    }
}
