//! What is asked: the task of a conversation, and its parts.

use ghostlight_actors::{
    definition::{GIVEN_BACK, TAKEN_OVER},
    vocabulary::{Role, ToolCall, ToolResult, ToolStatus, Transcript},
};

use super::arithmetic;

/// The most parts into which a task is split.
const MAX_PARTS: usize = 8;

/// Words that ask.
const QUESTION_WORDS: &[&str] = &[
    "what", "what's", "whats", "how", "why", "when", "where", "who", "whom", "whose", "which",
    "is", "are", "was", "were", "does", "do", "did", "has", "have", "should",
];

/// Words that ask for something politely: what follows them is the request.
const POLITE_WORDS: &[&str] = &[
    "can", "could", "would", "will", "please", "also", "then", "you",
];

/// Words that tell somebody to do something.
const IMPERATIVES: &str = "\
    add ask book calculate cancel check compare compute convert create delete describe divide draft \
    email explain fetch find get give list look make mail move multiply open order plan post read \
    remove rename report research save say search send set show start stop subtract sum summarise \
    summarize tell translate update work write";

/// A part of a task.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Part {
    /// Its words.
    pub(super) text: String,
    /// The arithmetic in it.
    pub(super) arithmetic: Option<String>,
    /// Whether it asks to know something, and not to have something done.
    pub(super) asks: bool,
}

/// The current turn of a conversation.
#[derive(Clone, Debug, Default)]
pub(super) struct CurrentTurn {
    /// What people said in it.
    pub(super) task: String,
    /// The calls that were made for it.
    pub(super) made: Vec<MadeCall>,
}

/// A call that was made, with its result.
#[derive(Clone, Debug)]
pub(super) struct MadeCall {
    pub(super) call: ToolCall,
    pub(super) result: Option<ToolResult>,
}

impl MadeCall {
    /// What the call gave, where it succeeded.
    pub(super) fn success(&self) -> Option<&ToolResult> {
        self.result
            .as_ref()
            .filter(|result| result.status == ToolStatus::Success)
    }

    /// Whether this is the same call, however its arguments are written.
    pub(super) fn is(&self, name: &str, arguments: &serde_json::Value) -> bool {
        self.call.name == name
            && self
                .call
                .arguments
                .value()
                .is_ok_and(|made| made == arguments)
    }
}

impl CurrentTurn {
    /// The turn that began with the first thing said to the model since its last answer.
    pub(super) fn of(conversation: &Transcript) -> Self {
        let messages = conversation.messages();
        let spoken = |role: Role| {
            move |m: &std::sync::Arc<_>| -> bool {
                let message: &ghostlight_actors::vocabulary::Message = m;
                message.role == role && message.tool_calls().next().is_none()
            }
        };
        let answered = messages
            .iter()
            .rposition(spoken(Role::Assistant))
            .map_or(0, |at| at + 1);
        // The engine's notes of a transfer are nobody's wish: this model hands over tasks whole.
        let is_note = |said: &str| said.starts_with(TAKEN_OVER) || said.starts_with(GIVEN_BACK);
        let asks = |m: &std::sync::Arc<ghostlight_actors::vocabulary::Message>| {
            spoken(Role::User)(m) && !is_note(&m.content())
        };
        let asked = messages.iter().skip(answered).position(asks);
        let start = match asked {
            Some(offset) => answered + offset,
            // Nobody spoke since: another agent answered, and the task is still the same.
            None => messages.iter().rposition(asks).unwrap_or(0),
        };
        let mut turn = Self::default();
        for message in &messages[start.min(messages.len())..] {
            let said = message.content();
            if message.role == Role::User && !is_note(&said) {
                if !turn.task.is_empty() {
                    turn.task.push('\n');
                }
                turn.task.push_str(&said);
            }
            for call in message.tool_calls() {
                let (call, result) = (call.clone(), None);
                turn.made.push(MadeCall { call, result });
            }
            for result in message.tool_results() {
                // Ids are unique in one message only, so the last call of an id is meant.
                let of = turn
                    .made
                    .iter_mut()
                    .rev()
                    .find(|made| made.call.id == result.call_id);
                if let Some(made) = of {
                    made.result = Some(result.clone());
                }
            }
        }
        turn
    }

