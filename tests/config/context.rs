//! Contexts in team files.

use ghostlight_actors::definition::{
    Compact, ContextSpec, ContextStrategy, SlidingWindow, Summarize, TokenCounting,
};

use crate::{fault, spec};

#[test]
fn a_file_bounds_what_its_agents_are_asked_with() {
    let team = spec(
        "
agent:
  name: desk
  context:
    max_tokens: 8000
    trigger_percent: 90
    counting: estimate
    phrasings: ['{result}', '{tool} says: {result}']
    strategies:
      - name: compact
        tools:
          read_file: { result: 'content of {path}' }
          write_file: { arguments: [content] }
      - { name: summarize, keep_recent: 6 }
      - { name: sliding_window, turns: 20 }
      - { name: token_window }
",
    );
    let Some(context) = team.agent.context else {
        panic!("the context is lost");
    };
    let [
        ContextStrategy::Compact(Compact { tools, .. }),
        ContextStrategy::Summarize(Summarize { keep_recent: 6, .. }),
        ContextStrategy::SlidingWindow(SlidingWindow { turns: 20, .. }),
        ContextStrategy::TokenWindow,
    ] = context.strategies.as_slice()
    else {
        panic!("{:?}", context.strategies);
    };
    assert_eq!(
        tools["read_file"].result.as_deref(),
        Some("content of {path}")
    );
    assert_eq!(tools["write_file"].arguments, ["content"]);
    assert_eq!(context.counting, TokenCounting::Estimate);
    assert_eq!(context.phrasings, ["{result}", "{tool} says: {result}"]);
    let unset = spec("agent: { name: desk, context: {} }").agent.context;
    assert_eq!(unset, Some(ContextSpec::default()));

    for (context, told) in [
        ("{ max_token: 5 }", "unknown key `max_token`"),
        ("{ strategies: [{ name: windw }] }", "windw"),
        ("{ strategies: [{ name: summarize, keep: 2 }] }", "keep"),
        ("{ max_tokens: 0 }", "max_tokens must be at least 1"),
        ("{ phrasings: ['{tool}'] }", "lacks `{result}`"),
    ] {
        let text = format!("agent:\n  name: desk\n  context: {context}\n");
        let (_, line, _, message) = fault(&text);
        assert_eq!(line, 3, "{message}");
        assert!(message.contains(told), "{message}");
    }
}
