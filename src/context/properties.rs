//! Properties of every conversation and every budget.

use std::{collections::BTreeMap, sync::Arc};

use ghostlight_actors::{
    definition::{Compact, CompactRule, ContextSpec, ContextStrategy, SlidingWindow},
    testing::check_transcript,
    vocabulary::{
        Message, ModelResponse, Part, Role, ToolCall, ToolResult, ToolStatus, Transcript,
    },
};
use proptest::prelude::{
    Just, ProptestConfig, Strategy, any, prop, prop_assert, prop_assert_eq, prop_oneof, proptest,
};
use serde_json::json;

use super::{
    Estimate, TokenCounter,
    draft::Draft,
    history::OtherAgents,
    layout::{Layout, View},
    message_cache::MessageCache,
};

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z][a-z ]{0,59}",
        "[世界上下文很长的话会話]{1,60}",
        "(\\PC|🎉|\n){1,40}x",
        (1_usize..300).prop_map(|words| "word ".repeat(words)),
    ]
}

fn call(id: String) -> impl Strategy<Value = (ToolCall, ToolResult)> {
    let tool = prop_oneof![Just("read_file"), Just("write_file"), Just("search")];
    (tool, text(), text(), any::<bool>()).prop_map(move |(tool, argument, answer, failed)| {
        let call = ToolCall::new(id.clone(), tool, json!({ "content": argument }));
        let status = match failed {
            true => ToolStatus::Error,
            false => ToolStatus::Success,
        };
        let result = ToolResult::new(&call, status, answer);
        (call, result)
    })
}

/// A step: an answer, or calls with their results, in one message or in several.
fn step() -> impl Strategy<Value = Vec<Message>> {
    let calls = (1_usize..4).prop_flat_map(|count| {
        (0..count)
            .map(|place| call(format!("c{place}")))
            .collect::<Vec<_>>()
    });
    let called = (calls, any::<bool>()).prop_map(|(calls, apart)| {
        let (calls, results): (Vec<_>, Vec<_>) = calls.into_iter().unzip();
        let mut asks = Message::assistant("I look.");
        asks.parts.extend(calls.into_iter().map(Part::ToolCall));
        match apart {
            true => [asks]
                .into_iter()
                .chain(results.into_iter().map(|result| Message::results([result])))
                .collect(),
            false => vec![asks, Message::results(results)],
        }
    });
    let said = text().prop_map(|text| vec![Message::assistant(text)]);
    let in_text = (text(), 1_usize..3).prop_map(|(text, made)| {
        let made = (0..made).map(|_| Message::synthetic(text.clone()));
        [Message::assistant("I act.")]
            .into_iter()
            .chain(made)
            .collect()
    });
    let heard = prop_oneof![text(), Just("go on".to_owned())];
    let heard = heard.prop_map(|text| {
        let heard = Message::user(format!("{MEANWHILE}{text}"));
        vec![Message::assistant("hm"), heard]
    });
    prop_oneof![3 => called, 2 => said, 2 => in_text, 1 => heard]
}

/// The beginning of a message that a person sends during a turn.
const MEANWHILE: &str = "meanwhile: ";

/// Several turns, and the steps of a current turn, with the messages that ask for it.
fn history() -> impl Strategy<Value = (Transcript, Vec<Arc<Message>>)> {
    let turn = (text(), prop::collection::vec(step(), 1..5));
    let earlier = prop::collection::vec(turn, 0..6);
    (earlier, text(), prop::collection::vec(step(), 0..6)).prop_map(|(earlier, now, steps)| {
        let mut conversation = Transcript::new();
        for (asked, steps) in earlier {
            conversation.push(Message::user(asked));
            steps.into_iter().for_each(|step| conversation.extend(step));
            conversation.push(Message::assistant("That is it."));
        }
        let begin = conversation.len();
        conversation.push(Message::user(format!("now: {now}")));
        steps.into_iter().for_each(|step| conversation.extend(step));
        let mut asked = conversation.since(begin);
        let mut place = 0;
        asked.retain(|said| {
            place += 1;
            place == 1 || said.content().starts_with(MEANWHILE)
        });
        (conversation, asked)
    })
}