    /// The parts of the task. What only gives context is no part, unless there is nothing else.
    pub(super) fn parts(&self) -> Vec<Part> {
        let mut parts = Vec::new();
        for sentence in sentences(&self.task) {
            parts.extend(clauses(sentence).into_iter().map(Part::new));
        }
        if parts.iter().any(Part::requests) {
            parts.retain(Part::requests);
        } else if !parts.is_empty() {
            parts = vec![Part::new(self.task.trim())];
        }
        parts.truncate(MAX_PARTS);
        parts
    }
}

impl Part {
    /// A whole task as one part.
    pub(super) fn whole(task: &str) -> Self {
        Self::new(task)
    }

    fn new(text: &str) -> Self {
        let text = text.trim();
        let text = ["and ", "then ", "also "]
            .iter()
            .fold(text, |text, joint| text.strip_prefix(joint).unwrap_or(text));
        let arithmetic = arithmetic::expression(text);
        let mut words = lower_words(text);
        let polite = words
            .iter()
            .take_while(|w| POLITE_WORDS.contains(&w.as_str()))
            .count();
        words.drain(..polite);
        let first = words.first().map_or("", String::as_str);
        let knows = [
            "explain", "describe", "tell", "find", "look", "search", "research", "show",
        ];
        let asks = QUESTION_WORDS.contains(&first)
            || knows.contains(&first)
            || polite == 0 && text.ends_with('?') && !is_imperative(first);
        Self {
            text: without_opening(text).to_owned(),
            arithmetic,
            asks,
        }
    }

    /// Whether it asks for anything at all.
    fn requests(&self) -> bool {
        let words = lower_words(&self.text);
        let polite = words.iter().any(|word| word == "please");
        self.asks || polite || self.arithmetic.is_some() || begins_clause(&words)
    }
}

/// A question without the words that only open it, which a search would take for its subject.
fn without_opening(text: &str) -> &str {
    let openings = ["tell me about ", "tell me ", "show me ", "explain to me "];
    let opens = |opening: &&&str| {
        let start = text.get(..opening.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(opening))
    };
    let opening = openings.iter().find(opens);
    opening.map_or(text, |opening| &text[opening.len()..])
}

fn lower_words(text: &str) -> Vec<String> {
    let words = text.split_whitespace().map(|word| {
        let word = word.trim_matches(|c: char| !c.is_alphanumeric());
        word.replace('’', "'").to_lowercase()
    });
    words.filter(|word| !word.is_empty()).collect()
}

fn is_imperative(word: &str) -> bool {
    IMPERATIVES.split(' ').any(|known| known == word)
}

fn begins_clause(words: &[String]) -> bool {
    let mut words = words.iter().map(String::as_str);
    let first = words.find(|word| !["also", "then", "please"].contains(word));
    first.is_some_and(|first| {
        is_imperative(first) || QUESTION_WORDS.contains(&first) || POLITE_WORDS.contains(&first)
    })
}

/// The sentences of a text. Neither a quotation nor a number nor a file name is cut.
pub(super) fn sentences(text: &str) -> Vec<&str> {
    let mut sentences = Vec::new();
    let (mut start, mut quoted) = (0, false);
    let mut characters = text.char_indices().peekable();
    while let Some((at, character)) = characters.next() {
        let space_follows = characters
            .peek()
            .is_none_or(|(_, next)| next.is_whitespace());
        match character {
            '"' | '“' | '”' => quoted = !quoted,
            // A quotation that is never closed does not swallow what follows.
            '\n' => quoted = false,
            _ => {}
        }
        let stops = matches!(character, '.' | '?' | '!') && space_follows && !quoted;
        let stops = stops || matches!(character, '\n' | '。' | '？' | '！');
        if stops {
            let end = at + character.len_utf8();
            sentences.push(text[start..end].trim());
            start = end;
        }
    }
    sentences.push(text[start..].trim());
    sentences.retain(|sentence| sentence.chars().any(char::is_alphanumeric));
    sentences
}

