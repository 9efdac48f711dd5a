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
        "adds to a request what an index of documents says about it",
    ),
    (
        "context",
        "requests are kept in bounds: see `context` in `ghostlight team schema`",
    ),
    (
        "planning",
        "the tool `create_tasks`, a least number of plan revisions, and a reflection when the plan stagnates",
    ),
    (
        "recovery",
        "a failed call is reflected on and made good, or told in the answer",
    ),
    (
        "synthesis",
        "the answer is written once more from what the tools found, and cites it",
    ),
    (
        "verification",
        "enough distinct evidence of enough weight before an answer",
    ),
    (
        "repetition",
        "going round in circles is noticed, told, and ended",
    ),
    (
        "self_reflection",
        "patterns in what the agent really did are told to its model",
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
    (
        "input_files",
        "the files that a turn brings are kept as artifacts",
    ),
    (
        "output_key",
        "the answer is kept in state, for others to be told of it",
    ),
    (
        "end_when",
        "the agent's own loop ends when a condition holds",
    ),
    (
        "keep_state",
        "what agents below wrote is kept beyond their tree",
    ),
    (
        "throttle",
        "messages that come too soon after another one are held back, and told to be",
    ),
    (
        "tool_search",
        "of many tools a request holds those that fit",
    ),
    (
        "soft_budget",
        "bounds at which the model is told, and continues or answers, before a budget stops it",
    ),
    (
        "board",
        "the tool `board`, whose entries all agents of a tree share",
    ),
    (
        "skill_tools",
        "while a skill is in use, only the tools that it names are called",
    ),
    (
        "tool_limits",
        "single tools are called so often in a run and no more",
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
    ("audit", "each call is written to a file, with its end"),
    (
        "authorization",
        "says which agents and owners may call which tools and models",
    ),
    (
        "cache",
        "the result of an equal call of a `read` tool or of a model",
    ),
    (
        "circuit_breaker",
        "after several failures calls are refused for a while",
    ),
    (
        "guard",
        "named sets of rules judge what goes in, what comes out and what tools say",
    ),
    ("logging", "each call is told to the log"),
    ("metrics", "counts calls, failures, tokens and times"),
    (
        "personal_data",
        "personal data in what goes out and comes in is replaced, refused or reported",
    ),
    ("prices", "what tokens cost, for budgets in money"),
    (
        "rate_limit",
        "so many calls or tokens in a time, others wait",
    ),
    (
        "retry",
        "failed calls are made again, but never those of `once` tools",
    ),
    (
        "sanitize",
        "instructions that are hidden in what tools and people say are taken out or reported",
    ),
    ("timeout", "a call that takes longer fails"),
    ("tracing", "each call is a span of `tracing`"),
    (
        "validation",
        "texts that are too long or match patterns are refused",
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