#[derive(Clone, Debug)]
enum Act {
    Turns(u32),
    Tokens(u64),
    Compact(u32),
    Summary(u32, u64, String),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        (1_u32..5).prop_map(Act::Turns),
        (0_u64..2000).prop_map(Act::Tokens),
        (0_u32..3).prop_map(Act::Compact),
        (1_u32..4, 0_u64..2000, text())
            .prop_map(|(keep, tokens, text)| Act::Summary(keep, tokens, text)),
    ];
    prop::collection::vec(act, 1..5)
}

fn spec() -> ContextSpec {
    let rule = CompactRule {
        arguments: vec!["content".to_owned()],
        result: Some("{tool}: {content}".to_owned()),
    };
    ContextSpec::new(1_000).strategy(ContextStrategy::Compact(Compact {
        keep_recent: 1,
        min_tokens: 10,
        tools: BTreeMap::from([("*".to_owned(), rule)]),
    }))
}

fn carry_out(draft: &mut Draft<'_>, act: &Act) {
    match act {
        Act::Turns(turns) => draft.keep_turns(*turns),
        Act::Tokens(tokens) => draft.cut_to(*tokens),
        Act::Compact(keep_recent) => draft.compact(&Compact {
            keep_recent: *keep_recent,
            ..Compact::default()
        }),
        Act::Summary(keep, tokens, text) => {
            if let Some(until) = draft.to_summarize(*keep, *tokens) {
                draft.summarized(until, text.clone());
            }
        }
    }
}