/// The clauses of a sentence: it is cut before an *and* with which a new request begins.
fn clauses(sentence: &str) -> Vec<&str> {
    let mut clauses = Vec::new();
    let mut start = 0;
    for (at, joint) in joints(sentence) {
        if at < start {
            continue;
        }
        let (left, right) = (&sentence[start..at], &sentence[at + joint..]);
        let quoted = sentence[..at].matches('"').count() % 2 == 1;
        let whole = left.split_whitespace().count() >= 2;
        if whole && !quoted && begins_clause(&lower_words(right)) {
            clauses.push(left.trim_end_matches([',', ';', ' ']));
            start = at + joint;
        }
    }
    clauses.push(&sentence[start..]);
    clauses
}

/// Where clauses may be joined, and how long the joint is.
fn joints(sentence: &str) -> Vec<(usize, usize)> {
    let mut joints: Vec<(usize, usize)> = [" and ", " then ", ", ", "; "]
        .iter()
        .flat_map(|joint| sentence.match_indices(joint).map(|(at, m)| (at, m.len())))
        .collect();
    joints.sort_unstable();
    joints
}

#[cfg(test)]
mod tests {
    use ghostlight_actors::vocabulary::Message;

    use super::*;

    fn parts(text: &str) -> Vec<String> {
        let task = text.to_owned();
        let turn = CurrentTurn {
            task,
            made: Vec::new(),
        };
        turn.parts().into_iter().map(|part| part.text).collect()
    }

    #[test]
    fn a_compound_question_has_parts() {
        let cases: [(&str, &[&str]); 8] = [
            (
                "How do I resume a run after a crash, and what is 17% of 2340?",
                &[
                    "How do I resume a run after a crash",
                    "what is 17% of 2340?",
                ],
            ),
            ("What are cats and dogs?", &["What are cats and dogs?"]),
            (
                "What is the sum of 3, 4, and 5?",
                &["What is the sum of 3, 4, and 5?"],
            ),
            (
                "Hello! My price is 80 euro. What is it with VAT?",
                &["What is it with VAT?"],
            ),
            (
                "Read a.txt, then send \"x and what. y\" to Bob.",
                &["Read a.txt", "send \"x and what. y\" to Bob."],
            ),
            ("Hello there.", &["Hello there."]),
            ("Find x; explain y", &["Find x", "explain y"]),
            ("", &[]),
        ];
        for (text, expected) in cases {
            assert_eq!(parts(text), expected, "{text}");
        }
        assert_eq!(parts("Tell me what sleep means."), ["what sleep means."]);
        assert_eq!(parts(&"What is this? ".repeat(50)).len(), MAX_PARTS);
    }

    #[test]
    fn a_request_is_told_from_a_question() {
        let asks = |text: &str| Part::new(text).asks;
        assert!(asks("How do I delete a file?") && asks("Tell me about runs"));
        assert!(asks("VAT in Germany?"));
        assert!(!asks("Delete the file a.txt") && !asks("Can you delete the file a.txt?"));
    }

    #[test]
    fn a_turn_begins_after_the_last_answer() {
        let call = ToolCall::new("1", "f", "{\"a\":1}");
        let result = ToolResult::new(&call, ToolStatus::Success, "one");
        let with_call = ghostlight_actors::vocabulary::ModelResponse::tool_calls([call]);
        let mut conversation = Transcript::from_iter([
            Message::user("old"),
            Message::assistant("done"),
            Message::user("new"),
        ]);
        conversation.push(with_call.message);
        conversation.push(Message::results([result]));
        conversation.push(Message::user("and more"));
        let turn = CurrentTurn::of(&conversation);
        assert_eq!(turn.task, "new\nand more");
        assert_eq!(turn.made.len(), 1);
        assert!(turn.made[0].is("f", &serde_json::json!({"a": 1})));
        assert_eq!(turn.made[0].success().map(|r| r.text.as_str()), Some("one"));
        conversation.push(Message::assistant("by another"));
        assert_eq!(CurrentTurn::of(&conversation).task, "and more");
        assert_eq!(CurrentTurn::of(&Transcript::new()).task, "");
    }
}
