//! Conversations that are the same in every run, and what is asked about them.

use std::collections::BTreeMap;

const USERS: [&str; 20] = [
    "Ada", "Bela", "Chloe", "Dilan", "Elif", "Farid", "Greta", "Hana", "Igor", "Jola", "Kaan",
    "Lena", "Mika", "Nora", "Oskar", "Pia", "Quentin", "Rosa", "Samir", "Tove",
];
const SESSIONS: usize = 10;

/// Something about a user that can be so or otherwise.
struct Attribute {
    /// What a fact of it is about, in two ways of saying it.
    about: [&'static str; 2],
    /// The fact.
    fact: &'static str,
    /// What the user says: first, when it changed, and when it is no longer so.
    said: [&'static str; 3],
    /// A question in the words of the fact, and one in other words.
    asked: [&'static str; 2],
    values: [&'static str; 4],
}

const ATTRIBUTES: [Attribute; 12] = [
    Attribute {
        about: ["where {u} lives", "home of {u}"],
        fact: "{u} lives in {v}",
        said: [
            "I live in {v}.",
            "We moved to {v}, boxes and all.",
            "I have no fixed home any more.",
        ],
        asked: ["Where does {u} live now?", "What town is home for {u}?"],
        values: ["Lisbon", "Tromsø", "Graz", "Leeds"],
    },
    Attribute {
        about: ["employer of {u}", "where {u} works"],
        fact: "{u} works for {v}",
        said: [
            "I work for {v}.",
            "I changed jobs, it is {v} now.",
            "I was let go.",
        ],
        asked: [
            "Whom does {u} work for?",
            "Which company pays the salary of {u}?",
        ],
        values: [
            "Nordlys Bank",
            "Harbour Labs",
            "Pinewood Press",
            "Atlas Rail",
        ],
    },
    Attribute {
        about: ["dog of {u}", "pet of {u}"],
        fact: "{u} has a dog called {v}",
        said: [
            "My dog is called {v}.",
            "We have another dog now, {v}.",
            "The dog went to my parents for good.",
        ],
        asked: [
            "What is the dog of {u} called?",
            "What is the name of the pet that {u} walks?",
        ],
        values: ["Rex", "Luna", "Biscuit", "Pepper"],
    },
    Attribute {
        about: ["favourite dish of {u}", "what {u} likes to eat"],
        fact: "the favourite dish of {u} is {v}",
        said: [
            "My favourite dish is {v}.",
            "Forget what I said of food, it is {v} that I love.",
            "I have no favourite dish now.",
        ],
        asked: [
            "What is the favourite dish of {u}?",
            "What should be cooked for {u}?",
        ],
        values: ["ramen", "paella", "pierogi", "dal"],
    },
    Attribute {
        about: ["car of {u}", "what {u} drives"],
        fact: "{u} drives a {v}",
        said: [
            "I drive a {v}.",
            "The old car is gone, I drive a {v}.",
            "I sold the car and have none.",
        ],
        asked: [
            "What does {u} drive?",
            "Which vehicle stands in the garage of {u}?",
        ],
        values: ["Volvo", "Fiat", "Tesla", "Dacia"],
    },
    Attribute {
        about: ["allergy of {u}", "what {u} must not eat"],
        fact: "{u} is allergic to {v}",
        said: [
            "I am allergic to {v}.",
            "They tested again: it is {v}, nothing else.",
            "The doctor says that I have no allergy.",
        ],
        asked: [
            "What is {u} allergic to?",
            "What may not be in the food of {u}?",
        ],
        values: ["peanuts", "shellfish", "sesame", "celery"],
    },
    Attribute {
        about: ["project of {u}", "what {u} works on"],
        fact: "the project of {u} is called {v}",
        said: [
            "My project is called {v}.",
            "I was moved to another project, {v}.",
            "The project was closed.",
        ],
        asked: [
            "What is the project of {u} called?",
            "On which assignment is {u} busy?",
        ],
        values: ["Heron", "Granite", "Mosaic", "Lantern"],
    },
    Attribute {
        about: ["phone of {u}", "which phone {u} has"],
        fact: "{u} uses a {v} phone",
        said: [
            "My phone is a {v}.",
            "I dropped it and got a {v} phone.",
            "I gave up having a phone.",
        ],
        asked: [
            "Which phone does {u} use?",
            "What mobile device is in the pocket of {u}?",
        ],
        values: ["Pixel", "Fairphone", "Galaxy", "Nokia"],
    },
    Attribute {
        about: ["language that {u} learns", "lessons of {u}"],
        fact: "{u} is learning {v}",
        said: [
            "I am learning {v}.",
            "I gave that up and am learning {v}.",
            "I stopped with languages.",
        ],
        asked: [
            "Which language is {u} learning?",
            "What are the evening lessons of {u} in?",
        ],
        values: ["Finnish", "Korean", "Basque", "Swahili"],
    },
    Attribute {
        about: ["team lead of {u}", "boss of {u}"],
        fact: "the team lead of {u} is {v}",
        said: [
            "My team lead is {v}.",
            "There was a change at the top, {v} leads us.",
            "We have no lead at the moment.",
        ],
        asked: ["Who is the team lead of {u}?", "To whom does {u} report?"],
        values: ["Marta", "Jonas", "Priya", "Owen"],
    },
    Attribute {
        about: ["stay of {u}", "where {u} is for a while"],
        fact: "{u} stays at the {v} hotel",
        said: [
            "I stay at the {v} hotel for 9 days.",
            "They moved me to the {v} hotel for 9 days.",
            "I left the hotel.",
        ],
        asked: [
            "At which hotel does {u} stay?",
            "Where does {u} sleep on this trip?",
        ],
        values: ["Aurora", "Meridian", "Seaview", "Linden"],
    },
    Attribute {
        about: ["stand-in of {u}", "who covers for {u}"],
        fact: "{v} stands in for {u}",
        said: [
            "{v} stands in for me for 9 days.",
            "It is {v} who stands in for me, for 9 days.",
            "Nobody stands in for me now.",
        ],
        asked: [
            "Who stands in for {u}?",
            "Who is to be asked while {u} is away?",
        ],
        values: ["Yusuf", "Ingrid", "Tomas", "Wanda"],
    },
];
/// From this attribute on they are so for 9 days.
const PASSING: usize = 10;
const CHATTER: [&str; 5] = [
    "What time is it in Tokyo?",
    "Please shorten the text that I sent.",
    "Thanks, that helped a lot.",
    "Can you check the numbers in the table again?",
    "Good morning! What is on today?",
];

/// Numbers that are the same in every run (a linear congruential generator, with Knuth's constants).
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }
}

fn filled(text: &str, user: &str, value: &str) -> String {
    text.replace("{u}", user).replace("{v}", value)
}

/// What a user says, by which it is known who says it.
fn told(user: &str, text: &str, value: &str) -> String {
    format!("{user} here. {}", filled(text, user, value))
}

/// What a model that makes no mistakes takes out of one thing that was said.
#[derive(Clone)]
pub(crate) struct Meaning {
    pub(crate) about: String,
    pub(crate) fact: Option<String>,
    /// The fact that it changes or ends.
    pub(crate) before: Option<String>,
    pub(crate) days: Option<u32>,
}

pub(crate) struct Question {
    pub(crate) user: &'static str,
    pub(crate) text: String,
    pub(crate) kind: &'static str,
    /// What must be recalled; nothing, where it is no longer so.
    pub(crate) answer: Option<String>,
    /// What must not.
    pub(crate) outdated: Vec<String>,
}

/// The conversations: for each session what each user says in it, with what everything means.
pub(crate) struct Script {
    pub(crate) sessions: Vec<Vec<(&'static str, Vec<String>)>>,
    pub(crate) meanings: BTreeMap<String, Meaning>,
    pub(crate) questions: Vec<Question>,
}

pub(crate) fn script() -> Script {
    let mut dice = Dice(20_261_123);
    let mut sessions: Vec<Vec<(&str, Vec<String>)>> = (0..SESSIONS).map(|_| Vec::new()).collect();
    let (mut meanings, mut questions) = (BTreeMap::new(), Vec::new());
    for user in USERS {
        let mut said: Vec<Vec<String>> = vec![Vec::new(); SESSIONS];
        for (place, attribute) in ATTRIBUTES.iter().enumerate() {
            let passing = place >= PASSING;
            // What passes is said at the beginning, so that it is over in the end.
            let mut at = dice.below(3);
            let first = dice.below(4);
            let mut value = attribute.values[first];
            let mut outdated = Vec::new();
            let meaning = |value: &str, way: usize, before: Option<String>| Meaning {
                about: filled(attribute.about[way], user, value),
                fact: Some(filled(attribute.fact, user, value)),
                before,
                days: passing.then_some(9),
            };
            let text = told(user, attribute.said[0], value);
            meanings.insert(text.clone(), meaning(value, 0, None));
            said[at].push(text);
            // A third stays as it was, half changes once, the rest twice; of all a quarter ends.
            let changes = [0, 1, 2, 1, 0, 1][dice.below(6)];
            for change in 0..changes {
                at += 1 + dice.below(2);
                let before = filled(attribute.fact, user, value);
                outdated.push(value.to_owned());
                value = attribute.values[(first + change + 1) % 4];
                let text = told(user, attribute.said[1], value);
                // It is called something else half of the time, as by a model.
                let way = dice.below(2);
                meanings.insert(text.clone(), meaning(value, way, Some(before)));
                said[at].push(text);
            }
            let ends = !passing && dice.below(4) == 0;
            if ends {
                at += 1 + dice.below(2);
                let ended = Meaning {
                    about: String::new(),
                    fact: None,
                    before: Some(filled(attribute.fact, user, value)),
                    days: None,
                };
                let text = told(user, attribute.said[2], value);
                meanings.insert(text.clone(), ended);
                said[at].push(text);
            }
            let kind = match (passing, ends, changes) {
                (true, ..) => "expired",
                (_, true, _) => "contradicted",
                (.., 0) => "as first said",
                _ => "changed",
            };
            let is_so = !passing && !ends;
            outdated.extend((!is_so).then(|| value.to_owned()));
            let ways = if place % 4 == 0 {
                vec![0, 1]
            } else {
                vec![dice.below(2)]
            };
            for way in ways {
                questions.push(Question {
                    user,
                    text: filled(attribute.asked[way], user, value),
                    kind,
                    answer: is_so.then(|| value.to_owned()),
                    outdated: outdated.clone(),
                });
            }
        }
        for (session, mut said) in said.into_iter().enumerate() {
            for _ in 0..2 {
                let place = dice.below(said.len() + 1);
                said.insert(place, CHATTER[dice.below(CHATTER.len())].to_owned());
            }
            sessions[session].push((user, said));
        }
    }
    Script {
        sessions,
        meanings,
        questions,
    }
}