fn texts(message: &Message) -> Vec<&str> {
    message.parts.iter().filter_map(Part::as_text).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// After any strategies in any order, providers accept the conversation, it contains word for
    /// word what asks for the current turn, the last step is whole, and the count is right.
    #[test]
    fn whatever_is_left_out_the_rest_is_a_conversation((conversation, asked) in history(), acts in acts()) {
        let spec = spec();
        let whole = conversation.messages();
        prop_assert_eq!(check_transcript(&whole), Ok(()));
        let last = whole.iter().rposition(|said| said.role == Role::Assistant);
        let view = View::new(conversation.clone(), &asked);
        let cache = MessageCache::default();
        let mut draft = Draft::new(view, Layout::default(), 0, &spec, &Estimate, &cache);
        for act in &acts {
            carry_out(&mut draft, act);
            let messages = &draft.messages();
            prop_assert_eq!(check_transcript(messages), Ok(()), "after {:?}", act);
            prop_assert_eq!(messages[0].role, Role::User);
            let mut there = messages.iter().flat_map(|said| texts(said));
            for asked in &asked {
                prop_assert!(there.any(|text| text == asked.content()), "{:?} is gone", asked);
            }
            // A loop's message in a user's place stays with the step before it.
            prop_assert!(!messages[0].synthetic);
            for pair in messages.windows(2).filter(|pair| pair[1].synthetic) {
                prop_assert!(pair[0].role == Role::Assistant || pair[0].synthetic);
            }
            let counted: u64 = messages.iter().map(|said| Estimate.message(said)).sum();
            prop_assert_eq!(counted, draft.tokens);
            let now = last.filter(|last| *last > draft.view.turn);
            if let Some(now) = now {
                let kept = &messages[messages.len() - (whole.len() - now)..];
                let ids = |said: &[Arc<Message>]| -> Vec<(Role, usize)> {
                    said.iter().map(|said| (said.role, said.tool_results().count())).collect()
                };
                prop_assert_eq!(ids(kept), ids(&whole[now..]));
            }
        }
    }

    /// The bound holds, or nothing more may be left out.
    #[test]
    fn a_window_fits_or_nothing_more_may_go((conversation, asked) in history(), tokens in 0_u64..3_000) {
        let spec = spec();
        let view = View::new(conversation, &asked);
        let cache = MessageCache::default();
        let mut draft = Draft::new(view, Layout::default(), 0, &spec, &Estimate, &cache);
        draft.cut_to(tokens);
        if draft.tokens > tokens {
            prop_assert_eq!(draft.view.cuts(draft.layout.cut), Vec::<usize>::new());
        }
    }

    /// No more is left out than necessary: with one cut less, the request would be too long.
    #[test]
    fn a_window_keeps_what_fits((conversation, asked) in history(), tokens in 200_u64..3_000) {
        let spec = ContextSpec::new(1_000).failures(0);
        let view = View::new(conversation, &asked);
        let cuts = view.cuts(0);
        let cache = MessageCache::default();
        let mut draft = Draft::new(view, Layout::default(), 0, &spec, &Estimate, &cache);
        draft.cut_to(tokens);
        let cut = draft.layout.cut;
        let earlier = cuts.iter().rev().find(|earlier| **earlier < cut).copied();
        if let Some(earlier) = earlier {
            let layout = Layout { cut: earlier, ..Layout::default() };
            draft.lay_out(layout);
            prop_assert!(draft.tokens > tokens, "{} fits into {tokens}", draft.tokens);
        }
    }

    /// The last messages stay even if they do not fit; earlier ones are left out as before.
    #[test]
    fn a_window_keeps_the_last_messages((conversation, asked) in history(), keep in 1_u32..9) {
        let spec = ContextSpec::new(1_000).failures(0).preserve_recent(keep);
        let view = View::new(conversation, &asked);
        let count = view.len();
        let cache = MessageCache::default();
        let mut draft = Draft::new(view, Layout::default(), 0, &spec, &Estimate, &cache);
        draft.cut_to(1);
        prop_assert!(count - draft.layout.cut >= count.min(keep as usize));
    }

    /// A view that grew with its conversation is that of the whole conversation, and its sums are
    /// those of its messages.
    #[test]
    fn a_view_that_grows_is_that_of_the_whole((conversation, asked) in history(), acts in acts(), steps in 1_usize..5) {
        let spec = spec();
        let cache = MessageCache::default();
        let (mut view, mut layout) = (View::default(), Layout::default());
        for length in (0..=conversation.len()).step_by(steps).chain([conversation.len()]) {
            let begun = conversation.truncated(length);
            let there: Vec<_> = begun.messages().into_iter().filter(|said| asked.contains(said)).collect();
            view = view.told(begun.clone(), &begun, &there);
            let whole = View::new(begun.clone(), &there);
            prop_assert_eq!(view.turns(), whole.turns());
            prop_assert_eq!(view.cuts(0), whole.cuts(0));
            let fresh = MessageCache::default();
            let mut other = Draft::new(whole, layout.clone(), 0, &spec, &Estimate, &fresh);
            let mut draft = Draft::new(view, layout, 0, &spec, &Estimate, &cache);
            for act in &acts {
                carry_out(&mut draft, act);
                carry_out(&mut other, act);
                prop_assert_eq!(draft.messages(), other.messages(), "after {:?}", act);
                prop_assert_eq!(draft.tokens, other.tokens);
            }
            layout = draft.layout.clone();
            view = draft.into_view();
        }
    }

    /// A layout fits every extension of its conversation, and no other conversation.
    #[test]
    fn a_layout_is_of_one_conversation(
        (conversation, asked) in history(),
        acts in acts(),
        place in any::<prop::sample::Index>(),
    ) {
        let spec = spec();
        let view = View::new(conversation.clone(), &asked);
        let cache = MessageCache::default();
        let mut draft = Draft::new(view, Layout::default(), 0, &spec, &Estimate, &cache);
        acts.iter().for_each(|act| carry_out(&mut draft, act));
        let layout = draft.layout.clone().about(&conversation);
        prop_assert!(layout.fits(&draft.view));
        let mut longer = conversation.clone();
        longer.push(Message::assistant("more"));
        longer.push(Message::user("and more"));
        prop_assert!(layout.fits(&View::new(longer, &asked)));
        if !layout.is_whole() {
            let changed = place.index(layout.cut.max(layout.compacted).max(1));
            let other = conversation.messages().into_iter().enumerate().map(|(place, said)| match place {
                place if place == changed => Arc::new(Message { author: Some("other".to_owned()), ..Message::clone(&said) }),
                _ => said,
            });
            let other = View::new(other.collect(), &asked);
            prop_assert!(!layout.fits(&other));
        }
        let json = serde_json::to_value(&layout).unwrap_or_default();
        prop_assert_eq!(serde_json::from_value::<Layout>(json).ok(), Some(layout));
    }
}

/// Scenario 7 of the conformance scenarios.
#[test]
fn the_last_three_turns_keep_their_pairs_and_the_current_one() {
    let mut conversation = Transcript::new();
    for turn in 0..6 {
        let call = ToolCall::new("c", "search", json!({ "turn": turn }));
        let mut asks = Message::assistant("I look.");
        asks.parts.push(Part::ToolCall(call.clone()));
        let found = ToolResult::new(&call, ToolStatus::Success, format!("found {turn}"));
        conversation.push(Message::user(format!("question {turn}")));
        conversation.push(asks);
        conversation.push(Message::results([found]));
        conversation.push(Message::assistant(format!("answer {turn}")));
    }
    let input = Arc::new(Message::user("question 6"));
    conversation.push(input.clone());
    let spec = ContextSpec::new(1_000).strategy(ContextStrategy::SlidingWindow(SlidingWindow {
        turns: 3,
        ..SlidingWindow::default()
    }));
    let view = View::new(conversation, &[input]);
    let cache = MessageCache::default();
    let mut draft = Draft::new(view, Layout::default(), 0, &spec, &Estimate, &cache);
    draft.keep_turns(3);
    let kept = &draft.messages();
    assert_eq!(check_transcript(kept), Ok(()));
    assert_eq!(texts(&kept[0])[1], "question 4");
    assert_eq!(kept.len(), 9);
    assert_eq!(texts(&kept[8]), ["question 6"]);
}

#[test]
fn a_window_of_messages_keeps_pairs_and_the_current_question() {
    let mut conversation = Transcript::new();
    for turn in 0..6 {
        let call = ToolCall::new("c", "search", json!({ "turn": turn }));
        let mut asks = Message::assistant("I look.");
        asks.parts.push(Part::ToolCall(call.clone()));
        let found = ToolResult::new(&call, ToolStatus::Success, format!("found {turn}"));
        conversation.push(Message::user(format!("question {turn}")));
        conversation.push(asks);
        conversation.push(Message::results([found]));
        conversation.push(Message::assistant(format!("answer {turn}")));
    }
    let input = Arc::new(Message::user("question 6"));
    conversation.push(input.clone());
    let spec = ContextSpec::new(1_000);
    for (most, kept) in [(100, 25), (9, 9), (8, 5), (4, 1), (1, 1)] {
        let view = View::new(conversation.clone(), std::slice::from_ref(&input));
        let cache = MessageCache::default();
        let mut draft = Draft::new(view, Layout::default(), 0, &spec, &Estimate, &cache);
        draft.keep_messages(most);
        assert_eq!(check_transcript(&draft.messages()), Ok(()));
        assert_eq!(draft.messages().len(), kept, "of {most}");
        let messages = draft.messages();
        let last = messages.last().unwrap();
        assert_eq!(texts(last).last(), Some(&"question 6"));
    }
}

#[test]
fn results_in_text_begin_no_turn_and_are_not_parted_from_their_calls() {
    let mut conversation = Transcript::new();
    for turn in 0..3 {
        conversation.push(Message::user(format!("question {turn}")));
        for step in 0..2 {
            conversation.push(Message::assistant(format!("Action: {turn} {step}")));
            conversation.push(Message::synthetic(format!("Observation: {turn} {step}")));
        }
    }
    let input = Arc::new(Message::user("question 2"));
    let view = View::new(conversation, &[input]);
    assert_eq!(view.turns(), [0, 5, 10]);
    assert_eq!(view.cuts(0), [5, 10, 11, 13]);
}

#[test]
fn turns_and_steps_begin_where_they_did_however_another_agent_is_told() {
    let call = ToolCall::new("c", "search", json!({}));
    let found = ToolResult::new(&call, ToolStatus::Success, "found");
    let asks = ModelResponse::tool_calls([call]).message.as_ref().clone();
    let mut said = Transcript::new();
    for turn in 0..2 {
        said.push(Message::user(format!("question {turn}")));
        said.push(asks.clone().by("clerk"));
        said.push(Message::results([found.clone()]));
        said.push(Message::assistant("That is it.").by("clerk"));
    }
    let input = Arc::new(Message::user("question 1"));
    let told = OtherAgents::default().told_to("desk", &said);
    assert!(told.messages().iter().all(|said| said.role == Role::User));
    let view = View::default().told(told, &said, &[input]);
    assert_eq!(view.turns(), [0, 4]);
    // The steps of an agent that handed over in this turn may also be left out.
    assert_eq!(view.cuts(0), [4, 5, 7]);
    let spec = spec();
    let cache = MessageCache::default();
    let mut draft = Draft::new(view, Layout::default(), 0, &spec, &Estimate, &cache);
    draft.cut_to(0);
    let messages = draft.messages();
    assert_eq!(messages.len(), 1);
    let last = texts(&messages[0]);
    assert!(last.contains(&"question 1"), "{last:?}");
    assert!(
        last.iter().any(|said| said.ends_with("That is it.")),
        "{last:?}"
    );
}
